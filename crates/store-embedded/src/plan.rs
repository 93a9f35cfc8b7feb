//! A list of steps as the committer takes it: keys and values encoded, sizes known. The submitter
//! makes it, so that the one committer only checks and merges.

use std::time::Duration;

use bytes::Bytes;
use store::{
    Call, Class, Condition, Expect, Lane, NewRow, PlainRows, PlainValue, Removal, Step, StoreError, StoreResult, Table,
    UnixMillis,
};

use crate::key::{self, KeyRange};
use crate::room::Use;
use crate::space::Space;
use crate::tables::View;
use crate::value::Value;
use crate::{expiry, value};

/// Lists up to this size need little disk space, except those of records.
const LITTLE_BYTES: usize = 16 << 10;

/// An immutable row to be written.
#[derive(Debug)]
pub(crate) struct PlannedRow {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    /// Its entry in the list of expiries.
    pub(crate) expiry: Option<Bytes>,
}

/// A row that a condition reads.
#[derive(Debug)]
pub(crate) struct RowAddress {
    pub(crate) table: Table,
    pub(crate) key: Bytes,
    pub(crate) sort: Bytes,
}

/// One step, encoded.
#[derive(Debug)]
pub(crate) enum Change {
    Put {
        table: Table,
        rows: Vec<PlannedRow>,
    },
    Require {
        target: RowAddress,
        condition: Condition,
    },
    CompareAndWrite {
        target: RowAddress,
        expect: Expect,
        value: Bytes,
    },
    Replace {
        target: RowAddress,
        expect: Option<PlainValue>,
        then: Option<PlannedRow>,
    },
    RemoveRows {
        table: Table,
        keys: Vec<Bytes>,
    },
    RemoveRange {
        table: Table,
        range: Option<KeyRange>,
    },
    /// Used by the engine itself: removes a guarded row if it is as expected.
    DropGuarded {
        target: RowAddress,
        expect: Expect,
    },
    /// Used by the engine itself: removes expired rows by their entries in the list of expiries.
    Reclaim {
        entries: Vec<Bytes>,
    },
}

/// A list of steps, encoded.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The lane of all tables that it touches.
    pub(crate) lane: Lane,
    pub(crate) changes: Vec<Change>,
    /// Bytes of its keys and values.
    pub(crate) bytes: usize,
    pub(crate) use_: Use,
    /// How long its group may wait for a sync after it is acknowledged.
    pub(crate) sync_delay: Duration,
    /// Whether its caller has just read what it writes, or knows that it is new. Then only what is
    /// to be removed is touched.
    pub(crate) has_read: bool,
    /// Whether it needs no [`Plan::touch`]: the rows that the committer looks at are in memory.
    pub(crate) is_touched: bool,
}

impl Plan {
    /// Encodes steps, which must touch one lane only.
    pub(crate) fn new(steps: Vec<Step>) -> StoreResult<Self> {
        // An empty list may be committed in any lane.
        let lane = Step::lane_of(&steps)?.unwrap_or(Lane::Text);
        let changes = steps.into_iter().map(plan_step).collect::<StoreResult<Vec<_>>>()?;
        Ok(Self::of(lane, changes))
    }

    /// The same plan with the disk space priority of its call. Reading has to go on, so a full disk
    /// refuses the audit last. Removals come next, because they free space, with what is owed.
    pub(crate) fn of_call(self, call: Call) -> Self {
        let plan = Self { has_read: call.has_read, ..self };
        match call {
            Call { class: Class::Audit, .. } => Self { use_: Use::Audits, ..plan },
            Call { is_owed: true, .. } => Self { use_: Use::GivesBack, ..plan },
            Call { is_removal: true, .. } => plan.removing(),
            _ => plan,
        }
    }

    /// The same plan, whose group may wait so long for its sync.
    pub(crate) fn synced_within(self, sync_delay: Duration) -> Self {
        Self { sync_delay, ..self }
    }

    /// The same plan as a step of a removal, if it is small.
    pub(crate) fn removing(self) -> Self {
        if self.use_ == Use::AddsLittle { Self { use_: Use::GivesBack, ..self } } else { self }
    }

