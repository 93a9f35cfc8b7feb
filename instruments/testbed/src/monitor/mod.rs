//! Samples of a machine, of chosen processes and of a metrics endpoint, each second, as CSV.
//!
//! A sample has the values of the time since the sample before. Its columns are `at_s`, then those
//! of the machine, then those of each watched process and each node of Cassandra with its name before
//! them (`server.cpu`, `node1.gc_per_s`), then those of the endpoint
//! (`metrics.requests_total{code="200"}`). A value that is not known is an empty field. The machine is
//! read from `/proc` and `/sys`, so that this works on Linux only.
//!
//! | Columns | Values |
//! |---|---|
//! | `cpu`, `cpu_user`, `cpu_system` | share of all processors in use, 0 to 1; not stolen time |
//! | `cpu_iowait`, `cpu_steal` | share idle with a request to a disk open; share stolen |
//! | `memory_used_bytes`, `memory_cached_bytes` | memory not available; pages of files |
//! | `disk_used` | share in use of the file system of the data, 0 to 1 |
//! | `disk_…_per_s`, `disk_busy`, `disk_latency_ms` | the whole disk below that file system |
//! | `network_…_bytes_per_s`, `loopback_bytes_per_s` | all interfaces but `lo`; `lo` |
//! | `pressure_…` | share of the time in which some work waited for the resource, 0 to 1 |
//! | `NAME.cpu`, `NAME.cpu_user`, `NAME.cpu_system` | in processors: 1.5 is one and a half |
//! | `NAME.memory_bytes`, `NAME.threads`, `NAME.open_files` | sums with all descendants |
//! | `NAME.read_bytes_per_s`, `NAME.written_bytes_per_s` | from and to disks |
//! | `NAME.cpu_throttled` | of a control group: processors that it could not use because of its quota |
//! | `NAME.memory_used_bytes`, `NAME.memory_limit_bytes` | of a control group: without pages of files; its limit |
//! | `NAME.pressure_…` | of a control group (version 2): share of the time in which some of its work waited |
//! | `cpu_others` | processors that neither this process nor what is watched uses |
//! | `NODE.pending_compactions`, `NODE.live_bytes` | compactions that wait or run; files that are read |
//! | `NODE.compacted_bytes_per_s`, `NODE.memtable_switches_per_s` | what compactions read; flushes begun |
//! | `NODE.gc_per_s`, `NODE.gc_share` | collections of garbage; their share of the time, 0 to 1 |
//! | `NODE.dropped_messages_per_s`, `NODE.timeouts_per_s` | of other nodes; of clients |
//! | `metrics.…` | counters as rates per second, gauges as they are; no buckets of histograms |

mod cassandra;
mod cgroup;
mod clock;
mod counters;
mod cpu;
pub(crate) mod device;
mod disk;
mod endpoint;
pub(crate) mod exposition;
mod memory;
mod network;
mod pressure;
mod processes;
mod remote;
mod scrape;
mod series;
mod snapshot;
mod table;
mod usage;

#[cfg(test)]
pub(crate) mod test_server;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

pub use cassandra::NodeSource;
use cassandra::Nodes;
pub(crate) use cassandra::answering;
pub use cgroup::CgroupWatch;
use clock::Clock;
pub use counters::{Counters, DiskBytes, Resident, children};
pub(crate) use endpoint::Endpoint;
pub use endpoint::FetchError;
pub(crate) use processes::{Groups, has_processes};
pub use remote::{RemoteError, RemoteMonitor};
pub(crate) use remote::{ShippedLog, Watcher};
use scrape::Scrape;
use snapshot::{Sampler, Snapshot};
use table::Table;
pub use table::read;

/// How long a machine is watched before a run, to see whether it is busy with something else.
pub(crate) const BUSY_WINDOW: Duration = Duration::from_secs(1);

/// A process to watch, with all its descendants.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// The name before its columns.
    pub name: String,
    /// Its id. If no process has it at the beginning, or once the process ends, the fields are
    /// empty.
    pub pid: u32,
}

/// What is sampled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A path on the disk to watch. It must exist at the beginning.
    pub data: Option<PathBuf>,
    /// Processes to watch.
    pub watches: Vec<Watch>,
    /// Control groups to watch.
    pub cgroups: Vec<CgroupWatch>,
    /// Whether others are sampled too: what of the processors neither this process, nor what is watched, nor
    /// descendants of them use.
    pub others: bool,
    /// An endpoint that reports metrics.
    pub metrics: Option<MetricsSource>,
    /// Nodes of Cassandra whose figures are sampled.
    pub nodes: Vec<NodeSource>,
    /// From sample to sample, usually one second. The kernel counts processor time in hundredths
    /// of a second.
    pub interval: Duration,
}

/// An endpoint that reports metrics in the Prometheus text format.
#[derive(Clone, PartialEq)]
pub struct MetricsSource {
    /// Its address, such as `http://127.0.0.1:9100/metrics`.
    pub url: String,
    /// A bearer token.
    pub token: Option<String>,
    /// A series is chosen if its name begins with one of these. The empty prefix chooses all.
    pub prefixes: Vec<String>,
}

impl fmt::Debug for MetricsSource {
    /// Without the token, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsSource").field("url", &self.url).field("prefixes", &self.prefixes).finish()
    }
}

/// What a monitor did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Samples written.
    pub samples: u64,
    /// Requests to the endpoint that gave no page. Their fields are empty.
    pub failed_fetches: u64,
    /// Why the last of them failed.
    pub last_failure: Option<String>,
    /// Series of one page that have no column because the first page did not have them; the most
    /// of any page.
    pub series_left_out: usize,
}

