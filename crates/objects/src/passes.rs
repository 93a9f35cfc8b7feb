//! Background passes over recorded work. A record that fails, or a page of records that cannot be
//! read, is logged and counted, and does not end a pass.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use store::UnixMillis;

use crate::error::ObjectsResult;
use crate::library::Library;
use crate::queue::Entry;

/// A pass ends after so many consecutive records have failed without being damaged: then the store
/// fails, and each further record would waste time.
const IN_A_ROW_MAX: u32 = 8;

/// The kinds of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Resuming deletions of containers ([`Library::resume_deletions`]).
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
    /// All kinds.
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

/// For each kind, how often its passes met a record that failed.
#[derive(Default)]
pub(crate) struct Failures([AtomicU64; Chore::ALL.len()]);

/// What happens to a record that was handled.
pub(crate) enum Then {
    /// The work is complete.
    Finished,
    /// Work is left, but not before this time.
    Later(UnixMillis),
}

/// The failures of one pass over its records.
pub(crate) struct Tally<'a> {
    failures: &'a AtomicU64,
    chore: Chore,
    in_a_row: u32,
}

impl Library {
    /// The number of failures in passes since this library was opened; a record counts each time
    /// that it fails. The log has the reasons.
    pub fn failed_records(&self, chore: Chore) -> u64 {
        self.inner.failures.0[chore as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn tally(&self, chore: Chore) -> Tally<'_> {
        Tally { failures: &self.inner.failures.0[chore as usize], chore, in_a_row: 0 }
    }
}

impl Library {
    /// Notes the outcome of the records of one subject, and removes them or postpones them. Failed
    /// records are left for the next pass. Returns what was done; an error ends the pass.
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

    /// What happens to a record that is finished or left for the next pass.
    pub(crate) fn finished_if(&self, is_finished: bool) -> Then {
        match is_finished {
            true => Then::Finished,
            false => Then::Later(self.inner.surroundings.clock.now()),
        }
    }
}

impl Tally<'_> {
    /// The outcome of one record; `None` if it failed. An error ends the pass.
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
