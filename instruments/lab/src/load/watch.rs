//! Watches the machine and what is measured during a load, by the testbed's monitor.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::process::Process;
use procfs::{Current, ProcResult, ProcessCGroup};
use testbed::monitor::{self, CgroupWatch, MonitorError, Settings, Watch};

use super::packets;

/// The means of what was sampled, by the names of metrics.
pub(crate) type Means = BTreeMap<String, f64>;

/// The file of a run with all samples.
pub(crate) const FILE: &str = "monitor.csv";

/// What the first process is called in the columns of the monitor.
const FIRST: &str = "node";

/// What its control group is called, if it has one of its own.
const GROUP: &str = "container";

/// Where Linux has control groups: those of version 2 here or below `unified`, and those of version 1
/// in a folder for each controller.
const GROUPS: &str = "/sys/fs/cgroup";

/// Between two samples; shorter loads have at least this many.
const INTERVAL: Duration = Duration::from_secs(1);
const SAMPLES_MIN: u32 = 4;

/// What is watched.
pub(crate) struct Watched {
    /// A folder on the disk of the data.
    pub data: PathBuf,
    /// The processes: one for each node, in order.
    pub pids: Vec<u32>,
    /// Where they are asked.
    pub addresses: Vec<SocketAddr>,
}

impl Watched {
    /// Writes all samples of a load into a folder, and returns what they say.
    pub async fn run(&self, start: Instant, duration: Duration, folder: &Path) -> Result<Means, MonitorError> {
        let monitor = folder.join(FILE);
        let of_packets = packets::round_trip_ms(&self.addresses, start, duration, interval(duration), folder);
        let (samples, of_packets) = tokio::join!(run(self, start, duration, &monitor), of_packets);
        let mut samples = samples?;
        samples.extend(of_packets?.map(|ms| ("packet_round_trip_ms".to_owned(), ms)));
        Ok(samples)
    }
}

/// The name of a process or of its group in the columns of the monitor, by its number from 1 on. The
/// first one has no number.
fn name(of: &str, number: usize) -> String {
    match number {
        1 => of.to_owned(),
        number => format!("{of}{number}"),
    }
}

/// The folders of the control groups of a process that this program is not in too; none if it is in
/// all of them.
fn own_groups(pid: u32) -> Vec<PathBuf> {
    let of = |process: ProcResult<Process>| process.and_then(|process| process.cgroups());
    let of_process = i32::try_from(pid).ok().and_then(|pid| of(Process::new(pid)).ok());
    match of_process.zip(of(Process::myself()).ok()) {
        Some((of_process, own)) => folders_of_groups(Path::new(GROUPS), &of_process.0, &own.0),
        None => Vec::new(),
    }
}

fn folders_of_groups(root: &Path, of_process: &[ProcessCGroup], own: &[ProcessCGroup]) -> Vec<PathBuf> {
    let is_own = |group: &&ProcessCGroup| {
        let ours = own.iter().find(|ours| ours.hierarchy == group.hierarchy);
        ours.is_some_and(|ours| ours.pathname == group.pathname)
    };
    let folder = |group: &ProcessCGroup| {
        let below = group.pathname.trim_start_matches('/');
        let roots: Vec<_> = match group.hierarchy {
            // The file shows which of the two places of version 2 it is.
            0 => vec![root.to_owned(), root.join("unified")],
            _ => group.controllers.iter().map(|controller| root.join(controller)).collect(),
        };
        roots.into_iter().map(|root| root.join(below)).find(|folder| folder.join("cgroup.procs").exists())
    };
    of_process.iter().filter(|group| !is_own(group)).filter_map(folder).collect()
}

/// Adds what the other nodes use to what the first one does: `node2_cpu` to `node_cpu`.
fn add_nodes(means: &mut BTreeMap<String, f64>, nodes: usize) {
    [FIRST, GROUP].into_iter().for_each(|of| add_others(means, of, nodes));
}

fn add_others(means: &mut BTreeMap<String, f64>, of: &str, nodes: usize) {
    for number in 2..=nodes {
        let of_other = format!("{of}{number}_");
        let others: Vec<_> = means
            .iter()
            .filter_map(|(column, mean)| Some((column.strip_prefix(&of_other)?.to_owned(), *mean)))
            .collect();
        for (column, mean) in others {
            *means.entry(format!("{of}_{column}")).or_default() += mean;
        }
    }
}

/// Between two samples of a load that takes so long.
pub(crate) fn interval(duration: Duration) -> Duration {
    INTERVAL.min(duration / SAMPLES_MIN).max(Duration::from_millis(10))
}

