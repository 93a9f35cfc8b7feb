//! The jobs on which this process works, so that it does not begin one twice.

use std::collections::HashSet;

use bytes::Bytes;
use parking_lot::Mutex;

/// The jobs on which this process works.
#[derive(Default)]
pub(crate) struct RunningJobs(Mutex<HashSet<Bytes>>);

impl RunningJobs {
    /// Marks a job as running; `None` if it is running already.
    pub(crate) fn begin(&self, record: &Bytes) -> Option<RunningJob<'_>> {
        self.0.lock().insert(record.clone()).then(|| RunningJob { jobs: self, record: record.clone() })
    }
}

/// A job on which this process works. Dropping it ends that.
pub(crate) struct RunningJob<'a> {
    jobs: &'a RunningJobs,
    record: Bytes,
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        self.jobs.0.lock().remove(&self.record);
    }
}
