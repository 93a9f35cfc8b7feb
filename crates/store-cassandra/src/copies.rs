//! Compares the copies of each row, and names the nodes whose copies are wrong.
//!
//! A range of the ring is read at each node that has a copy of it, at the same time, in the order in
//! which all nodes keep their rows. Rows that are not the same everywhere, or not whole, are read
//! again a moment later. What still differs then is compared with a strong read. So a write that is
//! under way is no finding.
//!
//! A strong read makes Cassandra repair copies that differ. Of two values with the same write time it
//! keeps the greater one, be it damaged or not. So a row with a damaged copy is not read strongly.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, future};
use scylla::cluster::Node;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::statement::Consistency;
use store::{ContentId, StoreError, StoreResult, Table, ValueKind, envelope};
use tokio::time::Instant;

use crate::at_node::{self, PagedRead, Range};
use crate::cassandra_store::CassandraStore;
use crate::chunks::seal_of;
use crate::connect::{self, Connected};
use crate::failure::readable;
use crate::levels::InForce;
use crate::options::CassandraOptions;
use crate::schema::CHUNKS;
use crate::value;

/// Rows of a page of one copy. The largest rows have 128 KiB.
const PAGE_ROWS: i32 = 50;

/// When rows that differ are read again: by then a write that was under way has arrived.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// So many rows of a range are read again at most, so that a node that lacks everything does not
/// make this process keep all keys.
const AGAIN_MAX: usize = 10_000;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Comparing {
    /// The tables. [`Table::Contents`] includes the bytes of large contents.
    pub tables: Vec<Table>,
    /// Bytes that are read per second at most, of all copies together.
    pub bytes_per_second: u64,
}

/// How far comparing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Ranges of the ring, of all tables, that were compared.
    pub ranges: u64,
    /// All ranges.
    pub ranges_in_all: u64,
    /// Rows, each counted once.
    pub rows: u64,
    /// Bytes of all copies.
    pub bytes: u64,
}

/// A copy that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongCopy {
    /// The node that has it.
    pub node: SocketAddr,
    /// The CQL table.
    pub table: String,
    /// The partition key; for bytes of a large content, its id.
    pub partition: Bytes,
    /// The sort key; for bytes of a large content, the number of the chunk (four bytes, big-endian).
    pub sort: Bytes,
    /// What is wrong.
    pub fault: CopyFault,
}

/// What is wrong with a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyFault {
    /// Its bytes are not those that were written.
    Damaged,
    /// The node lacks the row.
    Missing,
    /// The node has another value than the other copies together.
    Outdated,
    /// The node has a row that was deleted.
    Deleted,
    /// The node could not read what follows this row (or the beginning of the range, if the keys are
    /// empty), up to the end of the range.
    Unreadable(String),
}

/// Gets what is found, and how far comparing is.
pub trait OnCompared: Sync {
    /// A range was compared. The answer says whether to go on.
    fn progress(&self, compared: Compared) -> ControlFlow<()>;
    /// A copy is wrong.
    fn found(&self, wrong: WrongCopy);
}

impl CassandraStore {
    /// Compares all copies of all rows, in all data centers.
    ///
    /// Errors: as of [`CassandraStore::open`]; [`StoreError::Invalid`] if a node may let another one
    /// answer for it (`dynamic_snitch`); [`StoreError::Unavailable`] if a node does not answer before
    /// the first row is compared, or a row that differs cannot be read strongly.
    pub fn compare_copies<'a>(
        options: &'a CassandraOptions,
        comparing: &'a Comparing,
        on: &'a dyn OnCompared,
    ) -> BoxFuture<'a, StoreResult<Compared>> {
        async move {
            let (connected, _) = connect::store(options).await?;
            let (copies, _) = connected.check_levels(&options.address, &options.levels)?;
            let levels = InForce { levels: options.levels, copies };
            each_node_answers_itself(&connected).await?;
            let keyspace = options.address.keyspace();
            let kinds: Vec<Rows> = comparing.tables.iter().flat_map(|table| Rows::of(*table)).collect();
            let mut tables = Vec::with_capacity(kinds.len());
            for rows in kinds {
                tables.push(
                    TableCopies::prepare(&connected, keyspace, rows, levels.strong(rows.table().class()).consistency())
                        .await?,
                );
            }
            let ranges_in_all = tables.iter().map(|table| table.ranges.len() as u64).sum();
            let mut compared = Compared { ranges_in_all, ..Compared::default() };
            let pace = Pace { begun: Instant::now(), bytes_per_second: comparing.bytes_per_second.max(1) };
            for table in &tables {
                for (range, nodes) in &table.ranges {
                    let (rows, bytes) = table.compare(*range, nodes, on).await?;
                    compared.ranges += 1;
                    compared.rows += rows;
                    compared.bytes += bytes;
                    if on.progress(compared).is_break() {
                        return Ok(compared);
                    }
                    pace.keep(compared.bytes).await;
                }
            }
            Ok(compared)
        }
        .boxed()
    }
}

