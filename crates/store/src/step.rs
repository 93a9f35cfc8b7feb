//! How data changes: an ordered list of steps, each within one partition.

use bytes::Bytes;

use crate::error::{StoreError, StoreResult};
use crate::row::{Guard, NewRow, PlainValue, Row, Stamp};
use crate::table::{Lane, Table};

/// One step. Steps run in order and stop at the first that is refused.
#[derive(Clone, Debug)]
pub enum Step {
    /// Puts plain rows. Putting the same row again changes nothing. Whether a row may be put with
    /// other bytes depends on the table: see [`crate::PlainRows`]. It is never refused.
    Put {
        /// The table.
        table: Table,
        /// The partition.
        partition: Bytes,
        /// The rows.
        rows: Vec<NewRow>,
    },
    /// Continues only if a row (read strongly) meets a condition.
    Require {
        /// The table.
        table: Table,
        /// The partition.
        partition: Bytes,
        /// The row.
        sort: Bytes,
        /// The condition.
        condition: Condition,
    },
    /// Writes a guarded row (a head) if the stored one is as expected.
    CompareAndWrite {
        /// The table.
        table: Table,
        /// The partition.
        partition: Bytes,
        /// The guarded row.
        sort: Bytes,
        /// What must be stored there.
        expect: Expect,
        /// Its new guard, with a fresh stamp.
        guard: Guard,
        /// Its new value.
        value: Bytes,
    },
    /// Replaces a plain row of a table of replaced rows, makes one or removes it, if it is as the
    /// caller read it. A value may come back, so no engine can find out later whether this step was
    /// applied, as it can with a stamp. If an answer is lost, the outcome is unknown.
    ///
    /// A row that was replaced so is not put or removed by other steps later: an engine may order
    /// those by the clocks of the processes, and these by its own. Calls whose writes count by the
    /// clock ([`crate::Call::is_by_clock`]) have one order for all steps.
    Replace {
        /// The table.
        table: Table,
        /// The partition.
        partition: Bytes,
        /// The row.
        sort: Bytes,
        /// What must be stored there, even if it has expired meanwhile. `None`: nothing that a read
        /// sees.
        expect: Option<PlainValue>,
        /// What is stored from now on. `None`: nothing.
        then: Option<PlainValue>,
    },
    /// Removes rows, but no guarded rows, whether named or in the range. Removing a row that does
    /// not exist is no error. It is never refused.
    Remove {
        /// The table.
        table: Table,
        /// The partition.
        partition: Bytes,
        /// The rows.
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
            | Step::Replace { table, .. }
            | Step::Remove { table, .. } => *table,
        }
    }

    /// The lane of all steps of a list; `None` if the list is empty.
    ///
    /// Returns [`StoreError::Invalid`] if the steps touch more than one lane.
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
            | Step::Replace { partition, .. }
            | Step::Remove { partition, .. } => partition,
        }
    }
}

/// What [`Step::Require`] requires of a row.
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
    /// Whether `row` is as expected.
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
    /// A range of sort keys: from the first (inclusive) to the second (exclusive; `None`: the end
    /// of the partition).
    Range(Bytes, Option<Bytes>),
}

/// How a list of steps ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// All of it was applied.
    Applied,
    /// This step was not applied, nor was any later one. Callers do not rely on whether earlier
    /// ones were.
    Refused {
        /// The index of the refused step.
        step: usize,
        /// What is stored instead.
        current: Option<Row>,
    },
    /// The outcome is unknown (a time-out, a lost connection): look the revision id up, or report
    /// it to the client.
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
