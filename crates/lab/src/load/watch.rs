//! Watches the machine and what is measured during a load, by the testbed's monitor.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::Current;
use procfs::process::Process;
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

/// Where Linux has control groups of version 2: alone, or beside those of version 1.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

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
        let of_packets = packets::round_trip_ms(&self.addresses, start, duration, interval(duration));
        let (samples, of_packets) = tokio::join!(run(self, start, duration, &monitor), of_packets);
        let mut samples = samples?;
        samples.extend(of_packets.map(|ms| ("packet_round_trip_ms".to_owned(), ms)));
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

/// The folder of the control group of a process, if this program is in another one.
fn own_group(pid: u32) -> Option<PathBuf> {
    let group = |process: Process| {
        let groups = process.cgroups().ok()?;
        groups.into_iter().find(|group| group.hierarchy == 0).map(|group| group.pathname)
    };
    let of_process = group(Process::new(i32::try_from(pid).ok()?).ok()?)?;
    let own = group(Process::myself().ok()?)?;
    folder_of_group(&GROUPS.map(Path::new), &of_process, &own)
}

fn folder_of_group(roots: &[&Path], of_process: &str, own: &str) -> Option<PathBuf> {
    let folders = roots.iter().map(|root| root.join(of_process.trim_start_matches('/')));
    folders.filter(|_| of_process != own).find(|folder| folder.join("cpu.stat").exists())
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
    let group = |(number, pid): (usize, &u32)| Some(CgroupWatch::new(&name(GROUP, number), &own_group(*pid)?));
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
    Ok(means)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
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
    fn a_group_is_watched_where_it_is_that_of_a_node_and_not_of_this_program_too() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let group = second.path().join("penates-127.0.1.1");
        std::fs::create_dir(&group).unwrap();
        std::fs::write(group.join("cpu.stat"), "usage_usec 1\n").unwrap();
        let roots = [first.path(), second.path()];
        assert_eq!(folder_of_group(&roots, "/penates-127.0.1.1", "/"), Some(group));
        assert_eq!(folder_of_group(&roots, "/penates-127.0.1.1", "/penates-127.0.1.1"), None);
        // In version 1 it is elsewhere.
        assert_eq!(folder_of_group(&roots, "/other", "/"), None);
        assert_eq!(own_group(std::process::id()), None);
    }
}
