//! Passes in the background over recorded work. A record that cannot be dealt with, or a page of them that cannot be read, is
//! reported in the log and counted, and ends no pass.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use store::UnixMillis;

use crate::error::ObjectsResult;
use crate::library::Library;
use crate::queue::Entry;

/// So many records that fail one after the other, without being damaged, end a pass: it is the store that fails, and each would take
/// its time to find out.
const IN_A_ROW_MAX: u32 = 8;

/// What goes on in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Going on with deletions of containers ([`Library::resume_deletions`]).
    Resuming,
    /// Dropping the marks of deleted containers ([`Library::empty_deleted_containers`]).
    Emptying,
    /// Ending selections ([`Library::sweep_selections`]).
    Selections,
    /// Collecting volumes, and rewriting the container of volumes ([`Library::collect_once`]).
    Volumes,
    /// Collecting versions of resources ([`Library::collect_versions`]).
    Versions,
    /// Collecting contents ([`Library::collect_contents`]).
    Contents,
    /// Giving containers more shards ([`Library::grow_containers`]).
    Growing,
}

impl Chore {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Resuming,
        Self::Emptying,
        Self::Selections,
        Self::Volumes,
        Self::Versions,
        Self::Contents,
        Self::Growing,
    ];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resuming => "resuming",
            Self::Emptying => "emptying",
            Self::Selections => "selections",
            Self::Volumes => "volumes",
            Self::Versions => "versions",
            Self::Contents => "contents",
            Self::Growing => "growing",
        }
    }
}

/// How often the passes of each met a record that it could not deal with.
#[derive(Default)]
pub(crate) struct Failures([AtomicU64; Chore::ALL.len()]);

/// What becomes of a record that was dealt with.
pub(crate) enum Then {
    /// It is done with.
    Finished,
    /// Something is left to do, before this time nothing.
    Later(UnixMillis),
}

/// How one pass goes over its records.
pub(crate) struct Tally<'a> {
    failures: &'a AtomicU64,
    chore: Chore,
    in_a_row: u32,
}

impl Library {
    /// How many records passes could not deal with since this library was opened; a record counts each time that it is met. Why is in the
    /// log.
    pub fn failed_records(&self, chore: Chore) -> u64 {
        self.inner.failures.0[chore as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn tally(&self, chore: Chore) -> Tally<'_> {
        Tally { failures: &self.inner.failures.0[chore as usize], chore, in_a_row: 0 }
    }
}

impl Library {
    /// Notes what came of records of one subject, and removes them, or leaves them until a time. What could not be dealt with is left for the
    /// next pass. Answers what was done; an error ends the pass.
    pub(crate) async fn dealt_with<T>(
        &self,
        tally: &mut Tally<'_>,
        (records, subject): (&[Entry], &[u8]),
        outcome: ObjectsResult<(T, Then)>,
    ) -> ObjectsResult<Option<T>> {
        let dealt_with = tally.take(subject.escape_ascii(), outcome)?;
        let now = self.inner.surroundings.clock.now();
        let (done, then) = dealt_with.map_or((None, Then::Later(now)), |(done, then)| (Some(done), then));
        match then {
            Then::Finished => self.finish(records).await?,
            Then::Later(until) => self.postpone(records, subject, until).await?,
        }
        Ok(done)
    }

    /// What becomes of a record that is finished, or is left for the next pass.
    pub(crate) fn finished_if(&self, is_finished: bool) -> Then {
        match is_finished {
            true => Then::Finished,
            false => Then::Later(self.inner.surroundings.clock.now()),
        }
    }
}

impl Tally<'_> {
    /// What came of one record; `None`: it could not be dealt with. An error ends the pass.
    pub(crate) fn take<T>(&mut self, record: impl Display, result: ObjectsResult<T>) -> ObjectsResult<Option<T>> {
        let error = match result {
            Ok(done) => {
                self.in_a_row = 0;
                return Ok(Some(done));
            }
            Err(error) => error,
        };
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(pass = self.chore.name(), %record, %error, "a record could not be dealt with, and is left for later");
        self.in_a_row += u32::from(!error.is_damage());
        if self.in_a_row >= IN_A_ROW_MAX { Err(error) } else { Ok(None) }
    }
}
