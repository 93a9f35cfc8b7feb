//! Reads of rows and pages of rows, and walks over partitions.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use scylla::statement::Consistency;
use store::{
    Call, Deadline, Direction, Row, Rows, Scan, StoreError, StoreResult, Strength, Table, UnixMillis, WalkPage,
};

use crate::engine::Engine;
use crate::failure::{Failure, readable};
use crate::parts::{Parts, RangeRead, token_ends};
use crate::routing::Asks;
use crate::value::{Cells, corrupt, partition_of, row_of, stored_partition};

/// Rows of [`store::Store::get_many`] that are requested at the same time.
const AT_ONCE: usize = 64;

/// Ranges of [`store::Store::scan_many`] that are read at the same time.
const SCANS_AT_ONCE: usize = 8;

/// The greatest number of rows of a page. At the largest values, that is 16 MiB, which no budget
/// counts: the next rows may be far larger than all before them.
const PAGE_ROWS_MAX: usize = 256;

/// A scan of few bytes asks first for as many rows as it has room for rows of so many bytes, and for
/// so many at least: the next rows may be far larger than the last ones were.
const SMALL_ROW_BYTES: usize = 4 << 10;
const FIRST_PAGE_ROWS_MIN: usize = 16;

/// Rows of a page of the partitions of one token. Usually there is one partition.
const TOKEN_PAGE_ROWS: i32 = 16;

/// A further page has at most this many times as many rows.
const PAGE_GROWTH: usize = 4;

type CellsOfKey = (Option<Bytes>, Option<Bytes>, Option<Bytes>);
type CellsOfRow = (Bytes, Option<Bytes>, Option<Bytes>, Option<Bytes>);
/// The token, the partition, and the seconds that the row still lives.
type CellsOfFirst = (i64, Bytes, Option<i32>);

impl Engine {
    /// The row at a key, at a given level.
    pub(crate) async fn row_at(
        &self,
        deadline: Deadline,
        level: Consistency,
        table: Table,
        partition: &[u8],
        sort: &Bytes,
    ) -> StoreResult<Option<Row>> {
        let statement = &self.statements.of(table).get;
        let rows = self.requests.rows(deadline, level, statement, (stored_partition(partition), sort)).await?;
        match readable(rows.maybe_first_row::<CellsOfKey>())? {
            Some((value, stamp, tag)) => row_of(table, sort.clone(), Cells { value, stamp, tag }, self.now_for(table)),
            None => Ok(None),
        }
    }

    pub(crate) async fn get(
        &self,
        call: Call,
        table: Table,
        partition: &[u8],
        sort: &Bytes,
    ) -> StoreResult<Option<Row>> {
        let level = match call.strength {
            // Outside the home data center nothing is decided that such a read could complete.
            Strength::Serial if self.home.refusal().is_none() => self.levels.serial().read(),
            _ => self.levels.read(table.class(), call.strength).consistency(),
        };
        self.row_at(call.deadline, level, table, partition, sort).await
    }

    pub(crate) async fn get_many(
        &self,
        call: Call,
        table: Table,
        keys: Vec<(Bytes, Bytes)>,
    ) -> StoreResult<Vec<Option<Row>>> {
        let get = |(partition, sort): (Bytes, Bytes)| async move { self.get(call, table, &partition, &sort).await };
        stream::iter(keys).map(get).buffered(AT_ONCE).try_collect().await
    }

