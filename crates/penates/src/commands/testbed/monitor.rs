//! `penates testbed monitor`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use testbed::monitor::{CgroupWatch, MetricsSource, NodeSource, RemoteMonitor, Settings, Watch};
use testbed::record::Machine;
use tokio::net::TcpListener;

use crate::exit::{CliError, full_message};
use crate::output::Output;

/// Arguments of `penates testbed monitor`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates testbed monitor --listen 10.0.0.8:7401 --token-file worker.token --pid 4711 --data /srv/penates")]
pub struct MonitorArgs {
    /// Where coordinators reach it.
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A file with the token that coordinators must know. It is the same as that of workers.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// A process to watch, with all its descendants; may be repeated. All others are not the candidate then:
    /// if they use much of the processors, the run is void.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// The folder of a control group (version 2), such as that of a container, to watch.
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// A path on the disk to watch.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The address of metrics in Prometheus's format.
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// The address of Jolokia in a node of Cassandra, such as http://127.0.0.1:8778/jolokia; may be repeated.
    /// Nodes have the names node1, node2 and so on.
    #[arg(long, value_name = "URL")]
    jolokia: Vec<String>,
}

impl MonitorArgs {
    /// What is sampled.
    fn settings(self) -> Settings {
        let watch = |pid: &u32| match self.pid.as_slice() {
            [_] => Watch { name: "server".to_owned(), pid: *pid },
            _ => Watch { name: format!("process-{pid}"), pid: *pid },
        };
        let node = |(number, url): (usize, String)| NodeSource { name: format!("node{number}"), url };
        Settings {
            watches: self.pid.iter().map(watch).collect(),
            cgroups: self.cgroup.iter().map(|folder| CgroupWatch::new("container", folder)).collect(),
            data: self.data,
            // Without the candidate's processes their time would be that of others. The coordinator knows what
            // workers on this machine use.
            others: !self.pid.is_empty(),
            metrics: self.metrics.map(|url| MetricsSource { url, token: None, prefixes: vec![String::new()] }),
            nodes: (1..).zip(self.jolokia).map(node).collect(),
            interval: Duration::from_secs(1),
        }
    }
}

/// Watches until it is killed.
pub async fn run(args: MonitorArgs) -> anyhow::Result<()> {
    let token = std::fs::read_to_string(&args.token_file);
    let token = token.with_context(|| format!("reading {}", args.token_file.display()))?.trim().to_owned();
    if token.is_empty() {
        return Err(CliError::Usage("the file of --token-file has no token".to_owned()).into());
    }
    let listen = args.listen;
    let monitor = RemoteMonitor {
        token,
        program: super::measure::program()?,
        machine: Machine::find(args.data.as_deref()),
        settings: args.settings(),
    };
    let listener = TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
    let mut output = Output::stdout();
    output.line(format!("Listening on {}", listener.local_addr()?))?;
    output.finish()?;
    match monitor.serve(listener, |error| note!("penates: {}", full_message(error))).await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_samples_what_others_use_only_if_it_knows_the_processes_of_the_candidate() {
        let settings = |pid: &[u32]| {
            let args = MonitorArgs {
                listen: SocketAddr::from(([127, 0, 0, 1], 0)),
                token_file: PathBuf::new(),
                pid: pid.to_vec(),
                cgroup: None,
                data: None,
                metrics: None,
                jolokia: vec!["http://127.0.0.1:1/jolokia".to_owned()],
            };
            args.settings()
        };
        assert!(!settings(&[]).others);
        assert!(settings(&[7]).others);
        let names: Vec<_> = settings(&[7, 8]).watches.into_iter().map(|watch| watch.name).collect();
        assert_eq!(names, ["process-7", "process-8"]);
        assert_eq!(settings(&[]).nodes[0].name, "node1");
    }
}