/// Slows reading down.
struct Pace {
    begun: Instant,
    bytes_per_second: u64,
}

impl Pace {
    /// Waits until so many bytes may have been read.
    async fn keep(&self, bytes: u64) {
        let earliest = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        tokio::time::sleep_until(self.begun + earliest).await;
    }
}

/// Refuses nodes whose dynamic snitch may choose another copy than their own.
async fn each_node_answers_itself(connected: &Connected) -> StoreResult<()> {
    let setting = "SELECT value FROM system_views.settings WHERE name = 'dynamic_snitch'";
    for node in connected.session.get_cluster_state().get_nodes_info() {
        let address = at_node::address(node);
        let unavailable = |why: String| StoreError::Unavailable(format!("node {address} does not answer: {why}"));
        let read = PagedRead::at(connected, node, setting, 1).await?;
        let (page, _) = read.page((), &PagingState::start()).await.map_err(unavailable)?;
        let value = readable(page.maybe_first_row::<(Option<String>,)>())?;
        if value.and_then(|(value,)| value).is_none_or(|value| value != "false") {
            return Err(StoreError::Invalid(format!(
                "node {address} may let another node answer for it, so that its own copies cannot be compared: set \
                 `dynamic_snitch: false` in cassandra.yaml of each node, and start them again"
            )));
        }
    }
    Ok(())
}

/// The rows of a CQL table.
#[derive(Clone, Copy, Debug)]
enum Rows {
    /// Those of a table.
    Of(Table),
    /// The bytes of large contents.
    Chunks,
}

impl Rows {
    fn of(table: Table) -> Vec<Self> {
        match table {
            Table::Contents => vec![Self::Of(table), Self::Chunks],
            table => vec![Self::Of(table)],
        }
    }

    fn table(self) -> Table {
        match self {
            Self::Of(table) => table,
            Self::Chunks => Table::Packs,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Of(table) => table.name(),
            Self::Chunks => CHUNKS,
        }
    }

    /// The columns of the partition key.
    fn partition(self) -> &'static str {
        match self {
            Self::Of(_) => "partition",
            Self::Chunks => "content, part",
        }
    }

    /// The query of the rows of a range of the ring, each with its token first.
    fn query(self, keyspace: &str) -> String {
        let (name, partition) = (self.name(), self.partition());
        let rest = match self {
            Self::Of(_) => "sort, value, stamp, tag",
            Self::Chunks => "number, chunk",
        };
        format!(
            "SELECT token({partition}), {partition}, {rest} FROM {keyspace}.{name} \
             WHERE token({partition}) > ? AND token({partition}) <= ?"
        )
    }

    /// The rows of a page, with the bytes that they have.
    fn read(self, page: &QueryRowsResult) -> StoreResult<(VecDeque<FoundRow>, u64)> {
        let mut found = VecDeque::with_capacity(page.rows_num());
        let mut bytes = 0;
        match self {
            Self::Of(table) => {
                for row in readable(page.rows::<StoredRow>())? {
                    let (token, partition, sort, value, stamp, tag) = readable(row)?;
                    bytes += value.as_ref().map_or(0, Bytes::len) as u64;
                    let is_whole = value.as_ref().is_none_or(value::is_whole);
                    let sum = sum_of(&(&value, &stamp, &tag));
                    // What is no key of Penates stays as it is.
                    let partition = value::partition_of(table, &partition).unwrap_or(partition);
                    found.push_back(FoundRow { key: RowKey { token, partition, sort }, sum, is_whole });
                }
            }
            Self::Chunks => {
                for row in readable(page.rows::<(i64, Bytes, i32, i32, Option<Bytes>)>())? {
                    let (token, content, part, number, chunk) = readable(row)?;
                    bytes += chunk.as_ref().map_or(0, Bytes::len) as u64;
                    let is_whole = is_whole_chunk(&content, number, chunk.as_ref());
                    let sum = sum_of(&(part, &chunk));
                    let sort = Bytes::copy_from_slice(&number.to_be_bytes());
                    found.push_back(FoundRow { key: RowKey { token, partition: content, sort }, sum, is_whole });
                }
            }
        }
        Ok((found, bytes))
    }
}