    pub(crate) async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let page = |(table, partition, scan): (Table, Bytes, Scan)| async move {
            self.scan(call, table, &partition, scan).await
        };
        stream::iter(scans).map(page).buffered(SCANS_AT_ONCE).try_collect().await
    }

    pub(crate) async fn scan(&self, call: Call, table: Table, partition: &[u8], scan: Scan) -> StoreResult<Rows> {
        if call.deadline.passed() {
            return Err(StoreError::DeadlinePassed);
        }
        if scan.to.as_ref().is_some_and(|to| *to <= scan.from) {
            return Ok(Rows::default());
        }
        let mut page = PageInMaking::new(table, &scan, self.now_for(table));
        let mut rows_wanted = first_page_rows(&scan, self.row_sizes.of(table, &scan));
        let statements = self.statements.of(table);
        let mut reading = RangeRead {
            requests: &self.requests,
            deadline: call.deadline,
            level: self.levels.read(table.class(), call.strength).consistency(),
            statements: [true, false].map(|has_end| statements.scan(scan.direction, has_end)),
            partition: stored_partition(partition),
            parts: Parts::of(scan.from.clone(), scan.to.clone(), scan.direction),
        };
        loop {
            let page_rows = i32::try_from(rows_wanted).unwrap_or(i32::MAX);
            let Some(rows) = reading.page(page_rows).await.map_err(Failure::of_read)? else { return Ok(page.rows) };
            self.row_sizes.learn(table, &scan, rows.rows_num(), rows.rows_bytes_size());
            for cells in readable(rows.rows::<CellsOfRow>())? {
                let cells = readable(cells)?;
                reading.parts.seen(&cells.0);
                if page.add(cells)? {
                    return Ok(page.ended_early());
                }
            }
            if rows.rows_num() > 0 {
                let bytes_left = scan.max_bytes.saturating_sub(page.bytes);
                rows_wanted = next_page_rows(rows_wanted, bytes_left, self.row_sizes.of(table, &scan));
            }
        }
    }

    pub(crate) async fn walk(
        &self,
        call: Call,
        table: Table,
        from: Option<Bytes>,
        max: usize,
    ) -> StoreResult<WalkPage> {
        if call.deadline.passed() {
            return Err(StoreError::DeadlinePassed);
        }
        let mut from = from.map(RowPlace::decode).transpose()?;
        let mut ends = Vec::new();
        loop {
            let (firsts, next) = self.firsts(call, table, from.as_ref(), max.max(1), &mut ends).await?;
            // A partition that may hold only expired rows is read.
            let live = |first: First| async move {
                let holds = !first.may_expire || self.holds_rows(call, table, &first.place.partition).await?;
                Ok::<_, StoreError>(holds.then_some(first.place.partition))
            };
            let partitions = stream::iter(firsts).map(live).buffered(AT_ONCE).try_filter_map(async |live| Ok(live));
            let page =
                WalkPage { partitions: partitions.try_collect().await?, next: next.as_ref().map(RowPlace::encode) };
            if !page.partitions.is_empty() || page.next.is_none() {
                return Ok(page);
            }
            from = next;
        }
    }

    async fn holds_rows(&self, call: Call, table: Table, partition: &[u8]) -> StoreResult<bool> {
        let any = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 };
        Ok(!self.scan(call, table, partition, any).await?.rows.is_empty())
    }

    /// The next partitions after a place, and where to continue. It reads all tokens that follow at
    /// once. If they have more removed rows than a node reads for one request, it reads parts of
    /// them, one after the other. `ends` are the last tokens of parts that are still to be read, the
    /// next one last. Behind them all the rest is read at once again. If a single token has too
    /// many, its partitions are read in parts.
    async fn firsts(
        &self,
        call: Call,
        table: Table,
        from: Option<&RowPlace>,
        max: usize,
        ends: &mut Vec<i64>,
    ) -> StoreResult<(Vec<First>, Option<RowPlace>)> {
        let statement = &self.statements.of(table).walk;
        let level = self.levels.read(table.class(), call.strength).consistency();
        // The read begins with the partition of the place again, and others that share its token.
        let first_token = from.map_or(i64::MIN, |place| place.token);
        ends.retain(|end| *end >= first_token);
        // One more shows whether there is a further page.
        let mut limit = max + 2;
        let is_next = |first: &First| from.is_none_or(|from| first.place.is_after(from));
        loop {
            let last_token = ends.last().copied().unwrap_or(i64::MAX);
            let asked = i32::try_from(limit).unwrap_or(i32::MAX);
            let asks = if ends.is_empty() { Asks::TwoIfSlow } else { Asks::One };
            let range = (first_token, last_token, asked);
            let rows = match self.requests.try_rows(call.deadline, level, asks, statement, range).await {
                Ok(rows) => rows,
                Err(Failure::TooManyRemoved(_)) if first_token < last_token => {
                    ends.extend(token_ends(first_token, last_token));
                    continue;
                }
                Err(Failure::TooManyRemoved(_)) => {
                    let mut firsts = self.firsts_in_parts(call, table, first_token).await?;
                    firsts.retain(is_next);
                    return Ok((firsts, RowPlace::beyond(first_token)));
                }
                Err(failure) => return Err(failure.of_read()),
            };
            let all_seen = rows.rows_num() < limit;
            let mut firsts = Vec::with_capacity(max);
            for row in readable(rows.rows::<CellsOfFirst>())? {
                let first = First::of(table, readable(row)?)?;
                if is_next(&first) {
                    firsts.push(first);
                }
            }
            if firsts.len() > max {
                firsts.truncate(max);
                let next = firsts.last().map(|first| first.place.clone());
                return Ok((firsts, next));
            }
            if all_seen {
                return Ok((firsts, RowPlace::beyond(last_token)));
            }
            limit *= 2;
        }
    }

    /// The partitions of a token, of which one begins with more removed rows than a node reads for
    /// one request.
    async fn firsts_in_parts(&self, call: Call, table: Table, token: i64) -> StoreResult<Vec<First>> {
        // A read of all of it has failed just now.
        let mut parts = Parts::of(Bytes::new(), None, Direction::Forward);
        parts.divide();
        let mut reading = RangeRead {
            requests: &self.requests,
            deadline: call.deadline,
            level: self.levels.read(table.class(), call.strength).consistency(),
            statements: self.statements.of(table).walk_in_parts(self.requests.session(), call.deadline).await?,
            partition: token,
            parts,
        };
        // No row is noted as seen: several partitions may share the token, and each begins at
        // another key. A partition comes once for each part in which it has rows. Its first row
        // counts.
        let mut firsts = BTreeMap::new();
        while let Some(rows) = reading.page(TOKEN_PAGE_ROWS).await.map_err(Failure::of_read)? {
            for row in readable(rows.rows::<CellsOfFirst>())? {
                let first = First::of(table, readable(row)?)?;
                firsts.entry(first.place.partition.clone()).or_insert(first);
            }
        }
        Ok(firsts.into_values().collect())
    }
}

