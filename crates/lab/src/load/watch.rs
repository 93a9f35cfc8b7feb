//! Watches the machine and what is measured during a load, by the testbed's monitor.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::Current;
use testbed::monitor::{self, MonitorError, Settings, Watch};

use super::packets;

/// The means of what was sampled, by the names of metrics.
pub(crate) type Means = BTreeMap<String, f64>;

/// What the first process is called in the columns of the monitor.
const FIRST: &str = "node";

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
        let monitor = folder.join("monitor.csv");
        let of_packets = packets::round_trip_ms(&self.addresses, start, duration, interval(duration));
        let (samples, of_packets) = tokio::join!(run(self, start, duration, &monitor), of_packets);
        let mut samples = samples?;
        samples.extend(of_packets.map(|ms| ("packet_round_trip_ms".to_owned(), ms)));
        Ok(samples)
    }
}

/// The name of a process in the columns of the monitor, by its number from 1 on. The first one has no
/// number.
fn name(number: usize) -> String {
    match number {
        1 => FIRST.to_owned(),
        number => format!("{FIRST}{number}"),
    }
}

/// Adds what the other nodes use to what the first one does: `node2_cpu` to `node_cpu`.
fn add_nodes(means: &mut BTreeMap<String, f64>, nodes: usize) {
    for number in 2..=nodes {
        let of_other = format!("{FIRST}{number}_");
        let others: Vec<_> = means
            .iter()
            .filter_map(|(column, mean)| Some((column.strip_prefix(&of_other)?.to_owned(), *mean)))
            .collect();
        for (column, mean) in others {
            *means.entry(format!("{FIRST}_{column}")).or_default() += mean;
        }
    }
}

/// Between two samples of a load that takes so long.
fn interval(duration: Duration) -> Duration {
    INTERVAL.min(duration / SAMPLES_MIN).max(Duration::from_millis(10))
}

/// Writes samples from `start` on for so long, and returns the means of their columns. What could
/// not be sampled is left out.
async fn run(watched: &Watched, start: Instant, duration: Duration, file: &Path) -> Result<Means, MonitorError> {
    let settings = Settings {
        data: Some(watched.data.clone()),
        watches: (1..).zip(&watched.pids).map(|(number, pid)| Watch { name: name(number), pid: *pid }).collect(),
        cgroups: Vec::new(),
        metrics: None,
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
    use super::*;

    #[test]
    fn what_nodes_use_is_added_and_each_keeps_its_own_column() {
        assert_eq!([name(1), name(3)], ["node", "node3"]);
        let columns = [("node_cpu", 1.0), ("node2_cpu", 2.0), ("node3_cpu", 4.0), ("cpu", 8.0)];
        let mut means: BTreeMap<_, _> = columns.map(|(column, mean)| (column.to_owned(), mean)).into();
        add_nodes(&mut means, 3);
        assert_eq!([means["node_cpu"], means["node2_cpu"], means["cpu"]], [7.0, 2.0, 8.0]);
    }
}
