//! `lares testbed monitor`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use testbed::beside::{LOGS_MAX, check_log};
use testbed::monitor::{CgroupWatch, MetricsSource, NodeSource, RemoteMonitor, Settings, Watch};
use testbed::record::Machine;
use tokio::net::TcpListener;

use terminal::exit::{CliError, full_message};
use terminal::output::Output;

/// Arguments of `lares testbed monitor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed monitor --listen 10.0.0.8:7401 --token-file worker.token --pid 4711 --data /srv/penates
  lares testbed monitor --listen 10.0.0.8:7401 --token-file worker.token --log /var/log/penates.log")]
pub struct MonitorArgs {
    /// Where coordinators reach it.
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A file with the token that coordinators must know. It is the same as that of workers.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// A process of the candidate to watch, with all its descendants; may be repeated. All others are not the
    /// candidate then: if they use much of the processors, the run is void. The record has the digest of its
    /// program, if this user may read it, and its command line. Whoever knows the token gets both.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// The folder of a control group (version 2), such as that of a container, to watch.
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// The folder where the candidate keeps its data here, or another path on the disk to watch. The record has
    /// the disk and the file system.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The address of metrics in Prometheus's format.
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// The address of Jolokia in a node of Cassandra, such as http://127.0.0.1:8778/jolokia; may be repeated.
    /// Nodes have the names node1, node2 and so on.
    #[arg(long, value_name = "URL")]
    jolokia: Vec<String>,
    /// A log of the candidate to follow; may be repeated. A run that fails has its lines around the first
    /// error. Whoever knows the token gets what is added to it while a load runs.
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
}

impl MonitorArgs {
    /// The logs that are followed.
    fn logs(&self) -> Result<Vec<PathBuf>, CliError> {
        if self.log.len() > LOGS_MAX {
            return Err(CliError::Usage(format!("--log: at most {LOGS_MAX} logs")));
        }
        let refused = self.log.iter().find_map(|log| check_log(log).err());
        refused.map_or(Ok(self.log.clone()), |why| Err(CliError::Usage(format!("--log: {why}"))))
    }

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
    let (listen, logs) = (args.listen, args.logs()?);
    let monitor = RemoteMonitor {
        token,
        program: super::measure::program()?,
        machine: Machine::find(args.data.as_deref()),
        settings: args.settings(),
        logs,
    };
    let listener = TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
    let mut output = Output::stdout();
    output.line(format!("Listening on {}", listener.local_addr()?))?;
    output.finish()?;
    match monitor.serve(listener, |error| note!("lares: {}", full_message(error))).await {}
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn args(pid: &[u32], log: &[PathBuf]) -> MonitorArgs {
        MonitorArgs {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            token_file: PathBuf::new(),
            pid: pid.to_vec(),
            cgroup: None,
            data: None,
            metrics: None,
            jolokia: vec!["http://127.0.0.1:1/jolokia".to_owned()],
            log: log.to_vec(),
        }
    }

    #[test]
    fn logs_that_are_missing_no_files_or_too_many_are_refused_before_anybody_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("server.log");
        let logs = |logs: &[PathBuf]| args(&[], logs).logs();
        let refused = |logs: &[PathBuf]| args(&[], logs).logs().unwrap_err().to_string();
        assert_eq!(refused(std::slice::from_ref(&log)), format!("--log: there is no file {}", log.display()));
        std::fs::write(&log, "").unwrap();
        assert_eq!(logs(std::slice::from_ref(&log)).unwrap(), std::slice::from_ref(&log));
        let both = [log.clone(), folder.path().to_owned()];
        assert!(refused(&both).ends_with(" cannot be followed: it is no plain file"), "{}", refused(&both));
        assert_eq!(refused(&vec![log; LOGS_MAX + 1]), "--log: at most 16 logs");
    }

    #[test]
    fn a_monitor_samples_what_others_use_only_if_it_knows_the_processes_of_the_candidate() {
        let settings = |pid: &[u32]| args(pid, &[]).settings();
        assert!(!settings(&[]).others);
        assert!(settings(&[7]).others);
        let names: Vec<_> = settings(&[7, 8]).watches.into_iter().map(|watch| watch.name).collect();
        assert_eq!(names, ["process-7", "process-8"]);
        assert_eq!(settings(&[]).nodes[0].name, "node1");
    }
}
