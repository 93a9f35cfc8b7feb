//! The load: an open loop at an equal rate for all settings, over whatever the rig speaks. A closed
//! loop is there for likeness with others' results.
//!
//! - `records.rs`: which records, and which bytes; `tally.rs` counts operations.
//! - `doors.rs` sends operations through doors of Penates.
//! - `watch.rs` watches the machine meanwhile, with `packets.rs`; `process.rs` reads what a process
//!   has used.

pub(crate) mod doors;
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
use tokio::task::JoinSet;

use crate::filed;
use crate::rig::{Loaded, RigError};
use crate::workload::{Data, Mix, Operation, Workload};

use records::{Chooser, Columns, Place, Records};
use tally::{Ended, Tally};
use watch::Means;

/// How long an operation may take. One that fails counts as if it had taken that long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Operations at once. More are not sent, and have failed.
const OPERATIONS_MAX: u32 = 20_000;

/// Operations at once of a prefill.
const PREFILL_WIDTH: usize = 64;

/// How long a thread of a closed loop waits after an operation that failed: one that is refused at once
/// would be repeated as fast as this machine can.
const FAILED_PAUSE: Duration = Duration::from_millis(100);

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

/// Chooses what is asked for.
struct Asking {
    mix: Mix,
    data: Data,
    records: Records,
    chooser: Chooser,
    /// See [`Load::after`].
    after: Duration,
}

impl Asking {
    /// An operation that is due so long after the load began.
    fn choose(&self, due: Duration, random: &mut ChaCha8Rng) -> (Operation, Asked) {
        let operation = self.mix.choose(random.random());
        let place = Place::of(self.data.partitions, self.chooser.choose(random));
        let asked = match operation {
            Operation::Write => Asked::Write(place.newest(&self.data, self.after + due), self.records.values(random)),
            Operation::Read => Asked::Read(place),
            Operation::Delete => Asked::Delete(place),
        };
        (operation, asked)
    }
}

