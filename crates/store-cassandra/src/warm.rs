//! Reads tables at each node apart, so that a node that has just started finds them in its caches.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use budget::Pace;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future, stream};
use scylla::cluster::Node;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use store::{StoreError, StoreResult, Table};

use crate::at_node::{self, NotItself, PagedRead, Range};
use crate::cassandra_store::CassandraStore;
use crate::connect::{self, Connected};
use crate::failure::readable;
use crate::options::CassandraOptions;

/// Ranges of one node that are read at the same time. A node that also serves keeps most of its
/// threads for that.
const AT_ONCE: usize = 4;

/// Rows of a page. A cold node reads them from its disk within its time limit.
const PAGE_ROWS: i32 = 200;

/// What to read, and where.
#[derive(Clone, Debug)]
pub struct Warming {
    /// The tables.
    pub tables: Vec<Table>,
    /// The nodes, by address; all nodes of the data center if empty.
    pub nodes: Vec<IpAddr>,
    /// The longest time that reading may take.
    pub longest: Duration,
    /// The most bytes of keys and values per second that each node reads; 0: no limit.
    pub bytes_per_second: u64,
}

/// What was read at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmedNode {
    /// Its address.
    pub node: SocketAddr,
    /// The rows.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
    /// Why not everything was read; `None` if everything was.
    pub gap: Option<Gap>,
}

/// Why not everything was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The time was over.
    TimeOver,
    /// The node could not read some ranges, or did not answer: the last reason.
    Failed(String),
}

impl CassandraStore {
    /// Reads tables of a store at nodes of the options' data center, all nodes at the same time.
    /// `on_rows` gets the number of rows of each page that was read. The answer has each node, in the
    /// order of their addresses.
    ///
    /// Errors: as of [`CassandraStore::open`]; [`StoreError::Invalid`] if a node is not in that
    /// data center, or lets others answer for it. A node that cannot be read is no error: see [`WarmedNode::gap`].
    pub fn warm<'a>(
        options: &'a CassandraOptions,
        warming: &'a Warming,
        on_rows: &'a (dyn Fn(u64) + Sync),
    ) -> BoxFuture<'a, StoreResult<Vec<WarmedNode>>> {
        async move {
            let (connected, _) = connect::store(options).await?;
            let tables = at_node::tables(&warming.tables);
            let nodes = nodes(&connected, &warming.nodes)?;
            let reader = |node| {
                let (rows, bytes) = (AtomicU64::default(), AtomicU64::default());
                let pace = Pace::new(warming.bytes_per_second);
                NodeReader { connected: &connected, node, pace, on_rows, rows, bytes }
            };
            let readers: Vec<_> = nodes.into_iter().map(reader).collect();
            let keyspace = options.address.keyspace();
            let read = |at| read_for(at, &tables, keyspace, warming.longest);
            future::try_join_all(readers.iter().map(read)).await
        }
        .boxed()
    }
}

/// The nodes with these addresses, or all of the data center.
fn nodes(connected: &Connected, wanted: &[IpAddr]) -> StoreResult<Vec<Arc<Node>>> {
    let state = connected.session.get_cluster_state();
    let is_near = |node: &&Arc<Node>| node.datacenter.as_deref() == Some(&connected.datacenter);
    let mut near: Vec<Arc<Node>> = state.get_nodes_info().iter().filter(is_near).cloned().collect();
    near.sort_by_key(|node| at_node::address(node));
    if let Some(unknown) = wanted.iter().find(|ip| near.iter().all(|node| node.address.ip() != **ip)) {
        let known: Vec<String> = near.iter().map(|node| node.address.ip().to_string()).collect();
        return Err(StoreError::Invalid(format!(
            "{unknown} is no node of the data center `{}`, which has: {}",
            connected.datacenter,
            known.join(", ")
        )));
    }
    near.retain(|node| wanted.is_empty() || wanted.contains(&node.address.ip()));
    Ok(near)
}

/// Reads tables at one node, for some time at most.
async fn read_for(at: &NodeReader<'_>, tables: &[Table], keyspace: &str, longest: Duration) -> StoreResult<WarmedNode> {
    let begun = Instant::now();
    let gap = match tokio::time::timeout(longest, at.read_all(tables, keyspace)).await {
        Ok(gap) => gap?,
        Err(_) => Some(Gap::TimeOver),
    };
    let (rows, bytes) = (at.rows.load(Ordering::Relaxed), at.bytes.load(Ordering::Relaxed));
    Ok(WarmedNode { node: at_node::address(&at.node), rows, bytes, took: begun.elapsed(), gap })
}

/// Reads tables at one node.
struct NodeReader<'a> {
    connected: &'a Connected,
    node: Arc<Node>,
    pace: Pace,
    on_rows: &'a (dyn Fn(u64) + Sync),
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl NodeReader<'_> {
    /// Reads all ranges of which the node has a copy. A range that fails does not hinder others.
    async fn read_all(&self, tables: &[Table], keyspace: &str) -> StoreResult<Option<Gap>> {
        match at_node::check_that_it_answers_itself(self.connected, &self.node, true).await {
            Ok(()) => {}
            Err(NotItself::OthersAnswer(error)) => return Err(error),
            Err(NotItself::Unanswered(why)) => return Ok(Some(Gap::Failed(why))),
        }
        let mut reads = Vec::with_capacity(tables.len());
        for table in tables {
            let name = table.name();
            let query = format!(
                "SELECT partition, sort, value FROM {keyspace}.{name} WHERE token(partition) > ? AND token(partition) <= ?"
            );
            match PagedRead::prepare(self.connected, &self.node, &query, PAGE_ROWS).await {
                Ok(read) => reads.push(read),
                Err(error) => return Ok(Some(Gap::Failed(error.to_string()))),
            }
        }
        let ranges = at_node::ranges(&self.connected.session.get_cluster_state(), keyspace).into_iter();
        let here: Vec<Range> = ranges.filter(|(_, nodes)| nodes.contains(&self.node)).map(|(range, _)| range).collect();
        let mut jobs = Vec::with_capacity(reads.len() * here.len());
        for table in 0..reads.len() {
            jobs.extend(here.iter().map(|range| (table, *range)));
        }
        let read = stream::iter(jobs).map(|(table, range)| self.read_range(&reads[table], range));
        let mut read = read.buffer_unordered(AT_ONCE);
        let mut gap = None;
        while let Some(done) = read.next().await {
            if let Err(why) = done {
                gap = Some(Gap::Failed(why));
            }
        }
        Ok(gap)
    }

    /// Reads a range to its end.
    async fn read_range(&self, read: &PagedRead<'_>, range: Range) -> Result<(), String> {
        let mut from = PagingState::start();
        loop {
            let page = read.page((range.after, range.to), &from).await;
            let (page, next) = page.map_err(|error| error.to_string())?;
            let (rows, bytes) = sizes(&page).map_err(|error| error.to_string())?;
            self.rows.fetch_add(rows, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            (self.on_rows)(rows);
            self.pace.took(bytes).await;
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }
}

/// How many rows a page has, and their bytes.
fn sizes(page: &QueryRowsResult) -> StoreResult<(u64, u64)> {
    let (mut count, mut bytes) = (0, 0);
    for row in readable(page.rows::<(&[u8], &[u8], Option<&[u8]>)>())? {
        let (partition, sort, value) = readable(row)?;
        count += 1;
        bytes += (partition.len() + sort.len() + value.map_or(0, <[u8]>::len)) as u64;
    }
    Ok((count, bytes))
}
