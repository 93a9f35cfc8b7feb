//! `lares cluster up`

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use clap::Args;
use cluster::{Cluster, ClusterSpec, CommitlogSync, Control, Network, NodeId, NodeState, NodeStatus, Shape};
use serde_json::Value;

use super::{FolderArgs, blocking, detach, print_nodes, with_exit_code};
use terminal::OutputArgs;
use terminal::exit::CliError;
use terminal::interrupt;
use terminal::output::Output;

/// The pause between two looks at the nodes.
const PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `cluster up`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares cluster up --nodes 3
  lares cluster up --nodes 2 --datacenters 2 --folder /tmp/two-centers --detach
  lares cluster up --commitlog-sync group:5ms --heap 512MiB --yaml concurrent_writes=64")]
pub struct UpArgs {
    #[command(flatten)]
    pub(super) folder: FolderArgs,
    /// Nodes in each data center [default: 1]
    #[arg(long, value_name = "N")]
    nodes: Option<u8>,
    /// Data centers: dc1, dc2 and so on [default: 1]
    #[arg(long, value_name = "N")]
    datacenters: Option<u8>,
    /// Leave the cluster running in the background until `lares cluster down`.
    #[arg(long)]
    detach: bool,
    /// Be the background process, which reports once to the process that started it.
    #[arg(long, hide = true)]
    is_detached: bool,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The settings of nodes. Other settings keep their last values.
#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes")]
struct SettingsArgs {
    /// When a write is acknowledged: periodic, batch or group, the first and the last also with a
    /// time (group:5ms) [default: periodic:10s]
    #[arg(long, value_name = "MODE")]
    commitlog_sync: Option<CommitlogSync>,
    /// Require clients to log in; the first role is cassandra with the password cassandra.
    #[arg(long)]
    authentication: bool,
    /// Let clients use TLS, at the same port. They should trust tls/ca.pem in the folder.
    #[arg(long)]
    client_tls: bool,
    /// Each node's heap [default: what fits into memory, 256MiB to 1GiB]
    #[arg(long, value_name = "SIZE")]
    heap: Option<ByteSize>,
    /// The nodes' network: node N is 127.0.K.N [default: the first that is free]
    #[arg(long, value_name = "K")]
    network: Option<u8>,
    /// More of cassandra.yaml; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    yaml: Vec<(String, Value)>,
    /// One more option for the Java machine; may be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    jvm_option: Vec<String>,
    /// How long a node may take until it is up [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    up_within: Option<Duration>,
}

/// A setting of cassandra.yaml. Its value is JSON, or else a word.
fn key_and_value(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("it is KEY=VALUE")?;
    Ok((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
}

impl UpArgs {
    /// The requested specification; other values are those of the folder's cluster.
    fn spec(&self) -> cluster::Result<ClusterSpec> {
        let known = Cluster::spec_in(&self.folder.folder)?;
        let mut spec = known.unwrap_or_else(|| ClusterSpec::new(Shape::nodes(1)));
        let shape = &mut spec.shape;
        shape.datacenters = self.datacenters.unwrap_or(shape.datacenters);
        shape.nodes_per_datacenter = self.nodes.unwrap_or(shape.nodes_per_datacenter);
        let (asked, settings) = (&self.settings, &mut spec.settings);
        spec.network = asked.network.map_or(spec.network, Network::Fixed);
        settings.commitlog_sync = asked.commitlog_sync.unwrap_or(settings.commitlog_sync);
        settings.authentication |= asked.authentication;
        settings.client_tls |= asked.client_tls;
        settings.heap_mib = asked.heap.map(|heap| (heap.as_u64() >> 20) as u32).or(settings.heap_mib);
        settings.up_within = asked.up_within.unwrap_or(settings.up_within);
        settings.yaml.extend(asked.yaml.iter().cloned());
        if !asked.jvm_option.is_empty() {
            settings.jvm_options.clone_from(&asked.jvm_option);
        }
        Ok(spec)
    }
}

/// Runs it.
pub async fn run(args: UpArgs) -> anyhow::Result<()> {
    if args.is_detached {
        cluster::leave_terminal()?;
    } else if args.detach {
        return detach::run(&args).await;
    }
    let ending = interrupt::asked_to_end()?;
    tokio::pin!(ending);
    let (folder, spec) = (args.folder.folder.clone(), args.spec().map_err(with_exit_code)?);
    note!("{} in {}", spec.shape, folder.display());
    if cluster::is_to_be_fetched().map_err(with_exit_code)? {
        note!("Fetching Cassandra {} from Maven Central, this once.", cluster::CASSANDRA_VERSION);
    }
    let opening = blocking(move || Cluster::open(folder, &spec));
    let cluster = tokio::select! {
        opened = opening => Arc::new(opened?),
        () = &mut ending => return Err(CliError::Interrupted.into()),
    };
    let control = Control::open(&cluster).map_err(with_exit_code)?;
    report_changes(&cluster);
    let starting = cluster.clone();
    tokio::select! {
        started = blocking(move || starting.start_all()) => started?,
        () = &mut ending => {
            blocking(move || cluster.kill_all()).await?;
            return Err(CliError::Interrupted.into());
        }
    }
    report_ready(&args, &cluster)?;
    let serving = blocking(move || {
        while !control.wait_until_down(PAUSE) {}
        Ok(())
    });
    tokio::select! {
        ended = serving => ended,
        () = &mut ending => {
            note!("Ending all nodes; interrupt again to kill them.");
            let again = interrupt::asked_to_end()?;
            tokio::select! {
                ended = blocking(move || cluster.stop_all()) => ended,
                () = again => Err(CliError::Interrupted.into()),
            }
        }
    }
}

/// Prints changes of nodes' states on standard error, as long as the cluster lives.
fn report_changes(cluster: &Arc<Cluster>) {
    let cluster = Arc::downgrade(cluster);
    std::thread::spawn(move || {
        let mut known: BTreeMap<NodeId, (NodeState, Instant)> = BTreeMap::new();
        while let Some(nodes) = cluster.upgrade().map(|cluster| cluster.status()) {
            for node in nodes {
                let before = known.get(&node.node).copied();
                if before.map_or(NodeState::Stopped, |(state, _)| state) != node.state {
                    note!("{}", change(&node, before.map(|(_, since)| since.elapsed())));
                    known.insert(node.node, (node.state, Instant::now()));
                }
            }
            std::thread::sleep(PAUSE);
        }
    });
}

fn change(node: &NodeStatus, after: Option<Duration>) -> String {
    let after = after.map(|after| format!(" (after {:.1} s)", after.as_secs_f64())).unwrap_or_default();
    let state = match node.state {
        NodeState::Starting => "is starting",
        NodeState::Up => "is up",
        NodeState::Stopping => "is ending",
        NodeState::Paused => "is held",
        NodeState::Stopped => "has ended",
        NodeState::Died => "has died",
    };
    let hint = if node.state == NodeState::Died { format!("; see {}", node.log.display()) } else { String::new() };
    format!("node {} in {} at {} {state}{after}{hint}", node.node, node.datacenter, node.cql)
}

/// Prints that all nodes are up, and what to do with them.
fn report_ready(args: &UpArgs, cluster: &Cluster) -> anyhow::Result<()> {
    let nodes = cluster.status();
    if args.is_detached {
        return detach::report(&nodes);
    }
    if args.output.json {
        return print_nodes(&nodes, args.output);
    }
    what_to_try(args, &nodes, "Ctrl-C ends it.")
}

/// Prints what to do with a cluster.
pub(super) fn what_to_try(args: &UpArgs, nodes: &[NodeStatus], end: &str) -> anyhow::Result<()> {
    let folder = args.folder.folder.display();
    let contact_points: Vec<_> = nodes.iter().map(|node| node.cql.to_string()).collect();
    let first = nodes.iter().filter(|node| node.datacenter == nodes[0].datacenter);
    let hosts: Vec<_> = first.map(|node| node.cql.to_string()).collect();
    let mut output = Output::stdout();
    output.line(format!(
        "
CQL contact points:  {}
Serve from it:       penates serve --store cassandra://{}/penates
See how it is:       lares cluster status --folder {folder}
Kill a node:         lares cluster kill 1 --folder {folder}

{end}",
        contact_points.join(", "),
        hosts.join(","),
    ))?;
    output.finish()
}