/// A load.
pub(crate) struct Load<'a> {
    /// Its records.
    pub data: &'a Data,
    /// What is done, and how often.
    pub workload: &'a Workload,
    /// Operations, keys and bytes follow from it.
    pub seed: u64,
    /// How long the loads took that were made on the same records before: what this one adds to a
    /// series is newer than what they have added.
    pub after: Duration,
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
        if self.workload.is_searched() {
            return Err(RigError::Fatal("a search has to find the number of threads first".to_owned()));
        }
        let (warm_up, duration) = (self.workload.warm_up(), self.workload.duration);
        let tally = Arc::new(Mutex::new(doing("counting", Tally::new(warm_up, duration))?));
        let start = Instant::now() + LEAD;
        let window = start + warm_up;
        let watch = watch(window, duration);
        let read = async {
            tokio::time::sleep_until(window.into()).await;
            at_window.await
        };
        let sending = async {
            match self.workload.threads() {
                None => self.send(door, start, &tally).await,
                Some(threads) => self.send_closed(door, threads, start, &tally).await,
            }
        };
        let (sent, samples, read) = tokio::join!(sending, watch, read);
        doing("sending", sent)?;
        let samples = doing("watching the machine", samples)?;
        let mut tally = tally.lock();
        let create = |name: &str| doing(name, File::create(folder.join(name)).map(BufWriter::new));
        doing("writing latencies", tally.write_log(&mut create(filed::LATENCIES)?))?;
        doing("writing seconds", tally.write_seconds(create(filed::SECONDS)?))?;
        let mut loaded = tally.loaded();
        loaded.metrics.extend(samples);
        Ok((loaded, read))
    }

    fn asking(&self) -> Asking {
        let chooser = Chooser::new(self.workload.keys, self.data.records);
        let records = Records::new(self.data, self.seed);
        Asking { mix: self.workload.mix, data: *self.data, records, chooser, after: self.after }
    }

    /// The records of the prefill had the seed itself.
    fn random(&self) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(self.seed.wrapping_add(1))
    }

    /// Each of so many threads sends its next operation when the last one has ended, until the time is
    /// over. An operation is due when it is sent.
    async fn send_closed(
        &self,
        door: &Arc<impl Door>,
        threads: u32,
        start: Instant,
        tally: &Arc<Mutex<Tally>>,
    ) -> std::io::Result<()> {
        let (asking, end) = (Arc::new(self.asking()), start + self.workload.time());
        let mut all = JoinSet::new();
        for thread in 0..threads {
            let mut random = self.random();
            random.set_stream(u64::from(thread));
            let (door, tally, asking) = (door.clone(), tally.clone(), asking.clone());
            all.spawn(async move {
                tokio::time::sleep_until(start.into()).await;
                loop {
                    let begun = Instant::now();
                    if begun >= end {
                        break;
                    }
                    let due = begun.saturating_duration_since(start);
                    let (operation, asked) = asking.choose(due, &mut random);
                    let sending = door.clone().make(asked);
                    let is_done = matches!(tokio::time::timeout(PATIENCE, sending).await, Ok(Ok(())));
                    let latency = if is_done { begun.elapsed() } else { begun.elapsed().max(PATIENCE) };
                    tally.lock().add(&Ended { operation, due, lateness: Duration::ZERO, latency, is_done });
                    if !is_done {
                        tokio::time::sleep(FAILED_PAUSE).await;
                    }
                }
            });
        }
        while let Some(ended) = all.join_next().await {
            ended.map_err(std::io::Error::other)?;
        }
        Ok(())
    }

    /// Sends each operation when it is due, and waits until all have ended.
    async fn send(&self, door: &Arc<impl Door>, start: Instant, tally: &Arc<Mutex<Tally>>) -> std::io::Result<()> {
        let alarm = Alarm::new()?;
        let (asking, mut random) = (self.asking(), self.random());
        let shape = Shape::Constant { rate: self.workload.rate, duration: self.workload.time() };
        let at_once = Arc::new(Semaphore::new(OPERATIONS_MAX as usize));
        for due in shape.arrivals(0, 1, self.seed) {
            let (operation, asked) = asking.choose(due, &mut random);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::Barrier;

    use super::*;
    use crate::closed::Closed;
    use crate::workload::{Keys, Partitions};

    const THREADS: u32 = 3;

    /// It answers the first operations only when all threads wait for them.
    struct Waiting {
        asked: AtomicU64,
        now: AtomicU64,
        most: AtomicU64,
        together: Barrier,
    }

    impl Door for Waiting {
        async fn make(self: Arc<Self>, _: Asked) -> Result<(), String> {
            self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            match self.asked.fetch_add(1, Ordering::SeqCst) {
                asked if asked < u64::from(THREADS) => _ = self.together.wait().await,
                _ => tokio::task::yield_now().await,
            }
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }

        async fn fill(&self, _: Place, _: Columns) -> Result<(), String> {
            Ok(())
        }
    }

    fn workload() -> Workload {
        Workload {
            name: "w".to_owned(),
            mix: Mix { write: 1.0, read: 1.0, delete: 0.0 },
            rate: 1.0,
            keys: Keys::Uniform,
            warm_up: None,
            duration: Duration::from_millis(300),
            hold: None,
            closed: None,
        }
    }

    #[test]
    fn what_a_later_load_adds_to_a_series_is_newer_than_what_earlier_loads_have_added() {
        let workload = Workload { mix: Mix { write: 1.0, read: 0.0, delete: 0.0 }, ..workload() };
        let data = Data { partitions: Partitions::TimeSeries { series: 1, read: 1 }, ..Data::default() };
        let written_at = |after: Duration, due: Duration| {
            let load = Load { data: &data, workload: &workload, seed: 1, after };
            match load.asking().choose(due, &mut load.random()) {
                (_, Asked::Write(place, _)) => place.at.unwrap(),
                _ => panic!("all are writes"),
            }
        };
        let last = Duration::from_millis(299);
        assert!(written_at(Duration::ZERO, last) < written_at(workload.time(), Duration::ZERO));
        assert!(written_at(workload.time(), last) < written_at(workload.time() * 2, Duration::ZERO));
    }

    #[tokio::test]
    async fn in_a_closed_loop_as_many_operations_as_threads_are_under_way_and_none_is_late() {
        let door = Arc::new(Waiting {
            asked: AtomicU64::new(0),
            now: AtomicU64::new(0),
            most: AtomicU64::new(0),
            together: Barrier::new(THREADS as usize),
        });
        let workload = Workload { closed: Some(Closed::of(THREADS)), ..workload() };
        let (data, folder) = (Data::default(), tempfile::tempdir().unwrap());
        let load = Load { data: &data, workload: &workload, seed: 1, after: Duration::ZERO };
        let made = load.make(&door, async |_, _| Ok(Means::new()), folder.path(), async {}).await;
        let (loaded, ()) = made.unwrap();
        assert_eq!(door.most.load(Ordering::SeqCst), u64::from(THREADS));
        assert_eq!((loaded.due, loaded.done), (door.asked.load(Ordering::SeqCst), loaded.due));
        assert!(loaded.due > 10 && loaded.lateness_p99_ms < 0.01, "{loaded:?}");
        let searched = Workload { closed: Some(Closed::SEARCH), ..workload };
        let load = Load { data: &data, workload: &searched, seed: 1, after: Duration::ZERO };
        let unknown = load.make(&door, async |_, _| Ok(Means::new()), folder.path(), async {}).await;
        assert!(unknown.is_err_and(|error| error.to_string().contains("number of threads")));
    }
}
