//! Writes to one lane: the queue in front of its committer, and whether it still accepts writes.

use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use store::{Clock, Deadline, Lane, Outcome, StoreError, StoreResult};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::committer::{Committer, Poison, poisoned};
use crate::options::EmbeddedOptions;
use crate::plan::Plan;
use crate::queue::{Queue, QueuedWrite, Ticket};
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
    committer: Mutex<Option<JoinHandle<()>>>,
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
        let committer = Committer { lane, tables, queue: queue.clone(), room, poison: poison.clone(), clock };
        let most = permits(options.max_queued_bytes);
        Ok(Self {
            lane,
            queue,
            waiting_room: Arc::new(Semaphore::new(most)),
            waiting_room_permits: most,
            poison,
            committer: Mutex::new(Some(committer.spawn()?)),
            max_queue_age: options.max_queue_age,
        })
    }

    /// Why the lane refuses writes until the store is opened again; `None`: it does not.
    pub(crate) fn poison(&self) -> Option<&str> {
        self.poison.get().map(String::as_str)
    }

    /// Fails if the committer would refuse the write in any case.
    pub(crate) fn check_poison(&self) -> StoreResult<()> {
        self.poison().map_or(Ok(()), |reason| Err(poisoned(self.lane, reason)))
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
        if let Some(committer) = self.committer.lock().take()
            && committer.join().is_err()
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
