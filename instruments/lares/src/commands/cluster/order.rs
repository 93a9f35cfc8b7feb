//! Orders to a cluster that runs: `lares cluster status`, `start`, `stop`, `kill`, `pause`,
//! `resume`, `down`.

use clap::Args;
use cluster::{ClusterError, NodeId, Order};

use super::{FolderArgs, blocking, print_nodes};
use terminal::OutputArgs;

/// Arguments of `cluster status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares cluster status
  lares cluster status --folder /tmp/three --json")]
pub struct StatusArgs {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Which node, and the form of the output.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The node's number, from 1.
    #[arg(value_name = "NODE")]
    number: u8,
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Defines the arguments of an order to one node: they differ in their examples.
macro_rules! order_to_a_node {
    ($name:ident, $command:literal) => {
        #[doc = concat!("Arguments of `cluster ", $command, "`.")]
        #[derive(Debug, Args)]
        #[command(after_help = concat!("Example:\n  lares cluster ", $command, " 2"))]
        pub struct $name {
            #[command(flatten)]
            pub(super) node: NodeArgs,
        }
    };
}

order_to_a_node!(StartArgs, "start");
order_to_a_node!(StopArgs, "stop");
order_to_a_node!(KillArgs, "kill");
order_to_a_node!(PauseArgs, "pause");
order_to_a_node!(ResumeArgs, "resume");

/// Arguments of `cluster down`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lares cluster down --folder /tmp/three")]
pub struct DownArgs {
    #[command(flatten)]
    folder: FolderArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `cluster status`.
pub async fn status(args: StatusArgs) -> anyhow::Result<()> {
    let nodes = blocking(move || cluster::order(args.folder.folder, Order::Status)).await?;
    print_nodes(&nodes, args.output)
}

/// Sends an order to one node.
pub async fn node(order: impl FnOnce(NodeId) -> Order, args: &NodeArgs) -> anyhow::Result<()> {
    let (folder, order) = (args.folder.folder.clone(), order(NodeId(args.number)));
    let nodes = blocking(move || cluster::order(folder, order)).await?;
    print_nodes(&nodes, args.output)
}

/// Runs `cluster down`.
pub async fn down(args: DownArgs) -> anyhow::Result<()> {
    let nodes = blocking(move || match cluster::order(&args.folder.folder, Order::Down) {
        // The cluster is down, as requested.
        Err(error @ ClusterError::NotRun { .. }) => {
            note!("{error}");
            Ok(Vec::new())
        }
        other => other,
    });
    print_nodes(&nodes.await?, args.output)
}
