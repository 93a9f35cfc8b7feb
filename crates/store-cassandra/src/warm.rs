//! Reads tables at each node apart, so that a node that has just started finds them in its caches.
//!
//! A node is asked for the ranges of the ring of which it has a copy, at level `ONE`. It reads them
//! itself, unless its dynamic snitch finds another node much faster.

use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future, stream};
use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::PagingState;
use scylla::response::query_result::QueryResult;
use scylla::routing::Token;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use store::{StoreError, StoreResult, Table};
use tokio::time::Instant;

use crate::cassandra_store::CassandraStore;
use crate::connect::{self, Connected};
use crate::failure::{Failure, readable};
use crate::options::CassandraOptions;

/// Ranges of one node that are read at the same time. A node that also serves keeps most of its
/// threads for that.
const AT_ONCE: usize = 4;

/// Rows of a page. A cold node reads them from its disk within its time limit.
const PAGE_ROWS: i32 = 200;

/// How often a page is tried. A cold node may need longer than its own time limit at first.
const TRIES_MAX: u32 = 5;

/// The pause before a further try.
const PAUSE: Duration = Duration::from_millis(500);

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

/// A part of the ring: tokens after the first, up to and with the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    after: i64,
    to: i64,
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
                let at = NodeReader::prepare(&connected, node, keyspace, &warming.tables, until, on_rows).await?;
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
    connected: &'a Connected,
    node: Arc<Node>,
    /// A statement for each table, with the ranges that the node has of it.
    reads: Vec<(PreparedStatement, Vec<Range>)>,
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
        tables: &[Table],
        until: Instant,
        on_rows: &'a (dyn Fn(u64) + Sync),
    ) -> StoreResult<Self> {
        let profile = only_at(&node);
        let mut reads = Vec::with_capacity(tables.len());
        for table in tables {
            let name = table.name();
            let text = format!(
                "SELECT partition, sort, value FROM {keyspace}.{name} WHERE token(partition) > ? AND token(partition) <= ?"
            );
            let prepared = connected.session.prepare(text).await;
            let mut prepared = prepared.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            prepared.set_consistency(Consistency::One);
            prepared.set_is_idempotent(true);
            prepared.set_page_size(PAGE_ROWS);
            prepared.set_execution_profile_handle(Some(profile.clone()));
            reads.push((prepared, ranges_at(connected, &node, keyspace, name)));
        }
        let (rows, bytes) = (AtomicU64::default(), AtomicU64::default());
        Ok(Self { connected, node, reads, until, on_rows, rows, bytes })
    }

    async fn read_all(self) -> WarmedNode {
        let mut ranges = Vec::new();
        for (number, (_, of_table)) in self.reads.iter().enumerate() {
            ranges.extend(of_table.iter().map(|range| (number, *range)));
        }
        let mut jobs = stream::iter(ranges)
            .map(|(table, range)| self.read_range(&self.reads[table].0, range))
            .buffer_unordered(AT_ONCE);
        let mut ended_early = None;
        while let Some(done) = jobs.next().await {
            if let Err(why) = done {
                ended_early = Some(why);
                break;
            }
        }
        drop(jobs);
        let node = SocketAddr::new(self.node.address.ip(), self.node.address.port());
        WarmedNode { node, rows: self.rows.into_inner(), bytes: self.bytes.into_inner(), ended_early }
    }

    /// Reads a range to its end. The error says why it did not come there.
    async fn read_range(&self, read: &PreparedStatement, range: Range) -> Result<(), EndedEarly> {
        let mut paging = PagingState::start();
        loop {
            let (rows, bytes, next) = self.read_page(read, range, &paging).await?;
            self.rows.fetch_add(rows, Ordering::Relaxed);
            (self.on_rows)(rows);
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            match next {
                Some(state) => paging = state,
                None => return Ok(()),
            }
        }
    }

    /// Reads a page: its rows, their bytes, and where the next page begins.
    async fn read_page(
        &self,
        read: &PreparedStatement,
        range: Range,
        paging: &PagingState,
    ) -> Result<(u64, u64, Option<PagingState>), EndedEarly> {
        let mut tries = 0;
        loop {
            if Instant::now() >= self.until {
                return Err(EndedEarly::TimeOver);
            }
            let asked = self.connected.session.execute_single_page(read, (range.after, range.to), paging.clone());
            let why = match tokio::time::timeout_at(self.until, asked).await {
                Err(_) => return Err(EndedEarly::TimeOver),
                Ok(Ok((result, next))) => {
                    let (rows, bytes) = sizes(result).map_err(|error| EndedEarly::Failed(error.to_string()))?;
                    let next = match next.into_paging_control_flow() {
                        ControlFlow::Continue(state) => Some(state),
                        ControlFlow::Break(()) => None,
                    };
                    return Ok((rows, bytes, next));
                }
                Ok(Err(error)) => Failure::from(error).reason(),
            };
            tries += 1;
            if tries == TRIES_MAX {
                return Err(EndedEarly::Failed(why));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// How many rows a page has, and their bytes.
fn sizes(page: QueryResult) -> StoreResult<(u64, u64)> {
    let rows = readable(page.into_rows_result())?;
    let (mut count, mut bytes) = (0, 0);
    for row in readable(rows.rows::<(&[u8], &[u8], Option<&[u8]>)>())? {
        let (partition, sort, value) = readable(row)?;
        count += 1;
        bytes += (partition.len() + sort.len() + value.map_or(0, <[u8]>::len)) as u64;
    }
    Ok((count, bytes))
}

/// A profile that leads each request to this node.
fn only_at(node: &Arc<Node>) -> ExecutionProfileHandle {
    let policy = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(node.clone()), None);
    ExecutionProfile::builder().load_balancing_policy(policy).build().into_handle()
}

/// The ranges of a table of which a node has a copy.
fn ranges_at(connected: &Connected, node: &Arc<Node>, keyspace: &str, table: &str) -> Vec<Range> {
    let state = connected.session.get_cluster_state();
    let tokens: Vec<i64> = state.replica_locator().ring().iter().map(|(token, _)| token.value()).collect();
    let is_here = |range: &Range| {
        let replicas = state.get_token_endpoints(keyspace, table, Token::new(range.to));
        replicas.iter().any(|(replica, _)| replica.host_id == node.host_id)
    };
    ring(&tokens).into_iter().filter(is_here).collect()
}

/// The ranges between the tokens of a ring, which are in ascending order. The range that goes over the
/// end of the ring is two: both belong to the first token.
fn ring(tokens: &[i64]) -> Vec<Range> {
    let ends: Vec<i64> = [&[i64::MIN], tokens, &[i64::MAX]].concat();
    let range = |pair: &[i64]| Range { after: pair[0], to: pair[1] };
    ends.windows(2).map(range).filter(|range| range.after < range.to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_of_a_ring_have_each_token_once() {
        let range = |after, to| Range { after, to };
        assert_eq!(ring(&[-7, 5]), [range(i64::MIN, -7), range(-7, 5), range(5, i64::MAX)]);
        assert_eq!(ring(&[5, i64::MAX]), [range(i64::MIN, 5), range(5, i64::MAX)]);
        assert_eq!(ring(&[]), [range(i64::MIN, i64::MAX)]);
    }
}