    /// A plan of encoded changes to tables of a lane.
    pub(crate) fn of(lane: Lane, changes: Vec<Change>) -> Self {
        let bytes = changes.iter().map(change_bytes).sum();
        let adds = |change: &Change| {
            matches!(
                change,
                Change::Put { .. } | Change::CompareAndWrite { .. } | Change::Replace { then: Some(_), .. }
            )
        };
        let use_ = match changes.iter().any(adds) {
            // A record is small, but records change all the time: together they need much.
            true if bytes > LITTLE_BYTES || lane == Lane::Records => Use::Adds,
            true => Use::AddsLittle,
            false => Use::GivesBack,
        };
        Self { lane, changes, bytes, use_, sync_delay: Duration::ZERO, has_read: false, is_touched: false }
    }

    /// Bytes of the keys and values of its largest change.
    pub(crate) fn largest_change_bytes(&self) -> usize {
        self.changes.iter().map(change_bytes).max().unwrap_or_default()
    }

    /// The tables that rows are written to, or removed from.
    pub(crate) fn written_tables(&self) -> impl Iterator<Item = Table> {
        self.changes.iter().filter_map(|change| match change {
            Change::Put { table, .. } | Change::RemoveRows { table, .. } | Change::RemoveRange { table, .. } => {
                Some(*table)
            }
            Change::CompareAndWrite { target, .. }
            | Change::Replace { target, .. }
            | Change::DropGuarded { target, .. } => Some(target.table),
            // The sweep's entries may be of any table. It waits for the list of expiries.
            Change::Require { .. } | Change::Reclaim { .. } => None,
        })
    }

    /// How many rows [`Plan::touch`] reads; a range counts as the greatest number.
    pub(crate) fn rows_touched(&self) -> usize {
        let rows = |change: &Change| match change {
            Change::Put { rows, .. } => rows.len(),
            Change::CompareAndWrite { .. }
            | Change::Require { .. }
            | Change::Replace { .. }
            | Change::DropGuarded { .. } => 1,
            Change::RemoveRows { keys, .. } => keys.len(),
            Change::RemoveRange { range, .. } => range.as_ref().map_or(0, |_| usize::MAX),
            Change::Reclaim { .. } => 0,
        };
        self.changes.iter().fold(0, |sum: usize, change| sum.saturating_add(rows(change)))
    }

    /// Whether [`Plan::touch`] has something to read.
    pub(crate) fn needs_touch(&self) -> bool {
        let removes = |change: &Change| matches!(change, Change::RemoveRows { .. } | Change::RemoveRange { .. });
        !self.is_touched && (!self.has_read || self.changes.iter().any(removes))
    }

    /// Reads the rows that the committer will read, so that it finds them in memory. Fails if a
    /// guarded row would be put plainly, which only a defect of the caller can request.
    pub(crate) fn touch(&self, view: &View<'_>, now: UnixMillis) -> StoreResult<()> {
        for change in &self.changes {
            match change {
                Change::Put { .. }
                | Change::CompareAndWrite { .. }
                | Change::Require { .. }
                | Change::Replace { .. }
                | Change::DropGuarded { .. }
                    if self.has_read => {}
                Change::Put { table, rows } => refuse_guarded(view, *table, rows, now)?,
                Change::CompareAndWrite { target, .. }
                | Change::Require { target, .. }
                | Change::Replace { target, .. }
                | Change::DropGuarded { target, .. } => {
                    view.touch(target.table, &target.key)?;
                }
                Change::RemoveRows { table, keys } => {
                    for key in keys {
                        view.touch(*table, key)?;
                    }
                }
                Change::RemoveRange { table, range } => {
                    if let Some(range) = range {
                        view.range(Space::Rows(*table), range.clone())?.try_for_each(|row| row.map(|_| ()))?;
                    }
                }
                // The sweep leaves out rows that cannot be read, so it reads them itself.
                Change::Reclaim { .. } => {}
            }
        }
        Ok(())
    }
}

/// Whether the committer looks at the row that a put replaces: it may have another expiry.
pub(crate) fn is_looked_up(table: Table) -> bool {
    let info = table.info();
    info.may_expire && info.plain_rows == PlainRows::Replaced
}

/// The error of a put over a guarded row.
pub(crate) fn put_plainly(table: Table) -> StoreError {
    StoreError::Invalid(format!("a guarded row of table {table} was put plainly"))
}

