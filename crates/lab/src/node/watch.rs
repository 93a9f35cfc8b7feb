//! Watches the machine and the node during a load, by the testbed's monitor.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use procfs::Current;
use testbed::monitor::{self, MonitorError, Settings, Watch};

use super::jmx::Jmx;
use super::packets;

/// Between two samples; shorter loads have at least this many.
const INTERVAL: Duration = Duration::from_secs(1);
const SAMPLES_MIN: u32 = 4;

/// What is watched.
pub(super) struct Watched<'a> {
    /// The process of the node.
    pub pid: u32,
    /// Its data.
    pub data: &'a Path,
    /// Its MBeans, if they are read.
    pub jmx: Option<&'a Jmx>,
    /// Where it takes CQL.
    pub cql: SocketAddr,
}

impl Watched<'_> {
    /// Writes all samples of a load into a folder, and returns what they say.
    pub async fn run(
        &self,
        start: Instant,
        duration: Duration,
        folder: &Path,
    ) -> Result<BTreeMap<String, f64>, MonitorError> {
        let (monitor, mbeans) = (folder.join("monitor.csv"), folder.join("jmx.csv"));
        let of_jmx = async {
            match self.jmx {
                Some(jmx) => jmx.sample(start, duration, &mbeans).await,
                None => Ok(BTreeMap::new()),
            }
        };
        let of_packets = packets::round_trip_ms(self.cql, start, duration, interval(duration));
        let (samples, of_jmx, of_packets) = tokio::join!(run(self, start, duration, &monitor), of_jmx, of_packets);
        let mut samples = samples?;
        samples.extend(of_packets.map(|ms| ("packet_round_trip_ms".to_owned(), ms)));
        samples.extend(of_jmx.map_err(csv::Error::from)?);
        Ok(samples)
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
        data: Some(watched.data.to_owned()),
        watches: vec![Watch { name: "node".to_owned(), pid: watched.pid }],
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
    let share = procfs::Meminfo::current().ok().zip(means.get("memory_used_bytes"));
    let share = share.map(|(memory, used)| used / memory.mem_total as f64);
    means.extend(share.map(|share| ("memory_used_share".to_owned(), share)));
    Ok(means)
}
