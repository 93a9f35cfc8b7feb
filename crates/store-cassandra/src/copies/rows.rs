//! The rows of a range of the ring, as one node has them.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use futures::future;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use store::{ContentId, StoreResult, Table, ValueKind, envelope};

use super::verdict::{FoundRow, RowKey};
use crate::at_node::{PageError, PagedRead, Range};
use crate::chunks::seal_of;
use crate::failure::readable;
use crate::schema::CHUNKS;
use crate::value;

/// The rows of a CQL table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rows {
    /// Those of a table.
    Of(Table),
    /// The bytes of large contents.
    Chunks,
}

impl Rows {
    /// The CQL tables of a table.
    pub(super) fn of(table: Table) -> Vec<Self> {
        match table {
            Table::Contents => vec![Self::Of(table), Self::Chunks],
            table => vec![Self::Of(table)],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Of(table) => table.name(),
            Self::Chunks => CHUNKS,
        }
    }

    /// The query of the rows of a range of the ring, each with its token first.
    pub(super) fn query(self, keyspace: &str) -> String {
        let (name, partition, rest) = match self {
            Self::Of(_) => (self.name(), "partition", "sort, value, stamp, tag, WRITETIME(value)"),
            Self::Chunks => (self.name(), "content, part", "number, chunk, WRITETIME(chunk)"),
        };
        format!(
            "SELECT token({partition}), {partition}, {rest} FROM {keyspace}.{name} \
             WHERE token({partition}) > ? AND token({partition}) <= ?"
        )
    }

    /// The rows of a page, and the bytes that they have.
    fn read(self, page: &QueryRowsResult) -> StoreResult<(VecDeque<(RowKey, FoundRow)>, u64)> {
        let mut found = VecDeque::with_capacity(page.rows_num());
        let mut bytes = 0;
        match self {
            Self::Of(table) => {
                for row in readable(page.rows::<StoredRow>())? {
                    let (token, partition, sort, value, stamp, tag, written_us) = readable(row)?;
                    bytes += (sort.len() + value.as_ref().map_or(0, Bytes::len)) as u64;
                    let is_whole = value.as_ref().is_none_or(value::is_whole);
                    // What is no key of Penates stays as it is.
                    let partition = value::partition_of(table, &partition).unwrap_or(partition);
                    // A copy, because the key keeps the page in which it came.
                    let sort = Bytes::copy_from_slice(&sort);
                    let key = RowKey { token, partition, number: 0, sort };
                    found.push_back((key, FoundRow { sum: sum_of(&(value, stamp, tag)), written_us, is_whole }));
                }
            }
            Self::Chunks => {
                for row in readable(page.rows::<StoredChunk>())? {
                    let (token, content, part, number, chunk, written_us) = readable(row)?;
                    bytes += chunk.as_ref().map_or(0, Bytes::len) as u64;
                    let is_whole = is_whole_chunk(&content, number, chunk.as_ref());
                    let partition = Bytes::copy_from_slice(&content);
                    let key = RowKey { token, partition, number, sort: Bytes::new() };
                    found.push_back((key, FoundRow { sum: sum_of(&(part, chunk)), written_us, is_whole }));
                }
            }
        }
        Ok((found, bytes))
    }
}

/// Token, partition, sort, value, stamp, tag and the write time of the value.
type StoredRow = (i64, Bytes, Bytes, Option<Bytes>, Option<Bytes>, Option<Bytes>, Option<i64>);

/// Token, content, part, number, chunk and its write time.
type StoredChunk = (i64, Bytes, i32, i32, Option<Bytes>, Option<i64>);

/// Whether a chunk is what was written at its place.
fn is_whole_chunk(content: &[u8], number: i32, chunk: Option<&Bytes>) -> bool {
    let (Ok(id), Some(chunk)) = (content.try_into(), chunk) else { return false };
    envelope::open_at(ValueKind::ContentChunk, &seal_of(ContentId(id), number), chunk).is_ok()
}

fn sum_of(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The rows of a range at one node, in their order.
pub(super) struct Copy<'a> {
    /// The place of its node among those of the range.
    pub(super) place: usize,
    read: &'a PagedRead<'a>,
    rows: Rows,
    range: Range,
    /// Rows of the last page that were not taken yet.
    found: VecDeque<(RowKey, FoundRow)>,
    /// `None`: the last page was read, or a page could not be.
    next: Option<PagingState>,
    /// Why no further row can be read.
    pub(super) failed: Option<PageError>,
    /// The last row that was taken.
    pub(super) last: Option<RowKey>,
}

impl<'a> Copy<'a> {
    pub(super) fn new(place: usize, read: &'a PagedRead<'a>, rows: Rows, range: Range) -> Self {
        let next = Some(PagingState::start());
        Self { place, read, rows, range, found: VecDeque::new(), next, failed: None, last: None }
    }

    /// Reads on until a row is there, or the end is reached. Returns the bytes that it has read.
    async fn fill(&mut self) -> u64 {
        let mut bytes = 0;
        while self.found.is_empty()
            && let Some(from) = self.next.take()
        {
            let page = self.read.page((self.range.after, self.range.to), &from).await;
            let read = page.and_then(|(page, next)| {
                let (found, bytes) = self.rows.read(&page).map_err(|error| PageError::Unanswered(error.to_string()))?;
                Ok((found, bytes, next))
            });
            match read {
                Ok((found, of_page, next)) => {
                    self.found = found;
                    self.next = next;
                    bytes += of_page;
                }
                Err(why) => self.failed = Some(why),
            }
        }
        bytes
    }

    /// Takes the next row if it has this key.
    fn take(&mut self, key: &RowKey) -> Option<FoundRow> {
        let (_, row) = self.found.pop_front_if(|(next, _)| next == key)?;
        self.last = Some(key.clone());
        Some(row)
    }
}

/// The next row: its key, the row of each copy, and the bytes that were read for it.
pub(super) async fn next_row(copies: &mut [Copy<'_>]) -> (Option<(RowKey, Vec<Option<FoundRow>>)>, u64) {
    let bytes = future::join_all(copies.iter_mut().map(Copy::fill)).await.into_iter().sum();
    let key = copies.iter().filter_map(|copy| copy.found.front()).map(|(key, _)| key).min().cloned();
    let row = key.map(|key| {
        let rows = copies.iter_mut().map(|copy| copy.take(&key)).collect();
        (key, rows)
    });
    (row, bytes)
}
