//! Background passes over recorded work. A record that fails, or a page of records that cannot be
//! read, is logged and counted, and does not end a pass.

use std::sync::atomic::Ordering;

use crate::chores::{Chore, Tally, Then};
use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::queue::WorkEntry;
use store::boxed;

impl Heads {
    /// The number of failures in passes since this library was opened; a record counts each time
    /// that it fails. The log has the reasons.
    pub fn failed_records(&self, chore: Chore) -> u64 {
        self.inner.failures.of(chore).load(Ordering::Relaxed)
    }

    /// Counts the failures of a pass that begins.
    pub fn tally(&self, chore: Chore) -> Tally<'_> {
        Tally::new(&self.inner.failures, chore)
    }
}

impl Heads {
    /// Notes the outcome of the records of one subject, and removes them or postpones them. Failed
    /// records are left for the next pass. Returns what was done; an error ends the pass.
    pub async fn dealt_with<T>(
        &self,
        tally: &mut Tally<'_>,
        (records, subject): (&[WorkEntry], &[u8]),
        outcome: ObjectsResult<(T, Then)>,
    ) -> ObjectsResult<Option<T>> {
        let dealt_with = tally.take(subject.escape_ascii(), outcome)?;
        let now = self.inner.surroundings.clock.now();
        let (done, then) = dealt_with.map_or((None, Then::Later(now)), |(done, then)| (Some(done), then));
        self.end_with(then, records, subject).await?;
        Ok(done)
    }

    #[boxed]
    async fn end_with(&self, then: Then, records: &[WorkEntry], subject: &[u8]) -> ObjectsResult<()> {
        match then {
            Then::Finished => self.finish(records).await?,
            Then::Later(until) => self.postpone(records, subject, until).await?,
            Then::Partly(complete, until) => {
                let (complete, left): (Vec<_>, Vec<_>) =
                    records.iter().cloned().partition(|record| complete.contains(record.sort()));
                self.finish(&complete).await?;
                self.postpone(&left, subject, until).await?;
            }
        }
        Ok(())
    }

    /// What happens to a record that is finished or left for the next pass.
    pub fn finished_if(&self, is_finished: bool) -> Then {
        match is_finished {
            true => Then::Finished,
            false => Then::Later(self.inner.surroundings.clock.now()),
        }
    }
}
