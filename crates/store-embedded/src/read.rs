//! Reads of rows, pages of ranges, and the walk over partitions. They all block and run on threads
//! for blocking work.

use bytes::Bytes;
use store::{Deadline, Direction, Row, Rows, Scan, StoreError, StoreResult, Table, UnixMillis, WalkPage};

use crate::key;
use crate::space::Space;
use crate::tables::{View, live};

/// A read checks its deadline after this number of rows without a result.
const ROWS_PER_DEADLINE_CHECK: usize = 256;

/// One row.
pub(crate) fn get(
    view: &View<'_>,
    table: Table,
    partition: &[u8],
    sort: &Bytes,
    now: UnixMillis,
) -> StoreResult<Option<Row>> {
    // A key that is too long for the engine was never written.
    let Ok(key) = key::encode(partition, sort) else { return Ok(None) };
    let value = view.value(table, &key, now)?;
    Ok(value.map(|value| value.into_row(sort.clone())))
}

/// A page of a range.
pub(crate) fn scan(
    view: &View<'_>,
    table: Table,
    partition: &[u8],
    scan: &Scan,
    now: UnixMillis,
    deadline: Deadline,
) -> StoreResult<Rows> {
    let Some(range) = key::range(partition, &scan.from, scan.to.as_deref()) else { return Ok(Rows::default()) };
    let rows = view.range(Space::Rows(table), range)?;
    match scan.direction {
        Direction::Forward => page(table, partition, rows, scan, now, deadline),
        Direction::Backward => page(table, partition, rows.rev(), scan, now, deadline),
    }
}

fn page(
    table: Table,
    partition: &[u8],
    rows: impl Iterator<Item = StoreResult<(Bytes, Bytes)>>,
    scan: &Scan,
    now: UnixMillis,
    deadline: Deadline,
) -> StoreResult<Rows> {
    let sort_at = key::partition_prefix(partition).len();
    let mut page = Rows::default();
    let mut bytes = 0;
    for (read, row) in rows.enumerate() {
        if read % ROWS_PER_DEADLINE_CHECK == 0 && deadline.passed() {
            return Err(StoreError::DeadlinePassed);
        }
        let (key, raw) = row?;
        let Some(value) = live(table, &raw, now)? else { continue };
        let sort = key.slice(sort_at..);
        if !page.rows.is_empty() && bytes >= scan.max_bytes {
            page.next = match scan.direction {
                Direction::Forward => Some(sort),
                Direction::Backward => page.rows.last().map(|last| last.sort.clone()),
            };
            break;
        }
        bytes += sort.len() + value.value.len();
        page.rows.push(value.into_row(sort));
    }
    Ok(page)
}

/// Some partitions, in the order of their bytes.
pub(crate) fn walk(
    view: &View<'_>,
    table: Table,
    from: Option<Bytes>,
    max: usize,
    now: UnixMillis,
    deadline: Deadline,
) -> StoreResult<WalkPage> {
    let mut page = WalkPage::default();
    let mut after = from;
    while let Some(partition) = next_partition(view, table, after.as_deref(), now, deadline)? {
        if page.partitions.len() >= max.max(1) {
            page.next = after;
            break;
        }
        page.partitions.push(partition.clone());
        after = Some(partition);
    }
    Ok(page)
}

/// The first partition after another one that holds a live row.
fn next_partition(
    view: &View<'_>,
    table: Table,
    after: Option<&[u8]>,
    now: UnixMillis,
    deadline: Deadline,
) -> StoreResult<Option<Bytes>> {
    for (read, row) in view.range(Space::Rows(table), key::behind(after))?.enumerate() {
        if read % ROWS_PER_DEADLINE_CHECK == 0 && deadline.passed() {
            return Err(StoreError::DeadlinePassed);
        }
        let (key, raw) = row?;
        if live(table, &raw, now)?.is_none() {
            continue;
        }
        let (partition, _) = key::decode(&key)
            .ok_or_else(|| StoreError::Corrupt { table, detail: "a key of no known form".to_owned() })?;
        return Ok(Some(partition));
    }
    Ok(None)
}
