//! Reads of rows, pages of ranges, and the walk over partitions. They all block and run on threads
//! for blocking work.

use bytes::Bytes;
use store::{Deadline, Direction, Row, RowPage, Rows, Scan, StoreError, StoreResult, Table, UnixMillis, WalkPage};

use crate::key;
use crate::row_cache::Lookup;
use crate::space::Space;
use crate::tables::{Tables, View, live};

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

/// A row that is wanted, with what was cached of it before a view was opened.
pub(crate) struct Wanted {
    key: Bytes,
    sort: Bytes,
    found: Lookup,
}

impl Wanted {
    /// Looks a row up in the cache. `None`: there is no such row.
    pub(crate) fn look_up(tables: &Tables, table: Table, partition: &[u8], sort: &Bytes) -> Option<Self> {
        // A key that is too long for the engine was never written.
        let key = key::encode(partition, sort).ok()?;
        let found = tables.find(table, &key);
        Some(Self { key, sort: sort.clone(), found })
    }

    /// The row as it was cached; `None`: it was not.
    pub(crate) fn cached(&self, table: Table, now: UnixMillis) -> Option<StoreResult<Option<Row>>> {
        let Lookup::Hit(raw, _) = &self.found else { return None };
        let value = live(table, raw, now);
        Some(value.map(|value| value.map(|value| value.into_row(self.sort.clone()))))
    }

    /// The row as a view shows it that was opened since.
    pub(crate) fn get(&self, view: &View<'_>, table: Table, now: UnixMillis) -> StoreResult<Option<Row>> {
        let value = view.value_found(table, &self.key, &self.found, now)?;
        Ok(value.map(|value| value.into_row(self.sort.clone())))
    }
}

/// Several rows, if all of them were cached, as they were visible at one moment. `None`: one of
/// them was not, or does not exist, which the cache does not know.
pub(crate) fn all_cached(
    tables: &Tables,
    table: Table,
    wanted: &[Option<Wanted>],
    now: UnixMillis,
) -> Option<StoreResult<Vec<Option<Row>>>> {
    let cached = |wanted: &Option<Wanted>| match wanted {
        Some(wanted) => wanted.cached(table, now),
        None => Some(Ok(None)),
    };
    let rows: Vec<StoreResult<Option<Row>>> = wanted.iter().map(cached).collect::<Option<_>>()?;
    // All were looked up before.
    let is_current = |wanted: &Wanted| tables.is_current(table, &wanted.key, &wanted.found);
    wanted.iter().flatten().all(is_current).then(|| rows.into_iter().collect())
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
///
/// As long as each has one row, they are read in one pass: of a block that is looked up several
/// times, the engine's cache takes it that it is read often.
pub(crate) fn walk(
    view: &View<'_>,
    table: Table,
    from: Option<Bytes>,
    max: usize,
    now: UnixMillis,
    deadline: Deadline,
) -> StoreResult<WalkPage> {
    let mut page = WalkPage::default();
    walk_into(&mut page, view, table, from, max, now, deadline)?;
    Ok(page)
}

/// Fills an empty page as [`walk`] does. If it fails, the page has the partitions before the place
/// where it did.
pub(crate) fn walk_into(
    page: &mut WalkPage,
    view: &View<'_>,
    table: Table,
    from: Option<Bytes>,
    max: usize,
    now: UnixMillis,
    deadline: Deadline,
) -> StoreResult<()> {
    let mut after = from;
    let mut has_several_rows = false;
    'pass: loop {
        for (read, row) in view.range(Space::Rows(table), key::behind(after.as_deref()))?.enumerate() {
            check(read, deadline)?;
            let (key, raw) = row?;
            if live(table, &raw, now)?.is_none() {
                continue;
            }
            let (partition, _) = decoded(table, &key)?;
            if after.as_ref() == Some(&partition) {
                // Behind the partition, another pass begins.
                has_several_rows = true;
                continue 'pass;
            }
            if page.partitions.len() >= max.max(1) {
                page.next = after;
                return Ok(());
            }
            page.partitions.push(partition.clone());
            after = Some(partition);
            if has_several_rows {
                continue 'pass;
            }
        }
        return Ok(());
    }
}

/// Some partitions with their rows at the empty sort key, in the order of their bytes. A page takes
/// one pass, which looks each block up once. So the engine's cache keeps what is read more often.
pub(crate) fn walk_rows(
    view: &View<'_>,
    table: Table,
    from: Option<Bytes>,
    (max, max_bytes): (usize, usize),
    now: UnixMillis,
    deadline: Deadline,
) -> StoreResult<RowPage> {
    let mut page = RowPage::default();
    let mut bytes = 0;
    for (read, row) in view.range(Space::Rows(table), key::behind(from.as_deref()))?.enumerate() {
        check(read, deadline)?;
        let (key, raw) = row?;
        let Some(value) = live(table, &raw, now)? else { continue };
        let (partition, sort_at) = decoded(table, &key)?;
        if sort_at < key.len() {
            continue;
        }
        if page.rows.len() >= max.max(1) || bytes >= max_bytes.max(1) {
            page.next = page.rows.last().map(|(last, _)| last.clone());
            break;
        }
        bytes += partition.len() + value.value.len();
        page.rows.push((partition, value.into_row(Bytes::new())));
    }
    Ok(page)
}

fn check(read: usize, deadline: Deadline) -> StoreResult<()> {
    match read.is_multiple_of(ROWS_PER_DEADLINE_CHECK) && deadline.passed() {
        true => Err(StoreError::DeadlinePassed),
        false => Ok(()),
    }
}

fn decoded(table: Table, key: &[u8]) -> StoreResult<(Bytes, usize)> {
    key::decode(key).ok_or_else(|| StoreError::Corrupt { table, detail: "a key of no known form".to_owned() })
}