/// Token, partition, sort, value, stamp and tag.
type StoredRow = (i64, Bytes, Bytes, Option<Bytes>, Option<Bytes>, Option<Bytes>);

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

/// The key of a row, in the order in which nodes keep rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowKey {
    token: i64,
    partition: Bytes,
    sort: Bytes,
}

/// A row as one node has it.
#[derive(Debug)]
struct FoundRow {
    key: RowKey,
    /// A sum of everything in it.
    sum: u64,
    is_whole: bool,
}

/// The rows of a range as one node has them, or as a strong read finds them.
struct Copy<'a> {
    read: &'a PagedRead<'a>,
    rows: Rows,
    range: Range,
    /// Those of the last page that were not taken yet.
    found: VecDeque<FoundRow>,
    /// `None`: the last page was read, or a page could not be.
    next: Option<PagingState>,
    unreadable: Option<String>,
    /// The last row that was taken.
    last: Option<RowKey>,
    bytes: u64,
}

impl<'a> Copy<'a> {
    fn new(read: &'a PagedRead<'a>, rows: Rows, range: Range) -> Self {
        let next = Some(PagingState::start());
        Self { read, rows, range, found: VecDeque::new(), next, unreadable: None, last: None, bytes: 0 }
    }

    /// Reads on until a row is there, or the end is reached.
    async fn fill(&mut self) {
        while self.found.is_empty()
            && let Some(from) = self.next.take()
        {
            let page = self.read.page((self.range.after, self.range.to), &from).await;
            let read = page.and_then(|(page, next)| {
                let (found, bytes) = self.rows.read(&page).map_err(|error| error.to_string())?;
                Ok((found, bytes, next))
            });
            match read {
                Ok((found, bytes, next)) => {
                    self.found = found;
                    self.bytes += bytes;
                    self.next = next;
                }
                Err(why) => self.unreadable = Some(why),
            }
        }
    }

    /// Takes the next row if it has this key.
    fn take(&mut self, key: &RowKey) -> Option<FoundRow> {
        let row = self.found.pop_front_if(|row| row.key == *key)?;
        self.last = Some(key.clone());
        Some(row)
    }
}