fn refuse_guarded(view: &View<'_>, table: Table, rows: &[PlannedRow], now: UnixMillis) -> StoreResult<()> {
    for row in rows {
        match view.value(table, &row.key, now) {
            Ok(Some(Value { guard: Some(_), .. })) => {
                return Err(put_plainly(table));
            }
            // The stored row cannot be read and is about to be replaced.
            Ok(_) | Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn plan_step(step: Step) -> StoreResult<Change> {
    Ok(match step {
        Step::Put { table, partition, rows } => Change::Put { table, rows: plan_rows(table, &partition, rows)? },
        Step::Require { table, partition, sort, condition } => {
            Change::Require { target: RowAddress::new(table, &partition, sort)?, condition }
        }
        Step::CompareAndWrite { table, partition, sort, expect, guard, value } => Change::CompareAndWrite {
            target: RowAddress::new(table, &partition, sort)?,
            expect,
            value: value::encode_guarded(&value, &guard)?,
        },
        Step::Replace { table, partition, sort, expect, then } => {
            let row = |row: PlainValue| NewRow { sort: sort.clone(), value: row.value, expires_at: row.expires_at };
            let then = then.map(|then| plan_row(table, &partition, row(then))).transpose()?;
            Change::Replace { target: RowAddress::new(table, &partition, sort)?, expect, then }
        }
        Step::Remove { table, partition, rows: Removal::Rows(sorts) } => {
            let keys = sorts.iter().map(|sort| key::encode(&partition, sort)).collect::<StoreResult<_>>()?;
            Change::RemoveRows { table, keys }
        }
        Step::Remove { table, partition, rows: Removal::Range(from, to) } => {
            Change::RemoveRange { table, range: key::range(&partition, &from, to.as_deref()) }
        }
    })
}

fn plan_rows(table: Table, partition: &[u8], rows: Vec<NewRow>) -> StoreResult<Vec<PlannedRow>> {
    rows.into_iter().map(|row| plan_row(table, partition, row)).collect()
}

fn plan_row(table: Table, partition: &[u8], row: NewRow) -> StoreResult<PlannedRow> {
    let key = key::encode(partition, &row.sort)?;
    let expiry = row.expires_at.map(|expires_at| expiry::encode(expires_at, table, &key));
    Ok(PlannedRow { value: value::encode_plain(&row.value, row.expires_at), key, expiry })
}

impl RowAddress {
    pub(crate) fn new(table: Table, partition: &[u8], sort: Bytes) -> StoreResult<Self> {
        Ok(Self { table, key: key::encode(partition, &sort)?, sort })
    }
}

fn change_bytes(change: &Change) -> usize {
    match change {
        Change::Put { rows, .. } => rows_bytes(rows),
        Change::CompareAndWrite { target, value, .. } => target.key.len() + value.len(),
        Change::Replace { target, then, .. } => {
            target.key.len() + then.as_ref().map_or(0, |row| rows_bytes(std::slice::from_ref(row)))
        }
        Change::Require { target, .. } | Change::DropGuarded { target, .. } => target.key.len(),
        Change::RemoveRows { keys, .. } => keys.iter().map(Bytes::len).sum(),
        Change::RemoveRange { .. } => 0,
        Change::Reclaim { entries } => entries.iter().map(Bytes::len).sum(),
    }
}

fn rows_bytes(rows: &[PlannedRow]) -> usize {
    rows.iter().map(|row| row.key.len() + row.value.len() + row.expiry.as_ref().map_or(0, Bytes::len)).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_caller_that_has_read_its_rows_waits_only_for_those_that_are_to_be_removed() {
        let (table, partition) = (Table::Work, Bytes::from("p"));
        let put = || Step::Put { table, partition: partition.clone(), rows: vec![NewRow::new("a", "v")] };
        let remove = |rows| Step::Remove { table, partition: partition.clone(), rows };
        let some = || remove(Removal::Rows(vec!["b".into()]));
        let range = || remove(Removal::Range("b".into(), None));
        for (steps, is_waited_for) in [(vec![put()], false), (vec![put(), some()], true), (vec![range()], true)] {
            let plan = || Plan::new(steps.clone()).unwrap();
            let call = Call::new(Class::Description, store::Deadline::within(std::time::Duration::from_secs(1)));
            assert!(plan().of_call(call).needs_touch());
            assert_eq!(plan().of_call(call.having_read()).needs_touch(), is_waited_for, "{steps:?}");
        }
    }
}
