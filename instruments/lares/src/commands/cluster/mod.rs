//! `lares cluster`

mod detach;
mod order;
mod up;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cluster::{ClusterError, NodeStatus, Order};
use serde_json::{Value, json};

use terminal::OutputArgs;
use terminal::exit::CliError;
use terminal::output::{Output, cell};

/// Arguments of `lares cluster`.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What to do with a cluster.
#[derive(Debug, Subcommand)]
enum Action {
    /// Start a cluster and run it until Ctrl-C, or in the background.
    ///
    /// If the folder has a cluster already, it starts again with its data, and with its settings
    /// unless others are given.
    Up(up::UpArgs),
    /// Show the state of each node.
    Status(order::StatusArgs),
    /// Start a node that was stopped, was killed or died.
    Start(order::StartArgs),
    /// Ask a node to end: it informs the others and writes its memtables.
    Stop(order::StopArgs),
    /// Kill a node (SIGKILL).
    Kill(order::KillArgs),
    /// Hold a node: it keeps its connections and answers nothing (SIGSTOP).
    Pause(order::PauseArgs),
    /// Let a held node continue (SIGCONT).
    Resume(order::ResumeArgs),
    /// Ask all nodes to end, and end the process that runs them. Their data stays in the folder.
    Down(order::DownArgs),
}

/// Which cluster.
#[derive(Clone, Debug, Args)]
struct FolderArgs {
    /// The cluster's folder.
    #[arg(long, value_name = "DIR", default_value = "cassandra")]
    folder: PathBuf,
}

/// Runs it.
pub async fn run(args: ClusterArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Up(args) => up::run(args).await,
        Action::Status(args) => order::status(args).await,
        Action::Start(args) => order::node(Order::Start, &args.node).await,
        Action::Stop(args) => order::node(Order::Stop, &args.node).await,
        Action::Kill(args) => order::node(Order::Kill, &args.node).await,
        Action::Pause(args) => order::node(Order::Pause, &args.node).await,
        Action::Resume(args) => order::node(Order::Resume, &args.node).await,
        Action::Down(args) => order::down(args).await,
    }
}

/// Runs blocking work on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ClusterError> + Send + 'static,
) -> anyhow::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())).map_err(with_exit_code)
}

/// The exit code of an error.
fn with_exit_code(error: ClusterError) -> anyhow::Error {
    match error {
        ClusterError::BadSpec(_) | ClusterError::OtherShape { .. } | ClusterError::NoSuchNode { .. } => {
            CliError::Usage(error.to_string()).into()
        }
        ClusterError::NotRun { .. } | ClusterError::NoCluster { .. } | ClusterError::FolderHeld { .. } => {
            CliError::Unreachable(error.to_string()).into()
        }
        _ => error.into(),
    }
}

/// Prints the states of nodes.
fn print_nodes(nodes: &[NodeStatus], form: OutputArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if form.json {
        nodes.iter().try_for_each(|node| output.json(node))?;
    } else {
        let columns = ["node", "state", "datacenter", "cql", "jmx", "pid", "log"];
        let row = |node: Value| columns.iter().map(|column| cell(&node[column])).collect();
        let rows: Vec<Vec<String>> = nodes.iter().map(|node| row(json!(node))).collect();
        output.table(&columns, &rows)?;
    }
    output.finish()
}
