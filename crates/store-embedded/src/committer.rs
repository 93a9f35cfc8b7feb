//! The one thread that writes to a lane. It takes the waiting lists, decides on each in order,
//! writes their changes as one batch with one sync, and only then answers all of them.
//!
//! If all lists of a group let their sync wait ([`store::Call::sync_delay`]), the group is answered
//! once the kernel has it, which the death of the process does not undo. It is synced with the next
//! group that cannot wait, or when the first of its lists has waited long enough.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use store::{Clock, Lane, Outcome, StoreError, StoreResult};
use tokio::sync::oneshot;

use crate::evaluate::{Pending, Verdict, evaluate};
use crate::queue::{Queue, QueuedWrite, Taken};
use crate::room::Room;
use crate::tables::Tables;

/// A group takes no further list once it has this number of bytes. That is enough to make one sync
/// worthwhile.
const GROUP_BYTES: usize = 8 << 20;

/// No sync waits longer, whatever its calls allow.
const SYNC_DELAY_MAX: Duration = Duration::from_secs(24 * 3_600);

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
        // When the groups that were not synced yet must be; `None`: there are none.
        let mut due = None;
        loop {
            let taken = self.queue.take_group(GROUP_BYTES, due);
            // A panic, which only a defect or damaged data can cause, leaves the fate of the group
            // unknown. Its submitters get no answer and report an unknown outcome. Nothing may be
            // written after it.
            let worked = catch_unwind(AssertUnwindSafe(|| match taken {
                Taken::Group(group) => Some(self.commit(group, due)),
                Taken::Nothing => {
                    self.sync();
                    Some(None)
                }
                Taken::End => {
                    if due.is_some() {
                        self.sync();
                    }
                    None
                }
            }));
            match worked {
                Ok(Some(next)) => due = next,
                Ok(None) => return,
                Err(_) => {
                    self.poison("the committer failed, see the log".to_owned());
                    due = None;
                }
            }
        }
    }

    /// Commits a group. Before it, groups may have been written whose sync is `due`; returns when
    /// there is one due afterwards.
    fn commit(&self, group: Vec<QueuedWrite>, due: Option<Instant>) -> Option<Instant> {
        // Before lists are taken: those whose deadlines pass meanwhile are certainly not applied.
        self.tables.wait_for_flushes(&group.iter().flat_map(|job| job.plan.written_tables()).collect());
        let mut permits = Vec::with_capacity(group.len());
        let mut answers = Vec::with_capacity(group.len());
        let mut writes = Pending::default();
        let mut sync_delay = Duration::MAX;
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
                sync_delay = sync_delay.min(job.plan.sync_delay);
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
        let now = Instant::now();
        let due_of_group = (!writes.is_empty()).then(|| now + sync_delay.min(SYNC_DELAY_MAX));
        let due = due.into_iter().chain(due_of_group).min();
        let syncs = sync_delay.is_zero() || due.is_some_and(|due| due <= now);
        // Refusals wait for the sync too: the row that they return may be part of this very group.
        let written = match (writes.is_empty(), syncs) {
            (false, _) => {
                let (changes, moved) = writes.into_changes();
                self.tables.commit(changes, &moved, syncs)
            }
            (true, true) if due.is_some() => self.tables.sync(),
            (true, _) => Ok(()),
        };
        match written {
            Ok(()) => {
                answer_all(answers);
                due.filter(|_| !syncs)
            }
            Err(error) => {
                let reason = self.fail(&error);
                answer_all(
                    answers
                        .into_iter()
                        .map(|(sender, answer)| (sender, undecided(self.lane, answer, &reason)))
                        .collect(),
                );
                None
            }
        }
    }

    /// Syncs the groups that were written without.
    fn sync(&self) {
        if let Err(error) = self.tables.sync() {
            self.fail(&error);
        }
    }

    /// Refuses all further writes, and returns the reason.
    fn fail(&self, error: &StoreError) -> String {
        let reason = format!("a write or its sync failed: {error}");
        tracing::error!(lane = %self.lane, reason, "the store refuses writes from now on");
        self.poison(reason.clone());
        reason
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

fn answer_all(answers: Vec<Answer>) {
    for (sender, answer) in answers {
        // A submitter that gave up has dropped its receiver.
        let _ = sender.send(answer);
    }
}
