//! Writes to one lane: the queue in front of its committer, and whether it still accepts writes.

use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use store::{Clock, Deadline, Lane, Outcome, StoreError, StoreResult};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::committer::{Committer, Poison, poisoned};
use crate::options::EmbeddedOptions;
use crate::plan::Plan;
use crate::queue::{Load, Queue, QueuedWrite, Ticket};
use crate::room::Room;
use crate::tables::Tables;

/// The unit of the semaphore of waiting bytes, so that its range suffices.
const PERMIT_BYTES: usize = 1 << 10;

/// The path to the committer of one lane.
pub(crate) struct Writer {
    lane: Lane,
    queue: Arc<Queue>,
    /// Bytes that may still join the queue, in units of [`PERMIT_BYTES`].
    waiting_room: Arc<Semaphore>,
    waiting_room_permits: usize,
    poison: Poison,
    /// Only the thread keeps it, so that the database closes once that has ended.
    committer: Weak<Committer>,
    thread: Mutex<Option<JoinHandle<()>>>,
    max_queue_age: Duration,
}

impl Writer {
    /// Starts the committer over the lane's tables.
    pub(crate) fn start(
        lane: Lane,
        tables: Arc<Tables>,
        room: Arc<Room>,
        clock: Arc<dyn Clock>,
        options: &EmbeddedOptions,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new(options.max_queue_age));
        let poison: Poison = Arc::new(OnceLock::new());
        let due = Mutex::new(None);
        let committer =
            Arc::new(Committer { lane, tables, queue: queue.clone(), room, poison: poison.clone(), clock, due });
        let most = permits(options.max_queued_bytes);
        Ok(Self {
            lane,
            queue,
            waiting_room: Arc::new(Semaphore::new(most)),
            waiting_room_permits: most,
            poison,
            committer: Arc::downgrade(&committer),
            thread: Mutex::new(Some(committer.spawn()?)),
            max_queue_age: options.max_queue_age,
        })
    }

    /// Why the lane refuses writes until the store is opened again; `None`: it does not.
    pub(crate) fn poison(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    /// How busy its queue is.
    pub(crate) fn load(&self) -> Load {
        self.queue.load()
    }

    /// Bytes of the lists that wait or are being committed.
    pub(crate) fn admitted_bytes(&self) -> u64 {
        let free = self.waiting_room.available_permits();
        (self.waiting_room_permits.saturating_sub(free) * PERMIT_BYTES) as u64
    }

    /// Fails if the committer would refuse the write in any case.
    pub(crate) fn check_poison(&self) -> StoreResult<()> {
        self.poison().map_or(Ok(()), |reason| Err(poisoned(self.lane, reason)))
    }

    /// Applies a plan on this thread, unless it would have to wait for something: then `None`. The
    /// caller keeps the store open meanwhile.
    pub(crate) fn commit_here(&self, deadline: Deadline, plan: &Plan) -> Option<StoreResult<Outcome>> {
        self.committer.upgrade()?.commit_here(deadline, plan)
    }

    /// Sends a plan to the committer, which applies it.
    pub(crate) async fn submit(&self, deadline: Deadline, plan: Plan) -> StoreResult<Outcome> {
        let admitted = deadline.0.min(Instant::now() + self.max_queue_age);
        let share = permits(plan.bytes).min(self.waiting_room_permits);
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        let permit = timeout_at(admitted, self.waiting_room.clone().acquire_many_owned(share))
            .await
            .map_err(|_| StoreError::Overloaded("too many bytes of writes are waiting".to_owned()))?
            .map_err(|_| StoreError::Unavailable("the store is closed".to_owned()))?;

        let (answer, answered) = oneshot::channel();
        let ticket = Ticket::default();
        self.queue.push(QueuedWrite { plan, deadline, ticket: ticket.clone(), answer, permit })?;
        match timeout_at(deadline.0, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Ok(Outcome::Unknown { reason: "the committer ended before it answered".to_owned() }),
            Err(_) if ticket.withdraw() => {
                Err(StoreError::Overloaded("the deadline passed while the write was waiting".to_owned()))
            }
            Err(_) => Ok(Outcome::Unknown { reason: "the sync did not end by the deadline".to_owned() }),
        }
    }

    /// Ends the committer after the lists in its queue.
    pub(crate) fn end(&self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!(lane = %self.lane, "the committer thread panicked");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

fn permits(bytes: usize) -> usize {
    bytes.div_ceil(PERMIT_BYTES).max(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::{NewRow, Step, SystemClock, Table, UnixMillis};

    use super::*;
    use crate::opening::record::RecordFile;
    use crate::opening::record_path;

    const LANE: Lane = Lane::Records;

    /// The longest time that a test waits.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A clock that fails.
    struct Broken;

    impl Clock for Broken {
        fn now(&self) -> UnixMillis {
            panic!("the clock is broken")
        }
    }

    fn started() -> (tempfile::TempDir, std::path::PathBuf, Writer) {
        started_with(Arc::new(SystemClock))
    }

    fn started_with(clock: Arc<dyn Clock>) -> (tempfile::TempDir, std::path::PathBuf, Writer) {
        let folder = tempfile::tempdir().unwrap();
        let (database, options) = (folder.path().join(LANE.name()), EmbeddedOptions::default());
        Tables::make(&database, LANE, &options.of_lane(LANE)).unwrap();
        let checked = Tables::check(&database, LANE, None).unwrap();
        let tables = Arc::new(checked.open(&options.of_lane(LANE)).unwrap());
        let room = Arc::new(Room::new(folder.path().to_path_buf(), 0));
        let writer = Writer::start(LANE, tables, room, clock, &options).unwrap();
        (folder, database, writer)
    }

    async fn put(writer: &Writer, key: &'static str, sync_delay: Duration) {
        let rows = vec![NewRow::new("", "v")];
        let steps = vec![Step::Put { table: Table::Records, partition: key.into(), rows }];
        let plan = Plan::new(steps).unwrap().synced_within(sync_delay);
        assert!(writer.submit(Deadline::within(PATIENCE), plan).await.unwrap().is_applied());
    }

    /// The last group that is known to be synced.
    fn synced(database: &std::path::Path) -> u64 {
        RecordFile::look(&record_path(database)).unwrap().unwrap().group
    }

    async fn is_synced(database: &std::path::Path, group: u64) {
        let began = Instant::now();
        while synced(database) != group {
            assert!(began.elapsed() < PATIENCE, "group {group} is not synced");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_write_that_waits_for_its_sync_is_synced_in_time_although_no_other_comes() {
        let (_folder, database, writer) = started();
        put(&writer, "a", Duration::from_millis(1)).await;
        is_synced(&database, 1).await;
        put(&writer, "b", Duration::from_millis(20)).await;
        is_synced(&database, 2).await;
    }

    #[tokio::test]
    async fn a_write_on_the_thread_of_its_caller_is_synced_in_time_and_none_is_made_after_the_end() {
        let (_folder, database, writer) = started();
        let here = |key: &'static str, sync_delay: Duration| {
            let rows = vec![NewRow::new("", "v")];
            let steps = vec![Step::Put { table: Table::Records, partition: key.into(), rows }];
            let plan = Plan::new(steps).unwrap().synced_within(sync_delay);
            writer.commit_here(Deadline::within(PATIENCE), &plan).map(|answer| answer.unwrap().is_applied())
        };
        let until_here = async |key: &'static str, sync_delay: Duration| {
            let began = Instant::now();
            // The other thread may be about to wait for lists.
            while here(key, sync_delay) != Some(true) {
                assert!(began.elapsed() < PATIENCE, "it is left to the other thread");
                tokio::task::yield_now().await;
            }
        };
        let late = Duration::from_secs(3_600);
        assert_eq!(here("a", Duration::ZERO), None, "it would wait for a sync");
        until_here("b", late).await;
        assert_eq!(synced(&database), 0);
        // The other thread waits for the first sync, or is about to.
        until_here("c", Duration::from_millis(20)).await;
        is_synced(&database, 2).await;
        put(&writer, "d", Duration::ZERO).await;
        assert_eq!(synced(&database), 3);
        until_here("e", late).await;
        assert_eq!(synced(&database), 3);
        writer.end();
        assert_eq!(synced(&database), 4);
        assert_eq!(here("f", late), None);
    }

    #[tokio::test]
    async fn a_lane_refuses_writes_after_one_has_failed_on_the_thread_of_its_caller() {
        let (_folder, _database, writer) = started_with(Arc::new(Broken));
        let plan = Plan::of(LANE, Vec::new()).synced_within(Duration::from_secs(3_600));
        let began = Instant::now();
        let answer = loop {
            match writer.commit_here(Deadline::within(PATIENCE), &plan) {
                Some(answer) => break answer,
                // The other thread may be about to wait for lists.
                None => assert!(began.elapsed() < PATIENCE, "it is left to the other thread"),
            }
            tokio::task::yield_now().await;
        };
        assert!(matches!(answer, Ok(Outcome::Unknown { .. })), "{answer:?}");
        assert!(matches!(writer.check_poison(), Err(StoreError::Poisoned(_))));
    }

    #[tokio::test]
    async fn a_write_that_does_not_wait_syncs_those_that_do_and_so_does_the_end() {
        let (_folder, database, writer) = started();
        let late = Duration::from_secs(3_600);
        put(&writer, "a", late).await;
        put(&writer, "b", Duration::MAX).await;
        assert_eq!(synced(&database), 0);
        put(&writer, "c", Duration::ZERO).await;
        assert_eq!(synced(&database), 3);
        put(&writer, "d", late).await;
        // It changes nothing, but what it learned has to last.
        writer.submit(Deadline::within(PATIENCE), Plan::of(LANE, Vec::new())).await.unwrap();
        assert_eq!(synced(&database), 4);
        put(&writer, "e", late).await;
        put(&writer, "f", Duration::from_millis(1)).await;
        is_synced(&database, 6).await;
        put(&writer, "g", late).await;
        writer.end();
        assert_eq!(synced(&database), 7);
    }
}
