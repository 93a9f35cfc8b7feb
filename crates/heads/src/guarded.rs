//! Values that several servers change by compare-and-write, one row each.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use store::{Call, Class, Expect, Guard, Outcome, Row, Stamp, Step, StoreError, Stored, Table, boxed};

use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::head::{open, seal};

/// A guarded row, and what its next change must find.
#[derive(Clone, Debug)]
pub struct Known<T> {
    /// `None` if there is no row, or if its value is damaged.
    pub value: Option<T>,
    /// What a change of the row compares with.
    pub expect: Expect,
}

impl<T: Stored> Known<T> {
    /// A row as it was read.
    ///
    /// Errors: the row has no guard.
    pub fn of(table: Table, row: Option<Row>) -> ObjectsResult<Self> {
        let Some(row) = row else { return Ok(Self { value: None, expect: Expect::Absent }) };
        let guard = row.guard.as_ref().ok_or_else(|| ObjectsError::corrupt(table, "a guarded row without a guard"))?;
        Ok(Self { value: open(table, &row.value).ok(), expect: Expect::Stamp(guard.stamp) })
    }
}

impl<T> Known<T> {
    /// Whether there is a row whose value cannot be read.
    pub fn is_damaged(&self) -> bool {
        self.value.is_none() && self.expect != Expect::Absent
    }
}

impl Heads {
    /// Reads rows of one partition, strongly, in the order of `sorts`.
    #[boxed]
    pub async fn guarded_rows(
        &self,
        table: Table,
        partition: Bytes,
        sorts: Vec<Bytes>,
    ) -> ObjectsResult<Vec<Option<Row>>> {
        let rows: Vec<_> = sorts.into_iter().map(|sort| (partition.clone(), sort)).collect();
        let read = async || {
            let call = self.call(Class::Description).strong();
            Ok(self.store().get_many(call, table, rows.clone()).await?)
        };
        self.retry_transient(read).await
    }

    /// Writes a row if it still is as `expect` says. Repeats the write until there is an answer: the
    /// stamp shows whether an earlier try was applied. Returns what the next change must find, or
    /// `None` if another server has changed the row.
    ///
    /// Errors: besides those of the store, [`ObjectsError::Unknown`] if another server may have
    /// changed the row after this write was applied.
    pub async fn write_guarded<T: Stored>(
        &self,
        table: Table,
        partition: Bytes,
        sort: Bytes,
        value: &T,
        expect: Expect,
    ) -> ObjectsResult<Option<Expect>> {
        self.write_guarded_by(std::convert::identity, table, partition, sort, value, expect).await
    }

    /// The same, by a call that `of` makes of the usual one.
    pub(crate) async fn write_guarded_by<T: Stored>(
        &self,
        of: fn(Call) -> Call,
        table: Table,
        partition: Bytes,
        sort: Bytes,
        value: &T,
        expect: Expect,
    ) -> ObjectsResult<Option<Expect>> {
        let value = seal(value)?;
        self.write_sealed(of, table, partition, sort, value, expect).await
    }

    #[boxed]
    async fn write_sealed(
        &self,
        of: fn(Call) -> Call,
        table: Table,
        partition: Bytes,
        sort: Bytes,
        value: Bytes,
        expect: Expect,
    ) -> ObjectsResult<Option<Expect>> {
        let stamp: Stamp = self.stamp();
        let guard = Guard { stamp, tag: Bytes::new() };
        let step = Step::CompareAndWrite { table, partition, sort, expect, guard, value };
        let is_unsure = AtomicBool::new(false);
        let attempt = async || match self.store().run(of(self.call(Class::Description)), vec![step.clone()]).await {
            Ok(Outcome::Applied) => Ok(Some(Expect::Stamp(stamp))),
            Ok(Outcome::Refused { current, .. }) => {
                let is_own = current.and_then(|row| row.guard).is_some_and(|guard| guard.stamp == stamp);
                match is_own {
                    true => Ok(Some(Expect::Stamp(stamp))),
                    false if !is_unsure.load(Ordering::Relaxed) => Ok(None),
                    // An earlier try may have been applied, and then another server has followed it.
                    false => Err(ObjectsError::Unknown(format!("a row of {} was changed", table.name()))),
                }
            }
            Ok(Outcome::Unknown { reason }) => {
                is_unsure.store(true, Ordering::Relaxed);
                Err(StoreError::Unavailable(reason).into())
            }
            Err(error) => Err(error.into()),
        };
        self.retry_transient(attempt).await
    }
}
