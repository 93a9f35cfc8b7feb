//! How something is changed: an ordered list of steps, each within one partition.

use bytes::Bytes;

use crate::error::{StoreError, StoreResult};
use crate::row::{Guard, Lane, NewRow, Row, Stamp, Table};

/// One step. Steps run in order and stop at the first that is refused.
#[derive(Clone, Debug)]
pub enum Step {
    /// Puts immutable rows. Putting the same row again changes nothing; never refused.
    Put {
        /// Where.
        table: Table,
        /// Where.
        partition: Bytes,
        /// What.
        rows: Vec<NewRow>,
    },
    /// Goes on only if a row (read strongly) meets a condition.
    Require {
        /// Where.
        table: Table,
        /// Where.
        partition: Bytes,
        /// Which row.
        sort: Bytes,
        /// What must hold.
        condition: Condition,
    },
    /// Writes a guarded row (a head) if it stands as expected, and with it, all or nothing, immutable rows of the same partition.
    CompareAndWrite {
        /// Where.
        table: Table,
        /// Where.
        partition: Bytes,
        /// The guarded row.
        sort: Bytes,
        /// What must stand there.
        expect: Expect,
        /// Its new guard; the stamp must be fresh.
        guard: Guard,
        /// Its new value.
        value: Bytes,
        /// Immutable rows that appear with it (the head log entry, damage marks and the like).
        rows: Vec<NewRow>,
    },
    /// Removes rows; guarded ones are left standing, whether they are named or lie in the range. Removing what is not there is
    /// no error; never refused.
    Remove {
        /// Where.
        table: Table,
        /// Where.
        partition: Bytes,
        /// What.
        rows: Removal,
    },
}

impl Step {
    /// The table it touches.
    pub fn table(&self) -> Table {
        match self {
            Step::Put { table, .. }
            | Step::Require { table, .. }
            | Step::CompareAndWrite { table, .. }
            | Step::Remove { table, .. } => *table,
        }
    }

    /// The lane that all steps of a list keep to; `None`: the list is empty.
    ///
    /// [`StoreError::Invalid`] if they do not keep to one.
    pub fn lane_of(steps: &[Step]) -> StoreResult<Option<Lane>> {
        let Some(first) = steps.first().map(Step::table) else { return Ok(None) };
        match steps.iter().map(Step::table).find(|table| table.lane() != first.lane()) {
            None => Ok(Some(first.lane())),
            Some(other) => Err(StoreError::Invalid(format!(
                "tables {first} and {other} lie in different lanes and do not change in one list"
            ))),
        }
    }

    /// The partition it touches.
    pub fn partition(&self) -> &Bytes {
        match self {
            Step::Put { partition, .. }
            | Step::Require { partition, .. }
            | Step::CompareAndWrite { partition, .. }
            | Step::Remove { partition, .. } => partition,
        }
    }
}

/// What [`Step::Require`] asks of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// There is no such row.
    Absent,
    /// There is such a row.
    Present,
    /// It is guarded and carries this stamp.
    Stamp(Stamp),
    /// It is guarded and carries this tag.
    Tag(Bytes),
}

impl Condition {
    /// Whether `row` meets the condition.
    pub fn holds(&self, row: Option<&Row>) -> bool {
        let guard = row.and_then(|row| row.guard.as_ref());
        match self {
            Condition::Absent => row.is_none(),
            Condition::Present => row.is_some(),
            Condition::Stamp(stamp) => guard.is_some_and(|guard| guard.stamp == *stamp),
            Condition::Tag(tag) => guard.is_some_and(|guard| guard.tag == *tag),
        }
    }
}

/// What [`Step::CompareAndWrite`] expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No row yet.
    Absent,
    /// A guarded row with this stamp.
    Stamp(Stamp),
}

impl Expect {
    /// Whether `row` is what is expected.
    pub fn holds(&self, row: Option<&Row>) -> bool {
        match self {
            Expect::Absent => Condition::Absent.holds(row),
            Expect::Stamp(stamp) => Condition::Stamp(*stamp).holds(row),
        }
    }
}

/// What [`Step::Remove`] removes.
#[derive(Clone, Debug)]
pub enum Removal {
    /// These sort keys.
    Rows(Vec<Bytes>),
    /// A range of sort keys: from the first (inclusive) to the second (exclusive; `None`: the partition's end).
    Range(Bytes, Option<Bytes>),
}

/// How a list of steps ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// All of it was applied.
    Applied,
    /// This step, and every later one, was surely not applied. Whether earlier ones were, callers do not rely on.
    Refused {
        /// The index of the refused step.
        step: usize,
        /// What stands there instead.
        stands: Option<Row>,
    },
    /// Nobody knows (a time-out, a lost connection): find out by revision id, or say so to the client.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl Outcome {
    /// Whether all was applied.
    pub fn is_applied(&self) -> bool {
        matches!(self, Outcome::Applied)
    }
}
