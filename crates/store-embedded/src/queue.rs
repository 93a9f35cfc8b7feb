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

struct Waiting {
    jobs: VecDeque<(Instant, QueuedWrite)>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new(max_age: Duration) -> Self {
        let waiting = Mutex::new(Waiting { jobs: VecDeque::new(), closed: false });
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
            return Err(StoreError::Overloaded(format!("writes have been waiting for {:?}", since.elapsed())));
        }
        waiting.jobs.push_back((Instant::now(), job));
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for lists and takes those that may be committed together, about `max_bytes` of them;
    /// `None`: the queue is closed and empty.
    pub(crate) fn take_group(&self, max_bytes: usize) -> Option<Vec<QueuedWrite>> {
        let mut waiting = self.waiting.lock();
        while waiting.jobs.is_empty() {
            if waiting.closed {
                return None;
            }
            self.arrived.wait(&mut waiting);
        }
        let mut bytes = 0;
        let mut group = Vec::new();
        while bytes < max_bytes
            && let Some((_, job)) = waiting.jobs.pop_front()
        {
            bytes += job.plan.bytes;
            group.push(job);
        }
        Some(group)
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
        assert_eq!(queue.take_group(1).unwrap().len(), 1);
        queue.push(job().0).unwrap();
    }

    #[test]
    fn a_queue_whose_oldest_is_young_accepts_more() {
        let queue = Queue::new(Duration::from_secs(3600));
        for _ in 0..100 {
            queue.push(job().0).unwrap();
        }
        assert_eq!(queue.take_group(1).unwrap().len(), 100, "lists of no bytes all fit into a group");
    }

    #[test]
    fn a_closed_queue_returns_its_lists_and_accepts_no_more() {
        let queue = Queue::new(Duration::from_secs(3600));
        queue.push(job().0).unwrap();
        queue.close();
        assert!(matches!(queue.push(job().0), Err(StoreError::Unavailable(_))));
        assert_eq!(queue.take_group(1).unwrap().len(), 1);
        assert!(queue.take_group(1).is_none());
    }

    #[test]
    fn a_list_is_either_taken_or_withdrawn() {
        let taken = Ticket::default();
        assert!(taken.take() && !taken.clone().withdraw());
        let withdrawn = Ticket::default();
        assert!(withdrawn.clone().withdraw() && !withdrawn.take());
    }
}
