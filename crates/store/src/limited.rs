//! Enforces the limits of the seam above an engine, so that every engine refuses what the strictest
//! would refuse. It never truncates: the result is the engine's, or an error that names the limit.
//! It also refuses lists that touch more than one lane, and expiries in tables whose rows last.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Call, ContentId, ContentStream, Guard, Limits, NewRow, Outcome, PlainRows, Removal, Step, Store, StoreError,
    StoreResult, Table, UnixMillis, Wrapper,
};

/// A store that refuses requests over its limits with [`StoreError::Limit`], before the engine sees
/// any of them.
pub struct Limited {
    inner: Arc<dyn Store>,
    limits: Limits,
}

impl Limited {
    /// Enforces `limits` above `inner`.
    pub fn new(inner: Arc<dyn Store>, limits: Limits) -> Self {
        Self { inner, limits }
    }

    fn check_list(&self, steps: &[Step]) -> StoreResult<()> {
        at_most("steps of a list", steps.len(), self.limits.steps)?;
        Step::lane_of(steps)?;
        steps.iter().try_for_each(|step| self.check_step(step))
    }

    fn check_step(&self, step: &Step) -> StoreResult<()> {
        self.check_key(step.partition())?;
        let size = match step {
            Step::Put { table, rows, .. } => {
                check_expiries(*table, rows.iter().filter_map(|row| row.expires_at))?;
                self.check_rows(rows)?
            }
            Step::Require { sort, .. } => self.check_sort(sort)?,
            Step::CompareAndWrite { sort, guard, value, .. } => {
                self.check_guard(guard)?;
                self.check_sort(sort)?.and(self.check_value(value)?)
            }
            Step::Replace { table, sort, expect, then, .. } => {
                if table.info().plain_rows != PlainRows::Replaced {
                    return Err(StoreError::Invalid(format!("rows of table {table} are written once")));
                }
                let expires_at = then.as_ref().and_then(|row| row.expires_at);
                check_expiries(*table, expires_at)?;
                let values = expect.iter().chain(then).map(|row| self.check_value(&row.value));
                self.check_sort(sort)?.and(values.sum::<StoreResult<usize>>()?)
            }
            Step::Remove { rows: Removal::Rows(sorts), .. } => {
                let sizes = sorts.iter().map(|sort| self.check_sort(sort)).collect::<StoreResult<Vec<_>>>()?;
                sizes.into_iter().fold(Size::default(), Size::beside)
            }
            Step::Remove { rows: Removal::Range(from, to), .. } => {
                self.check_key(from)?;
                to.as_ref().map_or(Ok(()), |to| self.check_key(to))?;
                Size::default()
            }
        };
        at_most("rows of a step", size.rows, self.limits.step_rows)?;
        at_most("bytes of a step", size.bytes, self.limits.step_bytes)
    }

    fn check_rows(&self, rows: &[NewRow]) -> StoreResult<Size> {
        // The count first: that is cheaper than checking each row.
        at_most("rows of a step", rows.len(), self.limits.step_rows)?;
        let mut size = Size::default();
        for row in rows {
            size = size.beside(self.check_sort(&row.sort)?.and(self.check_value(&row.value)?));
        }
        Ok(size)
    }

    fn check_sort(&self, sort: &Bytes) -> StoreResult<Size> {
        self.check_key(sort)?;
        Ok(Size { rows: 1, bytes: sort.len() })
    }

    fn check_key(&self, key: &Bytes) -> StoreResult<()> {
        at_most("bytes of a key", key.len(), self.limits.key_bytes)
    }

    fn check_value(&self, value: &Bytes) -> StoreResult<usize> {
        at_most("bytes of a value", value.len(), self.limits.value_bytes)?;
        Ok(value.len())
    }

    fn check_guard(&self, guard: &Guard) -> StoreResult<()> {
        at_most("bytes of a tag", guard.tag.len(), self.limits.tag_bytes)
    }
}

/// The size of a step.
#[derive(Clone, Copy, Default)]
struct Size {
    rows: usize,
    bytes: usize,
}

impl Size {
    /// Adds bytes to the same row.
    fn and(self, bytes: usize) -> Self {
        Self { bytes: self.bytes + bytes, ..self }
    }

    /// Adds other rows.
    fn beside(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, bytes: self.bytes + other.bytes }
    }
}

fn check_expiries(table: Table, expiries: impl IntoIterator<Item = UnixMillis>) -> StoreResult<()> {
    if table.info().may_expire || expiries.into_iter().next().is_none() {
        return Ok(());
    }
    Err(StoreError::Invalid(format!("rows of table {table} do not expire")))
}

fn at_most(what: &'static str, actual: usize, max: usize) -> StoreResult<()> {
    if actual <= max {
        return Ok(());
    }
    Err(StoreError::Limit { what, actual: actual as u64, max: max as u64 })
}

impl Wrapper for Limited {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        self.check_list(&steps)?;
        self.inner.run(call, steps).await
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        self.check_key(&owner)?;
        self.inner.put_content_as(call, id, owner, content).await
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}
