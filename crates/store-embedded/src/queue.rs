//! The queue of lists of steps in front of the committer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use store::{Deadline, Outcome, StoreError, StoreResult};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::plan::Plan;

/// A list that waits.
pub(crate) struct QueuedWrite {
    pub(crate) plan: Plan,
    pub(crate) deadline: Deadline,
    pub(crate) ticket: Ticket,
    pub(crate) answer: oneshot::Sender<StoreResult<Outcome>>,
    /// Its share of the bytes that may wait at the same time.
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Decides who gets a list: the committer that takes it, or the submitter that withdraws it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ticket(Arc<AtomicU8>);

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Ticket {
    /// The committer takes the list. Returns false if it was withdrawn.
    pub(crate) fn take(&self) -> bool {
        self.0.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The submitter withdraws it, so that it is certainly not applied. Returns false if that is
    /// too late.
    pub(crate) fn withdraw(&self) -> bool {
        self.0.compare_exchange(WAITING, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The queue of one committer.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    max_age: Duration,
}

/// What the committer finds in the queue.
pub(crate) enum Taken {
    /// These lists.
    Group(Vec<QueuedWrite>),
    /// Nothing came until the given time, or it was woken ([`Queue::wake`]).
    Nothing,
    /// The queue is closed and empty.
    End,
}

/// How busy a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Lists that wait for the committer.
    pub(crate) waiting: usize,
    /// How long the oldest of them has waited.
    pub(crate) oldest: Duration,
    /// Lists that were refused because others had waited too long.
    pub(crate) refused: u64,
}

struct Waiting {
    refused: u64,
    /// Whether the committer is at work on lists that it has taken.
    is_group_taken: bool,
    jobs: VecDeque<(Instant, QueuedWrite)>,
    closed: bool,
    /// Whether the committer is to look around without a list.
    is_woken: bool,
}

impl Queue {
    pub(crate) fn new(max_age: Duration) -> Self {
        let waiting = Mutex::new(Waiting {
            refused: 0,
            is_group_taken: false,
            jobs: VecDeque::new(),
            closed: false,
            is_woken: false,
        });
        Self { waiting, arrived: Condvar::new(), max_age }
    }

    /// Adds a list, unless the oldest one has waited too long.
    pub(crate) fn push(&self, job: QueuedWrite) -> StoreResult<()> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(StoreError::Unavailable("the store is closed".to_owned()));
        }
        if let Some((since, _)) = waiting.jobs.front()
            && since.elapsed() > self.max_age
        {
            let since = since.elapsed();
            waiting.refused += 1;
            return Err(StoreError::Overloaded(format!("writes have been waiting for {since:?}")));
        }
        waiting.jobs.push_back((Instant::now(), job));
        self.arrived.notify_one();
        Ok(())
    }

    /// How busy it is.
    pub(crate) fn load(&self) -> Load {
        let waiting = self.waiting.lock();
        let oldest = waiting.jobs.front().map_or(Duration::ZERO, |(since, _)| since.elapsed());
        Load { waiting: waiting.jobs.len(), oldest, refused: waiting.refused }
    }

    /// Whether no list waits or is being committed, and one may still be added. So a caller that
    /// commits one itself overtakes none.
    pub(crate) fn is_idle(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.jobs.is_empty() && !waiting.is_group_taken && !waiting.closed
    }

    /// Wakes the committer: the time until which it waits for lists may be another one now.
    pub(crate) fn wake(&self) {
        self.waiting.lock().is_woken = true;
        self.arrived.notify_one();
    }

    /// Waits for lists, until a time if there is one, and takes those that may be committed
    /// together, about `max_bytes` of them.
    pub(crate) fn take_group(&self, max_bytes: usize, until: Option<Instant>) -> Taken {
        let mut waiting = self.waiting.lock();
        waiting.is_group_taken = false;
        while waiting.jobs.is_empty() {
            if waiting.closed {
                return Taken::End;
            }
            if std::mem::take(&mut waiting.is_woken) {
                return Taken::Nothing;
            }
            match until {
                None => self.arrived.wait(&mut waiting),
                Some(until) if self.arrived.wait_until(&mut waiting, until).timed_out() => {
                    if waiting.jobs.is_empty() {
                        return Taken::Nothing;
                    }
                }
                Some(_) => {}
            }
        }
        let mut bytes = 0;
        let mut group = Vec::new();
        while bytes < max_bytes
            && let Some((_, job)) = waiting.jobs.pop_front()
        {
            bytes += job.plan.bytes;
            group.push(job);
        }
        waiting.is_group_taken = true;
        Taken::Group(group)
    }

    /// Accepts no more lists; waiting ones are still committed.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::sync::Semaphore;

    use super::*;

    fn lists(taken: Taken) -> usize {
        match taken {
            Taken::Group(group) => group.len(),
            Taken::Nothing | Taken::End => 0,
        }
    }

    fn job() -> (QueuedWrite, oneshot::Receiver<StoreResult<Outcome>>) {
        let (answer, answered) = oneshot::channel();
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let plan = Plan::of(store::Lane::Text, Vec::new());
        let deadline = Deadline::within(Duration::from_secs(30));
        (QueuedWrite { plan, deadline, ticket: Ticket::default(), answer, permit }, answered)
    }

    #[test]
    fn a_queue_refuses_lists_while_its_oldest_has_waited_too_long() {
        let queue = Queue::new(Duration::ZERO);
        queue.push(job().0).unwrap();
        assert!(matches!(queue.push(job().0), Err(StoreError::Overloaded(_))));
        let load = queue.load();
        assert_eq!((load.waiting, load.refused), (1, 1));
        assert!(load.oldest > Duration::ZERO);
        assert_eq!(lists(queue.take_group(1, None)), 1);
        queue.push(job().0).unwrap();
    }

    #[test]
    fn a_queue_whose_oldest_is_young_accepts_more() {
        let queue = Queue::new(Duration::from_secs(3600));
        for _ in 0..100 {
            queue.push(job().0).unwrap();
        }
        assert_eq!(lists(queue.take_group(1, None)), 100, "lists of no bytes all fit into a group");
    }

    #[test]
    fn nothing_is_taken_if_nothing_comes_until_the_given_time() {
        let queue = Queue::new(Duration::from_secs(3600));
        let now = Some(Instant::now());
        assert!(matches!(queue.take_group(1, now), Taken::Nothing));
        queue.push(job().0).unwrap();
        assert_eq!(lists(queue.take_group(1, now)), 1);
    }

    #[test]
    fn a_queue_that_is_woken_returns_once_without_a_list() {
        let queue = Queue::new(Duration::from_secs(3600));
        queue.wake();
        assert!(matches!(queue.take_group(1, None), Taken::Nothing));
        queue.push(job().0).unwrap();
        assert!(!queue.is_idle());
        assert_eq!(lists(queue.take_group(1, None)), 1);
        assert!(!queue.is_idle(), "the list that was taken is being committed");
        queue.wake();
        assert!(matches!(queue.take_group(1, None), Taken::Nothing));
        assert!(queue.is_idle());
        queue.close();
        assert!(!queue.is_idle(), "it accepts nothing more");
    }

    #[test]
    fn a_closed_queue_returns_its_lists_and_accepts_no_more() {
        let queue = Queue::new(Duration::from_secs(3600));
        queue.push(job().0).unwrap();
        queue.close();
        assert!(matches!(queue.push(job().0), Err(StoreError::Unavailable(_))));
        assert_eq!(lists(queue.take_group(1, None)), 1);
        assert!(matches!(queue.take_group(1, None), Taken::End));
    }

    #[test]
    fn a_list_is_either_taken_or_withdrawn() {
        let taken = Ticket::default();
        assert!(taken.take() && !taken.clone().withdraw());
        let withdrawn = Ticket::default();
        assert!(withdrawn.clone().withdraw() && !withdrawn.take());
    }
}