/// Writes samples from `start` on for so long, and returns the means of their columns. What could
/// not be sampled is left out.
async fn run(watched: &Watched, start: Instant, duration: Duration, file: &Path) -> Result<Means, MonitorError> {
    let numbered = || (1..).zip(&watched.pids);
    let group = |(number, pid): (usize, &u32)| {
        let folders = own_groups(*pid);
        (!folders.is_empty()).then(|| CgroupWatch { name: name(GROUP, number), folders })
    };
    let settings = Settings {
        data: Some(watched.data.clone()),
        watches: numbered().map(|(number, pid)| Watch { name: name(FIRST, number), pid: *pid }).collect(),
        cgroups: numbered().filter_map(group).collect(),
        metrics: None,
        // Their figures are sampled apart, of the load's table.
        nodes: Vec::new(),
        others: false,
        interval: interval(duration),
    };
    let out = File::create(file).map_err(csv::Error::from)?;
    let end = tokio::time::sleep_until((start + duration).into());
    monitor::run(&settings, start.into(), out, end).await?;
    let samples = monitor::read("node", File::open(file).map_err(csv::Error::from)?)?;
    let mean = |(at, column): (usize, &String)| {
        // The first sample is of the time before the start.
        let rows = samples.rows.iter().filter(|(at_s, _)| *at_s > 0.0);
        let values: Vec<_> = rows.filter_map(|(_, values)| values.get(at).copied().flatten()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then(|| (column.replace('.', "_"), mean))
    };
    let mut means: BTreeMap<_, _> = samples.columns.iter().enumerate().filter_map(mean).collect();
    add_nodes(&mut means, watched.pids.len());
    let share = procfs::Meminfo::current().ok().zip(means.get("memory_used_bytes"));
    let share = share.map(|(memory, used)| used / memory.mem_total as f64);
    means.extend(share.map(|share| ("memory_used_share".to_owned(), share)));
    let throughput = means.get("disk_read_bytes_per_s").zip(means.get("disk_written_bytes_per_s"));
    let throughput = throughput.map(|(read, written)| read + written);
    means.extend(throughput.map(|bytes| ("disk_bytes_per_s".to_owned(), bytes)));
    Ok(means)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use procfs::{FromBufRead, ProcessCGroups};

    use super::*;

    #[test]
    fn what_nodes_use_is_added_and_each_keeps_its_own_column() {
        assert_eq!([name(FIRST, 1), name(GROUP, 3)], ["node", "container3"]);
        let columns = [
            ("node_cpu", 1.0),
            ("node2_cpu", 2.0),
            ("node3_cpu", 4.0),
            ("cpu", 8.0),
            ("container_cpu_throttled", 0.5),
            ("container2_cpu_throttled", 0.25),
        ];
        let mut means: BTreeMap<_, _> = columns.map(|(column, mean)| (column.to_owned(), mean)).into();
        add_nodes(&mut means, 3);
        assert_eq!([means["node_cpu"], means["node2_cpu"], means["cpu"]], [7.0, 2.0, 8.0]);
        assert_eq!(means["container_cpu_throttled"], 0.75);
    }

    #[test]
    fn groups_are_watched_where_they_are_those_of_a_node_and_not_of_this_program_too() {
        let root = tempfile::tempdir().unwrap();
        let made = |folder: &str| {
            let folder = root.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cgroup.procs"), "").unwrap();
            folder
        };
        let groups = |lines: &str| ProcessCGroups::from_buf_read(lines.as_bytes()).unwrap().0;
        let own = groups("9:name=systemd:/\n4:memory:/job\n2:cpu,cpuacct:/\n0::/\n");
        let found = |lines: &str| folders_of_groups(root.path(), &groups(lines), &own);
        // Version 1: a group for each controller. One of a controller that is mounted nowhere is none.
        let (memory, cpu) = (made("memory/penates"), made("cpu/penates"));
        let of_first = "9:name=systemd:/\n4:memory:/penates\n2:cpu,cpuacct:/penates\n1:pids:/penates\n0::/\n";
        assert_eq!(found(of_first), [memory.clone(), cpu]);
        assert_eq!(found("4:memory:/penates\n2:cpu,cpuacct:/\n0::/\n"), [memory]);
        // Version 2, beside it and alone.
        let unified = made("unified/penates");
        assert_eq!(found("4:memory:/job\n2:cpu,cpuacct:/\n0::/penates\n"), [unified]);
        let alone = made("penates");
        assert_eq!(found("0::/penates\n"), [alone]);
        assert!(found("0::/\n").is_empty() && own_groups(std::process::id()).is_empty());
    }
}
