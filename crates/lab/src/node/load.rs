//! The load: an open loop at an equal rate for all settings, over CQL.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{TryStreamExt, stream};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::value::CqlValue;
use testbed::arrivals::Shape;
use testbed::worker::alarm::Alarm;
use tokio::sync::Semaphore;

use super::records::{Chooser, Place, Records};
use super::table::Table;
use super::tally::{Ended, Tally};
use super::views::{CqlError, doing};
use super::watch::Watched;
use crate::rig::Loaded;
use crate::workload::{Data, Operation, Workload};

/// How long an operation may take. One that fails counts as if it had taken that long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Operations at once. More are not sent, and have failed.
const OPERATIONS_MAX: u32 = 20_000;

/// Operations at once of a prefill.
const PREFILL_WIDTH: usize = 64;

/// From the call to the first operation: the monitor begins meanwhile.
const LEAD: Duration = Duration::from_millis(100);

/// Writes all records.
pub(super) async fn prefill(session: &Session, table: &Table, data: &Data, seed: u64) -> Result<(), CqlError> {
    let records = Records::new(data, seed);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let rows = (0..data.records).map(|number| Place::of(data.partitions, number).row(records.values(&mut random)));
    let writes = stream::iter(rows.map(Ok)).try_for_each_concurrent(PREFILL_WIDTH, |row| async {
        session.execute_unpaged(&table.fill, row).await.map(drop)
    });
    doing("writing the records", writes.await)
}

/// A load.
pub(super) struct Load<'a> {
    /// The table.
    pub table: &'a Table,
    /// Its records.
    pub data: &'a Data,
    /// What is done, and how often.
    pub workload: &'a Workload,
    /// Operations, keys and bytes follow from it.
    pub seed: u64,
}

impl Load<'_> {
    /// Makes the load, and watches the machine meanwhile. Files of the run go into the folder. Where the
    /// measured time begins, `at_window` is awaited too, and what it says is returned.
    pub async fn make<T>(
        &self,
        session: &Arc<Session>,
        watched: &Watched<'_>,
        folder: &Path,
        at_window: impl Future<Output = T> + Send,
    ) -> Result<(Loaded, T), CqlError> {
        let (warm_up, duration) = (self.workload.warm_up(), self.workload.duration);
        let tally = Arc::new(Mutex::new(doing("counting", Tally::new(warm_up, duration))?));
        let start = Instant::now() + LEAD;
        let window = start + warm_up;
        let watch = watched.run(window, duration, folder);
        let read = async {
            tokio::time::sleep_until(window.into()).await;
            at_window.await
        };
        let (sent, samples, read) = tokio::join!(self.send(session, start, &tally), watch, read);
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
    async fn send(&self, session: &Arc<Session>, start: Instant, tally: &Arc<Mutex<Tally>>) -> std::io::Result<()> {
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
            let values = match operation {
                Operation::Write => place.newest(self.data, due).row(records.values(&mut random)),
                Operation::Read | Operation::Delete => place.asked(self.data.partitions),
            };
            let due_at = start + due;
            alarm.wait_until(due_at).await?;
            let lateness = due_at.elapsed();
            let Ok(permit) = at_once.clone().try_acquire_owned() else {
                tally.lock().add(&Ended { operation, due, lateness, latency: PATIENCE, is_done: false });
                continue;
            };
            let sending = self.operation(session, operation, values);
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

    fn operation(
        &self,
        session: &Arc<Session>,
        operation: Operation,
        values: Vec<CqlValue>,
    ) -> impl Future<Output = Result<(), ExecutionError>> + Send + 'static {
        let session = session.clone();
        let statement = match operation {
            Operation::Write => &self.table.write,
            Operation::Read => &self.table.read,
            Operation::Delete => &self.table.delete,
        };
        let statement = statement.clone();
        async move { session.execute_unpaged(&statement, values).await.map(drop) }
    }
}
