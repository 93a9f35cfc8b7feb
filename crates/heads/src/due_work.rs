//! What passes over recorded work found to be due, for monitors.

use std::time::Duration;

use parking_lot::Mutex;

use crate::queues::Queue;

/// What a pass over a queue found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Records that were due.
    pub records: u64,
    /// For how long the oldest of them had been due, within ten minutes.
    pub oldest: Duration,
}

/// What the last complete pass over each queue found.
#[derive(Debug, Default)]
pub(crate) struct DueWork([Mutex<Due>; Queue::ALL.len()]);

impl DueWork {
    pub(crate) fn of(&self, queue: Queue) -> Due {
        *self.0[queue as usize].lock()
    }

    pub(crate) fn found(&self, queue: Queue, due: Due) {
        *self.0[queue as usize].lock() = due;
    }
}
