//! The kinds of background work, and what they note about their records.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use store::UnixMillis;

use crate::error::ObjectsResult;

/// A pass ends after so many consecutive records have failed without being damaged: then the store
/// fails, and each further record would waste time.
const IN_A_ROW_MAX: u32 = 8;

/// The kinds of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    /// Resuming deletions of containers.
    Resuming,
    /// Dropping the marks of deleted containers.
    Emptying,
    /// Ending selections.
    Selections,
    /// Collecting volumes, and rewriting the container of volumes.
    Volumes,
    /// Collecting versions of resources.
    Versions,
    /// Collecting contents.
    Contents,
    /// Giving containers more shards.
    Growing,
    /// Ending transactions.
    Transactions,
}

impl Chore {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Resuming,
        Self::Emptying,
        Self::Selections,
        Self::Volumes,
        Self::Versions,
        Self::Contents,
        Self::Growing,
        Self::Transactions,
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
            Self::Transactions => "transactions",
        }
    }
}

/// For each kind, how often its passes met a record that failed.
#[derive(Default)]
pub struct Failures([AtomicU64; Chore::ALL.len()]);

impl Failures {
    /// The failures of one kind of work.
    pub fn of(&self, chore: Chore) -> &AtomicU64 {
        &self.0[chore as usize]
    }
}

/// What happens to the records of one subject that were handled.
pub enum Then {
    /// The work is complete.
    Finished,
    /// Work is left, but not before this time.
    Later(UnixMillis),
    /// The work of the records with these sort keys is complete. For the others work is left, but
    /// not before this time.
    Partly(BTreeSet<Bytes>, UnixMillis),
}

/// The failures of one pass over its records.
pub struct Tally<'a> {
    failures: &'a AtomicU64,
    chore: Chore,
    in_a_row: u32,
}

impl<'a> Tally<'a> {
    /// A pass that begins.
    pub fn new(failures: &'a Failures, chore: Chore) -> Self {
        Self { failures: failures.of(chore), chore, in_a_row: 0 }
    }

    /// The outcome of one record; `None` if it failed. An error ends the pass.
    pub fn take<T>(&mut self, record: impl Display, result: ObjectsResult<T>) -> ObjectsResult<Option<T>> {
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