/// Rows to request for the first page if `enough` are expected to suffice: some more, since rows
/// differ in size, and a second page costs more than a few unused rows.
fn first_page_rows(scan: &Scan, row_bytes: usize) -> usize {
    let enough = scan.max_bytes / row_bytes.max(1);
    let most = (scan.max_bytes / SMALL_ROW_BYTES).clamp(FIRST_PAGE_ROWS_MIN, PAGE_ROWS_MAX);
    (enough + enough / 4 + 2).min(most)
}

/// Rows to request for the next page if there is room for so many more bytes: as many as are
/// expected to fit, and one more, which shows that the range goes on.
fn next_page_rows(rows_before: usize, bytes_left: usize, row_bytes: usize) -> usize {
    let enough = bytes_left / row_bytes.max(1);
    (enough.clamp(1, rows_before.max(1).saturating_mul(PAGE_GROWTH)) + 1).min(PAGE_ROWS_MAX)
}

/// The first row of a partition.
struct First {
    place: RowPlace,
    may_expire: bool,
}

impl First {
    fn of(table: Table, (token, partition, time_to_live): CellsOfFirst) -> StoreResult<Self> {
        let place = RowPlace { token, partition: partition_of(table, &partition)? };
        Ok(Self { place, may_expire: time_to_live.is_some() })
    }
}

/// A place in a walk: partitions are ordered by token, and by key if tokens are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RowPlace {
    token: i64,
    partition: Bytes,
}

