//! The load: an open loop at an equal rate for all settings, over whatever the rig speaks.
//!
//! - `records.rs`: which records, and which bytes; `tally.rs` counts operations.
//! - `watch.rs` watches the machine meanwhile, with `packets.rs`; `process.rs` reads what a process
//!   has used.

mod packets;
pub(crate) mod process;
pub(crate) mod records;
mod tally;
pub(crate) mod watch;

use std::fmt::Display;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{TryStreamExt, stream};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use testbed::arrivals::Shape;
use testbed::monitor::MonitorError;
use testbed::worker::alarm::Alarm;
use tokio::sync::Semaphore;

use crate::rig::{Loaded, RigError};
use crate::workload::{Data, Operation, Workload};

use records::{Chooser, Columns, Place, Records};
use tally::{Ended, Tally};
use watch::Means;

/// How long an operation may take. One that fails counts as if it had taken that long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Operations at once. More are not sent, and have failed.
const OPERATIONS_MAX: u32 = 20_000;

/// Operations at once of a prefill.
const PREFILL_WIDTH: usize = 64;

/// From the call to the first operation: the monitor begins meanwhile.
const LEAD: Duration = Duration::from_millis(100);

/// What is asked for.
pub(crate) enum Asked {
    /// A record is written whole.
    Write(Place, Columns),
    /// One is read whole.
    Read(Place),
    /// One is deleted.
    Delete(Place),
}

/// Where operations go.
pub(crate) trait Door: Send + Sync + 'static {
    /// Makes an operation. Returns why it was not done.
    fn make(self: Arc<Self>, asked: Asked) -> impl Future<Output = Result<(), String>> + Send + 'static;

    /// Writes a record before the load, to all that are to have it.
    fn fill(&self, place: Place, columns: Columns) -> impl Future<Output = Result<(), String>> + Send;
}

fn doing<T>(what: &str, done: Result<T, impl Display>) -> Result<T, RigError> {
    done.map_err(|error| RigError::Run(format!("{what}: {error}")))
}

/// Writes all records.
pub(crate) async fn prefill(door: &impl Door, data: &Data, seed: u64) -> Result<(), RigError> {
    let records = Records::new(data, seed);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let rows = (0..data.records).map(|number| (Place::of(data.partitions, number), records.values(&mut random)));
    let fill = |(place, columns)| door.fill(place, columns);
    let writes = stream::iter(rows.map(Ok)).try_for_each_concurrent(PREFILL_WIDTH, fill);
    doing("writing the records", writes.await)
}

/// A load.
pub(crate) struct Load<'a> {
    /// Its records.
    pub data: &'a Data,
    /// What is done, and how often.
    pub workload: &'a Workload,
    /// Operations, keys and bytes follow from it.
    pub seed: u64,
}

impl Load<'_> {
    /// Makes the load, and watches the machine meanwhile: `watch` has the beginning of the measured
    /// time, and its length. Files of the run go into the folder. Where the measured time begins,
    /// `at_window` is awaited too, and what it says is returned.
    pub async fn make<T>(
        &self,
        door: &Arc<impl Door>,
        watch: impl AsyncFnOnce(Instant, Duration) -> Result<Means, MonitorError>,
        folder: &Path,
        at_window: impl Future<Output = T>,
    ) -> Result<(Loaded, T), RigError> {
        let (warm_up, duration) = (self.workload.warm_up(), self.workload.duration);
        let tally = Arc::new(Mutex::new(doing("counting", Tally::new(warm_up, duration))?));
        let start = Instant::now() + LEAD;
        let window = start + warm_up;
        let watch = watch(window, duration);
        let read = async {
            tokio::time::sleep_until(window.into()).await;
            at_window.await
        };
        let (sent, samples, read) = tokio::join!(self.send(door, start, &tally), watch, read);
        doing("sending", sent)?;
        let samples = doing("watching the machine", samples)?;
        let tally = tally.lock();
        let create = |name: &str| doing(name, File::create(folder.join(name)).map(BufWriter::new));
        doing("writing latencies", tally.write_log(&mut create("latencies.hlog")?))?;
        doing("writing seconds", tally.write_seconds(create("seconds.csv")?))?;
        let mut loaded = tally.loaded();
        loaded.metrics.extend(samples);
        Ok((loaded, read))
    }

    /// Sends each operation when it is due, and waits until all have ended.
    async fn send(&self, door: &Arc<impl Door>, start: Instant, tally: &Arc<Mutex<Tally>>) -> std::io::Result<()> {
        let alarm = Alarm::new()?;
        let (records, chooser) =
            (Records::new(self.data, self.seed), Chooser::new(self.workload.keys, self.data.records));
        // The records of the prefill had the same seed.
        let mut random = ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(1));
        let shape = Shape::Constant { rate: self.workload.rate, duration: self.workload.time() };
        let at_once = Arc::new(Semaphore::new(OPERATIONS_MAX as usize));
        for due in shape.arrivals(0, 1, self.seed) {
            let operation = self.workload.mix.choose(random.random());
            let place = Place::of(self.data.partitions, chooser.choose(&mut random));
            let asked = match operation {
                Operation::Write => Asked::Write(place.newest(self.data, due), records.values(&mut random)),
                Operation::Read => Asked::Read(place),
                Operation::Delete => Asked::Delete(place),
            };
            let due_at = start + due;
            alarm.wait_until(due_at).await?;
            let lateness = due_at.elapsed();
            let Ok(permit) = at_once.clone().try_acquire_owned() else {
                tally.lock().add(&Ended { operation, due, lateness, latency: PATIENCE, is_done: false });
                continue;
            };
            let sending = door.clone().make(asked);
            let tally = tally.clone();
            tokio::spawn(async move {
                let is_done = matches!(tokio::time::timeout(PATIENCE, sending).await, Ok(Ok(())));
                let latency = if is_done { due_at.elapsed() } else { due_at.elapsed().max(PATIENCE) };
                tally.lock().add(&Ended { operation, due, lateness, latency, is_done });
                drop(permit);
            });
        }
        // All are back when all permits are. Nobody closes the semaphore.
        let _ = at_once.acquire_many(OPERATIONS_MAX).await;
        Ok(())
    }
}
