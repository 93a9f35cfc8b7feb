//! The one thread that writes to a lane. It takes the waiting lists, decides on each in order,
//! writes their changes as one batch with one sync, and only then answers all of them.
//!
//! In a store that lets all syncs wait, a caller commits a list on its own thread if it would wait
//! for nothing ([`Committer::commit_here`]): a load writes one list after the other, and two threads
//! would wake each other for each. So do the audit and records in any store, if their sync may wait.
//! One of them commits at a time.
//!
//! If all lists of a group let their sync wait ([`store::Call::sync_delay`]), the group is answered
//! once the kernel has it, which the death of the process does not undo. It is synced with the next
//! group that cannot wait, or when the first of its lists has waited long enough.

use std::borrow::Borrow;
use std::iter::once;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use store::{Clock, Deadline, Lane, Outcome, StoreError, StoreResult};

use crate::evaluate::{Pending, Verdict, evaluate};
use crate::plan::Plan;
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
    /// When the groups that were not synced yet must be; `None`: there are none. Whoever commits
    /// holds it.
    pub(crate) due: Mutex<Option<Instant>>,
}

/// Why a list has no answer, or no certain one, after a panic.
const FAILED: &str = "the committer failed, see the log";

impl Committer {
    /// Starts the thread. It ends when the queue is closed and empty.
    pub(crate) fn spawn(self: Arc<Self>) -> std::io::Result<JoinHandle<()>> {
        // The operating system keeps 15 characters of a name.
        std::thread::Builder::new().name(format!("commit-{}", self.lane)).spawn(move || self.work())
    }

    fn work(&self) {
        loop {
            let due = *self.due.lock();
            let taken = self.queue.take_group(GROUP_BYTES, due);
            // Held until the lane is poisoned, if this panics: no caller commits before that.
            let mut due = self.due.lock();
            // A panic, which only a defect or damaged data can cause, leaves the fate of the group
            // unknown. Its submitters get no answer and report an unknown outcome. Nothing may be
            // written after it.
            match catch_unwind(AssertUnwindSafe(|| self.handle(taken, &mut due))) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.poison(FAILED.to_owned());
                    *due = None;
                }
            }
        }
    }

    /// Does what the queue asks for. Returns whether more may come.
    fn handle(&self, taken: Taken, due: &mut Option<Instant>) -> bool {
        match taken {
            Taken::Group(group) => *due = self.commit(group, *due),
            Taken::Nothing if due.is_some_and(|due| due <= Instant::now()) => {
                *due = None;
                self.sync();
            }
            // A caller has committed a list, and its sync is due later.
            Taken::Nothing => {}
            Taken::End => {
                if due.take().is_some() {
                    self.sync();
                }
                return false;
            }
        }
        true
    }

    /// Commits a group. Before it, groups may have been written whose sync is `due`; returns when
    /// there is one due afterwards.
    fn commit(&self, group: Vec<QueuedWrite>, due: Option<Instant>) -> Option<Instant> {
        // Before lists are taken: those whose deadlines pass meanwhile are certainly not applied.
        self.tables.wait_for_flushes(&group.iter().flat_map(|job| job.plan.written_tables()).collect());
        let mut permits = Vec::with_capacity(group.len());
        let taken = group.into_iter().filter_map(|job| {
            permits.push(job.permit);
            job.ticket.take().then_some((job.plan, job.deadline, job.answer))
        });
        let (answers, due) = self.write(taken, due);
        for (sender, answer) in answers {
            // A submitter that gave up has dropped its receiver.
            let _ = sender.send(answer);
        }
        due
    }

    /// Commits a list on the caller's thread, if its sync may wait, and it waits for no other list, no
    /// cut, no flush, no merging and no sync. `None`: it is left to the thread of the committer.
    pub(crate) fn commit_here(&self, deadline: Deadline, plan: &Plan) -> Option<StoreResult<Outcome>> {
        let mut due = self.due.try_lock()?;
        let waits_for_nothing = !plan.sync_delay.is_zero()
            && due.is_none_or(|due| due > Instant::now())
            && self.queue.is_idle()
            && !self.tables.is_held()
            && !self.tables.is_flushing()
            && !self.tables.is_behind();
        if !waits_for_nothing {
            return None;
        }
        let before = *due;
        let written = catch_unwind(AssertUnwindSafe(|| self.write(once((plan, deadline, ())), before)));
        let Ok((answers, after)) = written else {
            self.poison(FAILED.to_owned());
            *due = None;
            return Some(Ok(Outcome::Unknown { reason: FAILED.to_owned() }));
        };
        *due = after;
        drop(due);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.queue.wake();
        }
        answers.into_iter().next().map(|((), answer)| answer)
    }

    /// Decides on lists in order, and writes their changes as one group. Before it, groups may have
    /// been written whose sync is `due`; returns when there is one due afterwards. The answers hold
    /// once this returns.
    fn write<P: Borrow<Plan>, A>(
        &self,
        lists: impl Iterator<Item = (P, Deadline, A)>,
        due: Option<Instant>,
    ) -> (Vec<(A, StoreResult<Outcome>)>, Option<Instant>) {
        let mut answers = Vec::new();
        let mut writes = Pending::default();
        let mut sync_delay = Duration::MAX;
        {
            let view = self.tables.view();
            let now = self.clock.now();
            let free_bytes = self.room.free_bytes();
            let mut group_bytes = 0;
            for (plan, deadline, sender) in lists {
                let plan: &Plan = plan.borrow();
                sync_delay = sync_delay.min(plan.sync_delay);
                let verdict = self.admit(plan, deadline, free_bytes, &mut group_bytes);
                let answer = match verdict.and_then(|()| evaluate(plan, &view, &writes, now)) {
                    Ok(Verdict::Accepted(list)) => {
                        writes.append(list);
                        Ok(Outcome::Applied)
                    }
                    Ok(Verdict::Refused(outcome)) => Ok(outcome),
                    Err(error) => Err(error),
                };
                answers.push((sender, answer));
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
            Ok(()) => (answers, due.filter(|_| !syncs)),
            Err(error) => {
                let reason = self.fail(&error);
                let undecided = |(sender, answer)| (sender, undecided(self.lane, answer, &reason));
                (answers.into_iter().map(undecided).collect(), None)
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
        plan: &Plan,
        deadline: Deadline,
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