impl RowPlace {
    /// The place behind all partitions of a token; `None`: there are no further tokens.
    fn beyond(token: i64) -> Option<Self> {
        // No partition has an empty key, so nothing is left out.
        token.checked_add(1).map(|token| Self { token, partition: Bytes::new() })
    }

    fn is_after(&self, other: &RowPlace) -> bool {
        (self.token, &self.partition) > (other.token, &other.partition)
    }

    fn encode(&self) -> Bytes {
        let mut encoded = BytesMut::with_capacity(8 + self.partition.len());
        encoded.put_i64(self.token);
        encoded.put_slice(&self.partition);
        encoded.freeze()
    }

    fn decode(mut encoded: Bytes) -> StoreResult<Self> {
        let token = encoded.try_get_i64().map_err(|_| StoreError::Invalid("not a place of a walk".to_owned()))?;
        Ok(Self { token, partition: encoded })
    }
}

/// A page to which rows are added until it is full and one more row is known.
struct PageInMaking<'a> {
    table: Table,
    scan: &'a Scan,
    now: UnixMillis,
    rows: Rows,
    bytes: usize,
    /// The row after a full page.
    after: Option<Bytes>,
}

impl<'a> PageInMaking<'a> {
    fn new(table: Table, scan: &'a Scan, now: UnixMillis) -> Self {
        Self { table, scan, now, rows: Rows::default(), bytes: 0, after: None }
    }

    /// Adds a row. Returns whether the page is full and a row follows it.
    fn add(&mut self, (sort, value, stamp, tag): CellsOfRow) -> StoreResult<bool> {
        let Some(row) = row_of(self.table, sort, Cells { value, stamp, tag }, self.now)? else { return Ok(false) };
        if !self.rows.rows.is_empty() && self.bytes >= self.scan.max_bytes {
            self.after = Some(row.sort);
            return Ok(true);
        }
        self.bytes += row.sort.len() + row.value.len();
        self.rows.rows.push(row);
        Ok(false)
    }

    fn ended_early(mut self) -> Rows {
        self.rows.next = match self.scan.direction {
            Direction::Forward => self.after,
            // The end of a range is exclusive.
            Direction::Backward => self.rows.rows.last().map(|row| row.sort.clone()),
        };
        self.rows
    }
}

/// A row, as a removal sees it.
pub(crate) struct SeenRow {
    pub(crate) sort: Bytes,
    pub(crate) is_guarded: bool,
    /// Its write time in microseconds since the Unix epoch.
    pub(crate) written_at: i64,
}

pub(crate) type SeenCells = (Bytes, Option<Bytes>, Option<i64>);

impl SeenRow {
    pub(crate) fn of(table: Table, (sort, stamp, written_at): SeenCells) -> StoreResult<Self> {
        let written_at = written_at.ok_or_else(|| corrupt(table, "a row has no value"))?;
        Ok(Self { sort: Bytes::copy_from_slice(&sort), is_guarded: stamp.is_some(), written_at })
    }
}

#[cfg(test)]
mod tests {
    use store::Limits;

    use super::*;

    #[test]
    fn no_page_of_a_scan_can_be_much_larger_than_16_mib() {
        let scan = Scan::prefix(Bytes::new(), 4 << 20);
        // All rows so far are small, and the next ones may have any size.
        let mut rows = first_page_rows(&scan, 100);
        for _ in 0..10 {
            assert!(rows * Limits::default().value_bytes <= 16 << 20, "{rows} rows");
            rows = next_page_rows(rows, scan.max_bytes, 100);
        }
        assert_eq!(rows, PAGE_ROWS_MAX);
    }

    #[test]
    fn a_further_page_has_the_rows_for_which_there_is_room() {
        assert_eq!(next_page_rows(16, 4_000, 100), 41);
        assert_eq!(next_page_rows(2, 1 << 20, 100), 9, "no more than four times as many as before");
        assert_eq!(next_page_rows(16, 10, 100), 2, "the row that fills the page, and the one after it");
    }
}
