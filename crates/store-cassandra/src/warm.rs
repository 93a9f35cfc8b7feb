//! Reads tables at each node apart, so that a node that has just started finds them in its caches.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future, stream};
use scylla::cluster::Node;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use store::{StoreError, StoreResult, Table};
use tokio::time::Instant;

use crate::at_node::{self, PagedRead, Range};
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
    /// Why reading ended before everything was read; `None` if everything was.
    pub ended_early: Option<EndedEarly>,
}

/// Why reading ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndedEarly {
    /// The time was over.
    TimeOver,
    /// The node could not read a page, or did not answer.
    Failed(String),
}

impl CassandraStore {
    /// Reads tables of a store at nodes of the options' data center, all nodes at the same time.
    /// `on_rows` gets the number of rows of each page that was read. The answer has each node, in the
    /// order of their addresses.
    ///
    /// Errors: as of [`CassandraStore::open`]; [`StoreError::Invalid`] if a node is not in that
    /// data center. A node that cannot be read is no error: see [`WarmedNode::ended_early`].
    pub fn warm<'a>(
        options: &'a CassandraOptions,
        warming: &'a Warming,
        on_rows: &'a (dyn Fn(u64) + Sync),
    ) -> BoxFuture<'a, StoreResult<Vec<WarmedNode>>> {
        async move {
            let (connected, _) = connect::store(options).await?;
            let nodes = nodes(&connected, &warming.nodes)?;
            let until = Instant::now() + warming.longest;
            let keyspace = options.address.keyspace();
            let mut reading = Vec::with_capacity(nodes.len());
            for node in nodes {
                let at = NodeReader::prepare(&connected, node, keyspace, warming, until, on_rows).await?;
                reading.push(async move { at.read_all().await });
            }
            Ok(future::join_all(reading).await)
        }
        .boxed()
    }
}

/// The nodes with these addresses, or all of the data center.
fn nodes(connected: &Connected, wanted: &[IpAddr]) -> StoreResult<Vec<Arc<Node>>> {
    let state = connected.session.get_cluster_state();
    let is_near = |node: &&Arc<Node>| node.datacenter.as_deref() == Some(&connected.datacenter);
    let mut near: Vec<Arc<Node>> = state.get_nodes_info().iter().filter(is_near).cloned().collect();
    near.sort_by_key(|node| (node.address.ip(), node.address.port()));
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

/// Reads tables at one node.
struct NodeReader<'a> {
    node: SocketAddr,
    /// A read of each table, with the ranges that the node has of it.
    tables: Vec<(PagedRead<'a>, Vec<Range>)>,
    until: Instant,
    on_rows: &'a (dyn Fn(u64) + Sync),
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl<'a> NodeReader<'a> {
    async fn prepare(
        connected: &'a Connected,
        node: Arc<Node>,
        keyspace: &str,
        warming: &Warming,
        until: Instant,
        on_rows: &'a (dyn Fn(u64) + Sync),
    ) -> StoreResult<Self> {
        let mut tables = Vec::with_capacity(warming.tables.len());
        for table in &warming.tables {
            let name = table.name();
            let query = format!(
                "SELECT partition, sort, value FROM {keyspace}.{name} WHERE token(partition) > ? AND token(partition) <= ?"
            );
            let read = PagedRead::at(connected, &node, &query, PAGE_ROWS).await?;
            let ranges = at_node::ranges(connected, keyspace, name).into_iter();
            let here = ranges.filter(|(_, nodes)| nodes.iter().any(|replica| replica.host_id == node.host_id));
            tables.push((read, here.map(|(range, _)| range).collect()));
        }
        let (rows, bytes) = (AtomicU64::default(), AtomicU64::default());
        Ok(Self { node: at_node::address(&node), tables, until, on_rows, rows, bytes })
    }

    async fn read_all(self) -> WarmedNode {
        let mut ranges = Vec::new();
        for (table, (_, of_table)) in self.tables.iter().enumerate() {
            ranges.extend(of_table.iter().map(|range| (table, *range)));
        }
        let mut jobs = stream::iter(ranges)
            .map(|(table, range)| self.read_range(&self.tables[table].0, range))
            .buffer_unordered(AT_ONCE);
        let mut ended_early = None;
        while let Some(done) = jobs.next().await {
            if let Err(why) = done {
                ended_early = Some(why);
                break;
            }
        }
        drop(jobs);
        WarmedNode { node: self.node, rows: self.rows.into_inner(), bytes: self.bytes.into_inner(), ended_early }
    }

    /// Reads a range to its end.
    async fn read_range(&self, read: &PagedRead<'_>, range: Range) -> Result<(), EndedEarly> {
        let mut from = PagingState::start();
        loop {
            if Instant::now() >= self.until {
                return Err(EndedEarly::TimeOver);
            }
            let page = tokio::time::timeout_at(self.until, read.page((range.after, range.to), &from)).await;
            let (page, next) = page.map_err(|_| EndedEarly::TimeOver)?.map_err(EndedEarly::Failed)?;
            let (rows, bytes) = sizes(&page).map_err(|error| EndedEarly::Failed(error.to_string()))?;
            self.rows.fetch_add(rows, Ordering::Relaxed);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            (self.on_rows)(rows);
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
