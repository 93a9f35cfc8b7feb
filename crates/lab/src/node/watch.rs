//! Watches the machine and the node during a load, by the testbed's monitor.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use procfs::Current;
use testbed::monitor::{self, MonitorError, Settings, Watch};

use cluster::NodeId;

use super::one::One;
use super::{jmx, packets};

/// What the first node is called in the columns of the monitor.
const FIRST: &str = "node";

/// Between two samples; shorter loads have at least this many.
const INTERVAL: Duration = Duration::from_secs(1);
const SAMPLES_MIN: u32 = 4;

/// What is watched.
pub(super) struct Watched<'a> {
    /// The nodes: their processes, data, MBeans and addresses.
    pub nodes: &'a [One],
}

impl Watched<'_> {
    /// Writes all samples of a load into a folder, and returns what they say.
    pub async fn run(
        &self,
        start: Instant,
        duration: Duration,
        folder: &Path,
    ) -> Result<BTreeMap<String, f64>, MonitorError> {
        let monitor = folder.join("monitor.csv");
        let of_jmx = jmx::sample(self.nodes, start, duration, folder);
        let addresses: Vec<_> = self.nodes.iter().map(|node| node.cql).collect();
        let of_packets = packets::round_trip_ms(&addresses, start, duration, interval(duration));
        let (samples, of_jmx, of_packets) = tokio::join!(run(self, start, duration, &monitor), of_jmx, of_packets);
        let mut samples = samples?;
        samples.extend(of_packets.map(|ms| ("packet_round_trip_ms".to_owned(), ms)));
        samples.extend(of_jmx.map_err(csv::Error::from)?);
        Ok(samples)
    }
}

/// The name of a node in the columns of the monitor. The first one has no number.
fn name(node: NodeId) -> String {
    match node {
        NodeId(1) => FIRST.to_owned(),
        NodeId(number) => format!("{FIRST}{number}"),
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
async fn run(
    watched: &Watched<'_>,
    start: Instant,
    duration: Duration,
    file: &Path,
) -> Result<BTreeMap<String, f64>, MonitorError> {
    let settings = Settings {
        data: watched.nodes.first().map(|node| node.folder.clone()),
        watches: watched.nodes.iter().map(|node| Watch { name: name(node.id), pid: node.pid }).collect(),
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
    add_nodes(&mut means, watched.nodes.len());
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
        assert_eq!([name(NodeId(1)), name(NodeId(3))], ["node", "node3"]);
        let columns = [("node_cpu", 1.0), ("node2_cpu", 2.0), ("node3_cpu", 4.0), ("cpu", 8.0)];
        let mut means: BTreeMap<_, _> = columns.map(|(column, mean)| (column.to_owned(), mean)).into();
        add_nodes(&mut means, 3);
        assert_eq!([means["node_cpu"], means["node2_cpu"], means["cpu"]], [7.0, 2.0, 8.0]);
    }
}
