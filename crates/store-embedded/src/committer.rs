//! The one thread that writes to a lane. It takes the waiting lists, decides on each in order,
//! writes their changes as one batch with one sync, and only then answers all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use store::{Clock, Lane, Outcome, StoreError, StoreResult};
use tokio::sync::oneshot;

use crate::evaluate::{Pending, Verdict, evaluate};
use crate::queue::{Queue, QueuedWrite};
use crate::room::Room;
use crate::tables::Tables;

/// A group takes no further list once it has this number of bytes. That is enough to make one sync
/// worthwhile.
const GROUP_BYTES: usize = 8 << 20;

/// The reason why writes are refused until a restart, once they are.
pub(crate) type Poison = Arc<OnceLock<String>>;

/// The committer's parts.
pub(crate) struct Committer {
    pub(crate) lane: Lane,
    pub(crate) tables: Arc<Tables>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) room: Arc<Room>,
    pub(crate) poison: Poison,
    pub(crate) clock: Arc<dyn Clock>,
}

/// An answer that is sent once the group is durable.
type Answer = (oneshot::Sender<StoreResult<Outcome>>, StoreResult<Outcome>);

impl Committer {
    /// Starts the thread. It ends when the queue is closed and empty.
    pub(crate) fn spawn(self) -> std::io::Result<JoinHandle<()>> {
        // The operating system keeps 15 characters of a name.
        std::thread::Builder::new().name(format!("commit-{}", self.lane)).spawn(move || self.work())
    }

    fn work(self) {
        while let Some(group) = self.queue.take_group(GROUP_BYTES) {
            // A panic, which only a defect or damaged data can cause, leaves the fate of the group
            // unknown. Its submitters get no answer and report an unknown outcome. Nothing may be
            // written after it.
            if catch_unwind(AssertUnwindSafe(|| self.commit(group))).is_err() {
                self.poison("the committer failed, see the log".to_owned());
            }
        }
    }

    fn commit(&self, group: Vec<QueuedWrite>) {
        let mut permits = Vec::with_capacity(group.len());
        let mut answers = Vec::with_capacity(group.len());
        let mut writes = Pending::default();
        {
            let view = self.tables.view();
            let now = self.clock.now();
            let free_bytes = self.room.free_bytes();
            let mut group_bytes = 0;
            for job in group {
                permits.push(job.permit);
                if !job.ticket.take() {
                    continue;
                }
                let verdict = self.admit(&job.plan, job.deadline, free_bytes, &mut group_bytes);
                let answer = match verdict.and_then(|()| evaluate(&job.plan, &view, &writes, now)) {
                    Ok(Verdict::Accepted(list)) => {
                        writes.append(list);
                        Ok(Outcome::Applied)
                    }
                    Ok(Verdict::Refused(outcome)) => Ok(outcome),
                    Err(error) => Err(error),
                };
                answers.push((job.answer, answer));
            }
        }
        // Refusals wait for the sync too: the row that they return may be part of this very group.
        let durable = if writes.is_empty() { Ok(()) } else { self.tables.commit(writes.into_changes()) };
        match durable {
            Ok(()) => tell(answers),
            Err(error) => {
                let reason = format!("a write or its sync failed: {error}");
                tracing::error!(lane = %self.lane, reason, "the store refuses writes from now on");
                self.poison(reason.clone());
                tell(
                    answers
                        .into_iter()
                        .map(|(sender, answer)| (sender, undecided(self.lane, answer, &reason)))
                        .collect(),
                );
            }
        }
    }

    /// Refuses a list before it is evaluated.
    fn admit(
        &self,
        plan: &crate::plan::Plan,
        deadline: store::Deadline,
        free_bytes: Option<u64>,
        group_bytes: &mut u64,
    ) -> StoreResult<()> {
        if let Some(reason) = self.poison.get() {
            return Err(poisoned(self.lane, reason));
        }
        if deadline.passed() {
            return Err(StoreError::Overloaded("the deadline passed while the write was waiting".to_owned()));
        }
        *group_bytes += plan.bytes as u64;
        self.room.check(free_bytes, *group_bytes, plan.use_)
    }

    fn poison(&self, reason: String) {
        // The first reason is the one that explains the failure.
        let _ = self.poison.set(reason);
    }
}

/// The error for writes to a lane that refuses writes.
pub(crate) fn poisoned(lane: Lane, reason: &str) -> StoreError {
    StoreError::Poisoned(format!("lane {lane}: {reason}"))
}

/// The answer after its group could not be made durable. Changes that were to be applied may or may
/// not be there after a restart. A refused list was certainly not applied, but the row that it saw
/// may not last.
fn undecided(lane: Lane, answer: StoreResult<Outcome>, reason: &str) -> StoreResult<Outcome> {
    match answer {
        Ok(Outcome::Applied) => Ok(Outcome::Unknown { reason: reason.to_owned() }),
        Ok(_) => Err(poisoned(lane, reason)),
        Err(error) => Err(error),
    }
}

fn tell(answers: Vec<Answer>) {
    for (sender, answer) in answers {
        // A submitter that gave up has dropped its receiver.
        let _ = sender.send(answer);
    }
}