/// Takes the next row of all copies that can be read: its key, and the row of each copy.
async fn next_row(copies: &mut [Copy<'_>]) -> Option<(RowKey, Vec<Option<FoundRow>>)> {
    future::join_all(copies.iter_mut().map(Copy::fill)).await;
    let key = copies.iter().filter_map(|copy| copy.found.front()).map(|row| &row.key).min()?.clone();
    let rows = copies.iter_mut().map(|copy| copy.take(&key)).collect();
    Some((key, rows))
}

/// A table whose copies are compared.
struct TableCopies<'a> {
    rows: Rows,
    /// A read at each node.
    nodes: Vec<(Arc<Node>, PagedRead<'a>)>,
    strong: PagedRead<'a>,
    ranges: Vec<(Range, Vec<Arc<Node>>)>,
}

impl<'a> TableCopies<'a> {
    async fn prepare(connected: &'a Connected, keyspace: &str, rows: Rows, strong: Consistency) -> StoreResult<Self> {
        let query = rows.query(keyspace);
        let state = connected.session.get_cluster_state();
        let mut nodes = Vec::new();
        for node in state.get_nodes_info() {
            nodes.push((node.clone(), PagedRead::at(connected, node, &query, PAGE_ROWS).await?));
        }
        let strong = PagedRead::nearby(connected, &query, PAGE_ROWS, strong).await?;
        Ok(Self { rows, nodes, strong, ranges: at_node::ranges(connected, keyspace, rows.name()) })
    }

    /// The copies of a range, one for each of these nodes.
    fn copies(&self, range: Range, nodes: &[Arc<Node>]) -> Vec<Copy<'_>> {
        let of = |node: &Arc<Node>| self.nodes.iter().find(|(known, _)| known.host_id == node.host_id);
        nodes.iter().filter_map(of).map(|(_, read)| Copy::new(read, self.rows, range)).collect()
    }

    /// Compares the copies of a range. Returns how many rows it has, and the bytes of all copies.
    async fn compare(&self, range: Range, nodes: &[Arc<Node>], on: &dyn OnCompared) -> StoreResult<(u64, u64)> {
        let mut copies = self.copies(range, nodes);
        let (mut count, mut suspects) = (0, Vec::new());
        while let Some((key, rows)) = next_row(&mut copies).await {
            count += 1;
            if !is_same(&copies, &rows) && suspects.last() != Some(&key.token) && suspects.len() < AGAIN_MAX {
                suspects.push(key.token);
            }
        }
        self.report_unreadable(&copies, nodes, on);
        if !suspects.is_empty() {
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
        for token in suspects {
            self.look_again(Range { after: token - 1, to: token }, nodes, on).await?;
        }
        Ok((count, copies.iter().map(|copy| copy.bytes).sum()))
    }

    /// Compares the copies of the rows of one token again, and reports those that are wrong.
    async fn look_again(&self, range: Range, nodes: &[Arc<Node>], on: &dyn OnCompared) -> StoreResult<()> {
        let mut copies = self.copies(range, nodes);
        let mut differing = Vec::new();
        while let Some((key, rows)) = next_row(&mut copies).await {
            if !is_same(&copies, &rows) && differing.len() < AGAIN_MAX {
                differing.push((key, rows));
            }
        }
        self.report_unreadable(&copies, nodes, on);
        let mut is_damaged = false;
        for (key, rows) in &differing {
            for (row, node) in rows.iter().zip(nodes) {
                if row.as_ref().is_some_and(|row| !row.is_whole) {
                    is_damaged = true;
                    on.found(self.wrong(node, Some(key), CopyFault::Damaged));
                }
            }
        }
        // A strong read of a damaged row might spread the damage. What else differs here is found
        // once the damage is repaired.
        if is_damaged || differing.is_empty() {
            return Ok(());
        }
        let mut strong = [Copy::new(&self.strong, self.rows, range)];
        let mut truth = next_row(&mut strong).await;
        for (key, rows) in &differing {
            while truth.as_ref().is_some_and(|(next, _)| next < key) {
                truth = next_row(&mut strong).await;
            }
            if let [Copy { unreadable: Some(why), .. }] = &strong {
                return Err(StoreError::Unavailable(format!("copies of {} differ, and {why}", self.rows.name())));
            }
            let right = truth.as_ref().filter(|(next, _)| next == key).and_then(|(_, rows)| rows[0].as_ref());
            for ((row, copy), node) in rows.iter().zip(&copies).zip(nodes) {
                let fault = match (row, right) {
                    _ if copy.unreadable.is_some() => continue,
                    (Some(row), Some(right)) if row.sum == right.sum => continue,
                    (None, None) => continue,
                    (Some(_), Some(_)) => CopyFault::Outdated,
                    (Some(_), None) => CopyFault::Deleted,
                    (None, Some(_)) => CopyFault::Missing,
                };
                on.found(self.wrong(node, Some(key), fault));
            }
        }
        Ok(())
    }

    fn report_unreadable(&self, copies: &[Copy<'_>], nodes: &[Arc<Node>], on: &dyn OnCompared) {
        for (copy, node) in copies.iter().zip(nodes) {
            if let Some(why) = &copy.unreadable {
                on.found(self.wrong(node, copy.last.as_ref(), CopyFault::Unreadable(why.clone())));
            }
        }
    }

    fn wrong(&self, node: &Node, key: Option<&RowKey>, fault: CopyFault) -> WrongCopy {
        let (partition, sort) = key.map(|key| (key.partition.clone(), key.sort.clone())).unwrap_or_default();
        WrongCopy { node: at_node::address(node), table: self.rows.name().to_owned(), partition, sort, fault }
    }
}

/// Whether all copies that can be read have the same whole row.
fn is_same(copies: &[Copy<'_>], rows: &[Option<FoundRow>]) -> bool {
    let mut readable = rows.iter().zip(copies).filter(|(_, copy)| copy.unreadable.is_none()).map(|(row, _)| row);
    let Some(first) = readable.next() else { return true };
    let is_whole = first.as_ref().is_none_or(|row| row.is_whole);
    let sum = |row: &Option<FoundRow>| row.as_ref().map(|row| row.sum);
    is_whole && readable.all(|row| sum(row) == sum(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_in_which_nodes_keep_them() {
        let key = |token, partition: &'static [u8], sort: &'static [u8]| RowKey {
            token,
            partition: Bytes::from_static(partition),
            sort: Bytes::from_static(sort),
        };
        let ordered =
            [key(-5, b"z", b"z"), key(3, b"a", b""), key(3, b"a", b"\x01"), key(3, b"a", b"\xff"), key(3, b"a\0", b"")];
        assert!(ordered.is_sorted());
    }
}