/// Why there are no samples.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The interval is zero.
    #[error("the interval must be longer than zero")]
    Interval,
    /// The endpoint's address is malformed.
    #[error("{0:?} is not an address that begins with http:// and a host")]
    Url(String),
    /// The token is malformed.
    #[error("the token has characters that a header cannot have")]
    Token,
    /// Two columns have the same name.
    #[error("two columns have the name {0:?}")]
    DoubleColumn(String),
    /// A sample was not taken because the program is about to end.
    #[error("a sample was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
    /// The file cannot be written or read.
    #[error("the samples cannot be written or read: {0}")]
    Csv(#[from] csv::Error),
    /// The file has no times.
    #[error("the first column must be at_s")]
    NoTime,
    /// A field is no number.
    #[error("line {line}: the field {column:?} is not a number: {text:?}")]
    Field {
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The field.
        text: String,
    },
}

/// Takes a sample at `start` and after each whole interval until `until` resolves, and writes a
/// line per sample to `out`.
///
/// `start` may be in the future or in the past. Values of rates begin one interval before the first
/// sample; if `start` is nearer or is past, they begin now, and the first sample is the next one
/// at least half an interval away. Samples that come too late for their instant are left out.
///
/// # Errors
/// If the settings are wrong or `out` cannot be written. What cannot be sampled is an empty field.
pub async fn run(
    settings: &Settings,
    start: Instant,
    out: impl Write + Send,
    until: impl Future<Output = ()>,
) -> Result<Totals, MonitorError> {
    run_with(settings, &Groups::default(), start, out, until).await
}

/// The same. The processes of some groups belong to the first watched one.
pub(crate) async fn run_with(
    settings: &Settings,
    of_first: &Groups,
    start: Instant,
    out: impl Write + Send,
    until: impl Future<Output = ()>,
) -> Result<Totals, MonitorError> {
    let mut clock = Clock::new(start, settings.interval)?;
    let mut until = pin!(until);
    let mut scrape = settings.metrics.as_ref().map(Scrape::new).transpose()?;
    let mut nodes = Nodes::new(&settings.nodes)?;
    let mut columns: Vec<String> = snapshot::columns(settings).chain(cassandra::columns(&settings.nodes)).collect();
    let is_over = tokio::select! {
        biased;
        () = &mut until => true,
        () = begin(&clock, scrape.as_mut()) => false,
    };
    columns.extend(scrape.iter_mut().flat_map(Scrape::take_columns));
    let mut table = Table::new(out, &columns)?;
    let mut samples = 0;
    if !is_over {
        let sampler = Sampler::new(settings, of_first.clone());
        let (mut sampler, mut before, _) = take(sampler, &mut nodes, scrape.as_mut()).await?;
        clock.begin(before.at);
        while !is_over_before(clock.due(), until.as_mut()).await {
            let (now, asked);
            (sampler, now, asked) = take(sampler, &mut nodes, scrape.as_mut()).await?;
            let mut values = now.values_since(&before);
            values.extend(asked);
            table.write(clock.seconds_at(now.at), &values)?;
            samples += 1;
            before = now;
            clock.advance(Instant::now());
        }
    }
    Ok(Totals { samples, ..scrape.map(Scrape::into_totals).unwrap_or_default() })
}

/// Processors that others used during a window that begins now: all but this process, what is watched, and
/// descendants of them. `None` if the machine does not report it.
pub(crate) async fn others_during(window: Duration, watches: Vec<Watch>, cgroups: Vec<CgroupWatch>) -> Option<f64> {
    let (data, metrics, nodes) = (None, None, Vec::new());
    let settings = Settings { data, watches, cgroups, others: true, metrics, nodes, interval: window };
    let look = |mut sampler: Sampler| tokio::task::spawn_blocking(move || (sampler.take(), sampler));
    let (before, sampler) = look(Sampler::new(&settings, Groups::default())).await.ok()?;
    tokio::time::sleep(window).await;
    let (now, _) = look(sampler).await.ok()?;
    now.others(&before)
}

/// Waits until one interval before the start, and learns the series meanwhile.
async fn begin(clock: &Clock, scrape: Option<&mut Scrape>) {
    if let Some(scrape) = scrape {
        scrape.learn(clock).await;
    }
    tokio::time::sleep_until(clock.baseline()).await;
}

/// Waits for an instant; whether the end comes first.
async fn is_over_before(instant: Instant, end: impl Future<Output = ()>) -> bool {
    tokio::select! {
        biased;
        () = end => true,
        () = tokio::time::sleep_until(instant) => false,
    }
}

/// Takes a snapshot, on a thread that may block, and the values of the nodes and of the endpoint at the
/// same time.
async fn take(
    mut sampler: Sampler,
    nodes: &mut Nodes,
    scrape: Option<&mut Scrape>,
) -> Result<(Sampler, Snapshot, Vec<Option<f64>>), MonitorError> {
    let snapshot = tokio::task::spawn_blocking(move || (sampler.take(), sampler));
    let metrics = async {
        match scrape {
            Some(scrape) => scrape.values().await,
            None => Vec::new(),
        }
    };
    let (snapshot, of_nodes, metrics) = tokio::join!(snapshot, nodes.values(), metrics);
    let (snapshot, sampler) = snapshot?;
    Ok((sampler, snapshot, [of_nodes, metrics].concat()))
}

/// What a counter adds per second; `None` if it goes back or no time passes.
fn rate(before: u64, now: u64, elapsed_s: f64) -> Option<f64> {
    rate_of(now.checked_sub(before)? as f64, elapsed_s)
}

fn rate_of(added: f64, elapsed_s: f64) -> Option<f64> {
    (added >= 0.0 && elapsed_s > 0.0).then(|| added / elapsed_s)
}
