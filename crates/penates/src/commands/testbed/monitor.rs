//! `penates testbed monitor`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use testbed::monitor::{CgroupWatch, MetricsSource, RemoteMonitor, Settings, Watch};
use testbed::record::Machine;
use tokio::net::TcpListener;

use crate::exit::{CliError, full_message};

/// Arguments of `penates testbed monitor`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates testbed monitor --listen 10.0.0.8:7401 --token-file worker.token --pid 4711 --data /srv/penates")]
pub struct MonitorArgs {
    /// Where coordinators reach it.
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A file with the token that coordinators must show. It is the same as that of workers.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// A process to watch, with all its descendants; may be repeated.
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
}

/// Watches until it is killed.
pub async fn run(args: MonitorArgs) -> anyhow::Result<()> {
    let token = std::fs::read_to_string(&args.token_file);
    let token = token.with_context(|| format!("reading {}", args.token_file.display()))?.trim().to_owned();
    if token.is_empty() {
        return Err(CliError::Usage("the file of --token-file has no token".to_owned()).into());
    }
    let watch = |pid: &u32| match args.pid.as_slice() {
        [_] => Watch { name: "server".to_owned(), pid: *pid },
        _ => Watch { name: format!("process-{pid}"), pid: *pid },
    };
    let monitor = RemoteMonitor {
        token,
        program: super::measure::program()?,
        machine: Machine::find(args.data.as_deref()),
        settings: Settings {
            watches: args.pid.iter().map(watch).collect(),
            cgroups: args.cgroup.iter().map(|folder| CgroupWatch::new("container", folder)).collect(),
            data: args.data,
            // Workers may run here too, and nobody says so.
            others: false,
            metrics: args.metrics.map(|url| MetricsSource { url, token: None, prefixes: vec![String::new()] }),
            interval: Duration::from_secs(1),
        },
    };
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
    println!("Listening on {}", listener.local_addr()?);
    match monitor.serve(listener, |error| note!("penates: {}", full_message(error))).await {}
}
