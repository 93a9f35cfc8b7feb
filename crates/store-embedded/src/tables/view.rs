//! A consistent view of a database, through which it is read.

use bytes::Bytes;
use fjall::{KvPair, Readable, Snapshot};
use store::{Deadline, StoreError, StoreResult, Table, UnixMillis};

use super::Tables;
use super::error::read_error;
use crate::expiry;
use crate::forecast::{self, Counted};
use crate::key::KeyRange;
use crate::row_cache::Lookup;
use crate::space::Space;
use crate::value::{self, Value};

/// Entries that are counted between two looks at the deadline.
const ENTRIES_PER_DEADLINE_CHECK: u64 = 1_000;

/// No more entries of one hour are counted, so that each sweep counts some hours to the end.
pub(super) const ENTRIES_COUNTED_MAX: u64 = 5_000_000;

/// A consistent view of the database.
pub(crate) struct View<'a> {
    pub(super) tables: &'a Tables,
    pub(super) snapshot: Snapshot,
    /// The list of files of each keyspace that was the newest before, for a reader that reads
    /// everything once.
    pub(super) lists: Option<Vec<(Space, u64)>>,
}

impl View<'_> {
    /// The bytes at a key.
    pub(crate) fn raw(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        let keyspace = self.tables.keyspace(space)?;
        let (once_rows, seqno) = (&self.tables.once_rows, self.snapshot.seqno());
        let once = self.list(space).and_then(|list| once_rows.get(keyspace, list, key, seqno));
        let value = match once {
            Some(value) => value.map_err(fjall::Error::from),
            None => self.snapshot.get(keyspace, key),
        };
        Ok(value.map_err(|error| read_error(space, error))?.map(Bytes::from))
    }

    /// The list of files that was the newest before the view was opened, for a reader that reads
    /// everything once.
    fn list(&self, space: Space) -> Option<u64> {
        self.lists.as_ref()?.iter().find(|(of, _)| *of == space).map(|(_, list)| *list)
    }

    /// The live value at a key.
    pub(crate) fn value(&self, table: Table, key: &[u8], now: UnixMillis) -> StoreResult<Option<Value>> {
        match self.raw(Space::Rows(table), key)? {
            Some(raw) => live(table, &raw, now),
            None => Ok(None),
        }
    }

    /// The live value at a key that was looked up in the cache before the view was opened. What was
    /// not there is put there.
    pub(crate) fn value_found(
        &self,
        table: Table,
        key: &[u8],
        found: &Lookup,
        now: UnixMillis,
    ) -> StoreResult<Option<Value>> {
        if let Lookup::Hit(raw, _) = found
            && self.tables.is_current(table, key, found)
        {
            return live(table, raw, now);
        }
        let space = Space::Rows(table);
        let Some(raw) = self.raw(space, key)? else { return Ok(None) };
        let value = live(table, &raw, now)?;
        if let (Lookup::Miss(Some(seen)), Some(cache), Some(_)) = (found, self.tables.row_cache(space), &value) {
            cache.keep(key, &raw, *seen);
        }
        Ok(value)
    }

    /// The bytes at a key, for the only one to commit: nothing was committed since the view was
    /// opened. So what is cached is what it shows.
    pub(crate) fn newest(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        match self.tables.row_cache(space).and_then(|cache| cache.peek(key)) {
            Some(raw) => Ok(Some(raw)),
            None => self.raw(space, key),
        }
    }

    /// Reads a row, so that a commit finds it in memory, unless it is cached as a whole.
    pub(crate) fn touch(&self, table: Table, key: &[u8]) -> StoreResult<()> {
        self.newest(Space::Rows(table), key).map(|_| ())
    }

    /// Keys and values of a range, from either end.
    pub(crate) fn range(
        &self,
        space: Space,
        range: KeyRange,
    ) -> StoreResult<impl DoubleEndedIterator<Item = StoreResult<(Bytes, Bytes)>>> {
        let keyspace = self.tables.keyspace(space)?;
        let (once_rows, seqno) = (&self.tables.once_rows, self.snapshot.seqno());
        let once = self.list(space).and_then(|list| once_rows.range(keyspace, list, &range, seqno));
        let rows: Box<dyn DoubleEndedIterator<Item = fjall::Result<KvPair>> + '_> = match once {
            Some(rows) => {
                Box::new(rows.map(|row| row.map(|row| (row.key.user_key, row.value)).map_err(fjall::Error::from)))
            }
            None => Box::new(self.snapshot.range(keyspace, range).map(|item| item.into_inner())),
        };
        Ok(rows.map(move |row| {
            let (key, value) = row.map_err(|error| read_error(space, error))?;
            Ok((key.into(), value.into()))
        }))
    }
}

/// Counts the entries of an hour, at most [`ENTRIES_COUNTED_MAX`], and those that it reaches by the
/// deadline. No entry is for a time before `first`.
pub(super) fn count_hour(view: &View<'_>, hour: u64, first: UnixMillis, deadline: Deadline) -> StoreResult<Counted> {
    let end = forecast::begin_of(hour + 1);
    let hour = expiry::between(forecast::begin_of(hour).max(first).min(end), end);
    let mut entries = 0;
    for entry in view.range(Space::Expiries, hour)? {
        entry?;
        let is_late = entries > 0 && entries % ENTRIES_PER_DEADLINE_CHECK == 0 && deadline.passed();
        if entries == ENTRIES_COUNTED_MAX || is_late {
            return Ok(Counted { entries, is_part: true });
        }
        entries += 1;
    }
    Ok(Counted { entries, is_part: false })
}

/// Decodes a value; `None`: it has expired.
pub(crate) fn live(table: Table, raw: &Bytes, now: UnixMillis) -> StoreResult<Option<Value>> {
    let value = value::decode(raw)
        .ok_or_else(|| StoreError::Corrupt { table, detail: "a value of no known kind".to_owned() })?;
    Ok((!value.is_expired(now)).then_some(value))
}
