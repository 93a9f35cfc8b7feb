//! Compares the copies of each row, and names the nodes whose copies are wrong.
//!
//! A range of the ring is read at each node that has a copy of it, at the same time, in the order in
//! which all nodes keep their rows (`rows.rs`). The copies of a row are compared by their write times,
//! their values and their seals (`verdict.rs`). A copy that is wrong is looked at again a moment later,
//! and reported if it is still the same. So a write that is under way is no finding.
//!
//! Nothing is read at more than one node at a time. Such a read would make Cassandra repair copies
//! that differ, and of two values of one write time it may keep the damaged one.

mod rows;
mod verdict;

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use scylla::cluster::{ClusterState, Node};
use store::{StoreError, StoreResult, Table};
use tokio::time::Instant;

use crate::at_node::{self, NotItself, PageError, PagedRead, Range};
use crate::cassandra_store::CassandraStore;
use crate::connect::{self, Connected};
use crate::options::CassandraOptions;
use rows::{Copy, Rows, next_row};
use verdict::{Fault, FoundRow, RowKey, faults};

/// Rows of a page of one copy. The largest rows have 128 KiB.
const PAGE_ROWS: i32 = 50;

/// When wrong copies are looked at again: by then a write that was under way has arrived.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// So many rows of a range are looked at again at most, so that a node that lacks everything does not
/// make this process keep all keys.
const AGAIN_MAX: usize = 10_000;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Comparing {
    /// The tables, all if empty. [`Table::Contents`] includes the bytes of large contents.
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
    /// Rows that differ and were not looked at again, because there were too many of them in a range.
    pub unexamined: u64,
}

/// A copy that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongCopy {
    /// The address of the node that has it.
    pub node: SocketAddr,
    /// The CQL table.
    pub table: String,
    /// The partition key; for bytes of a large content, its id.
    pub partition: Bytes,
    /// The sort key.
    pub sort: Bytes,
    /// The number of the chunk of a large content; 0 for all other rows.
    pub chunk: i32,
    /// What is wrong.
    pub fault: CopyFault,
}

/// What is wrong with a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyFault {
    /// Its bytes are not those that were written. Another copy is whole.
    Damaged,
    /// Copies of one write time differ, and their seals do not show which of them is damaged.
    Conflict,
    /// Another node has a newer value.
    Outdated,
    /// The row is not here, and on another node it is. It is missing here, or was deleted, and the
    /// other node does not know that yet.
    Missing,
    /// The node cannot read its files behind this row (or from the beginning of the range, if there
    /// is none), up to the end of a range of the ring.
    Unreadable(String),
    /// The node did not answer any more, so its copies were left out from then on.
    Unanswered(String),
}

/// Gets what is found, and how far comparing is.
pub trait OnCompared: Sync {
    /// Some rows were compared. The answer says whether to go on.
    fn progress(&self, compared: Compared) -> ControlFlow<()>;
    /// A copy is wrong.
    fn found(&self, wrong: WrongCopy);
}

impl CassandraStore {
    /// Compares all copies of all rows, in all data centers. Returns how far it came: to the end,
    /// unless `on` has stopped it.
    ///
    /// Errors: as of [`CassandraStore::open`]; [`StoreError::Invalid`] if the keyspace keeps one copy
    /// only, or a node may let another one answer for it; [`StoreError::Unavailable`] if nodes have joined or left meanwhile.
    pub fn compare_copies<'a>(
        options: &'a CassandraOptions,
        comparing: &'a Comparing,
        on: &'a dyn OnCompared,
    ) -> BoxFuture<'a, StoreResult<Compared>> {
        async move {
            let (connected, _) = connect::store(options).await?;
            let keyspace = options.address.keyspace();
            if connected.check_levels(&options.address, &options.levels)?.0.all < 2 {
                return Err(StoreError::Invalid(format!(
                    "keyspace {keyspace} keeps one copy of each row, so there is nothing to compare: `penates verify` \
                     finds what is damaged"
                )));
            }
            let tables = at_node::tables(&comparing.tables);
            let begun = Instant::now();
            let bytes_per_second = comparing.bytes_per_second.max(1);
            let compared = Compared::default();
            let (state, connected) = (connected.session.get_cluster_state(), &connected);
            let mut run = Run { connected, keyspace, state, on, begun, bytes_per_second, compared, away: Vec::new() };
            match run.all(tables).await {
                Ok(()) | Err(Ended::Stopped) => Ok(run.compared),
                Err(Ended::Failed(error)) => Err(error),
            }
        }
        .boxed()
    }
}

/// Why comparing has ended early.
enum Ended {
    /// The caller wants no more.
    Stopped,
    Failed(StoreError),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A run over all tables.
struct Run<'a> {
    connected: &'a Connected,
    keyspace: &'a str,
    /// The nodes, as last looked at.
    state: Arc<ClusterState>,
    on: &'a dyn OnCompared,
    begun: Instant,
    bytes_per_second: u64,
    compared: Compared,
    /// Nodes that did not answer.
    away: Vec<Arc<Node>>,
}

/// A range of a table, with the nodes that have a copy of it, and a read for each node that answers.
struct RangeReads<'a> {
    rows: Rows,
    range: Range,
    nodes: &'a [Arc<Node>],
    reads: &'a [(Arc<Node>, PagedRead<'a>)],
}

/// A row whose copies differ.
struct Suspect {
    key: RowKey,
    copies: Vec<PlacedRow>,
}

/// A row of a copy, with the place of its node.
type PlacedRow = (usize, Option<FoundRow>);

impl RangeReads<'_> {
    /// The copies of the nodes that answer, for this range or a part of it.
    fn copies(&self, range: Range) -> Vec<Copy<'_>> {
        let of = |(place, node): (usize, &Arc<Node>)| {
            let (_, read) = self.reads.iter().find(|(known, _)| known == node)?;
            Some(Copy::new(place, read, self.rows, range))
        };
        self.nodes.iter().enumerate().filter_map(of).collect()
    }
}

impl Run<'_> {
    async fn all(&mut self, tables: Vec<Table>) -> Result<(), Ended> {
        let tables: Vec<Rows> = tables.into_iter().flat_map(Rows::of).collect();
        let ranges = at_node::ranges(&self.state, self.keyspace);
        self.compared.ranges_in_all = (tables.len() * ranges.len()) as u64;
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for node in ranges.iter().flat_map(|(_, nodes)| nodes) {
            if !nodes.contains(node) {
                nodes.push(node.clone());
            }
        }
        for node in &nodes {
            match at_node::check_that_it_answers_itself(self.connected, node, false).await {
                Ok(()) => {}
                Err(NotItself::OthersAnswer(error)) => return Err(error.into()),
                Err(NotItself::Unanswered(why)) => self.leave_out(node, why),
            }
        }
        for rows in tables {
            self.table(rows, &nodes, &ranges).await?;
        }
        Ok(())
    }

    async fn table(
        &mut self,
        rows: Rows,
        nodes: &[Arc<Node>],
        ranges: &[(Range, Vec<Arc<Node>>)],
    ) -> Result<(), Ended> {
        let query = rows.query(self.keyspace);
        let mut reads = Vec::with_capacity(nodes.len());
        for node in nodes.iter().filter(|node| self.answers(node)) {
            reads.push((node.clone(), PagedRead::prepare(self.connected, node, &query, PAGE_ROWS).await?));
        }
        for (range, nodes) in ranges {
            self.check_ring(ranges)?;
            self.range(RangeReads { rows, range: *range, nodes, reads: &reads }).await?;
            reads.retain(|(node, _)| self.answers(node));
            self.compared.ranges += 1;
            self.count(0).await?;
        }
        Ok(())
    }

    /// Fails if the nodes or what they have are not those of the beginning.
    fn check_ring(&mut self, ranges: &[(Range, Vec<Arc<Node>>)]) -> Result<(), Ended> {
        let state = self.connected.session.get_cluster_state();
        // The driver makes another one when it has looked again, once a minute.
        if !Arc::ptr_eq(&state, &self.state) {
            if at_node::ranges(&state, self.keyspace) != *ranges {
                let why = "nodes have joined or left the cluster: compare again".to_owned();
                return Err(StoreError::Unavailable(why).into());
            }
            self.state = state;
        }
        Ok(())
    }

    /// Compares the copies of a range.
    async fn range(&mut self, of: RangeReads<'_>) -> Result<(), Ended> {
        let mut copies = of.copies(of.range);
        let mut suspects: Vec<Suspect> = Vec::new();
        loop {
            let (row, bytes) = next_row(&mut copies).await;
            self.compared.rows += u64::from(row.is_some());
            self.count(bytes).await?;
            let Some((key, rows)) = row else { break };
            let (rows, faults) = judged(&copies, rows);
            if faults.iter().all(Option::is_none) {
                continue;
            }
            if suspects.len() < AGAIN_MAX {
                suspects.push(Suspect { key, copies: rows });
            } else {
                self.compared.unexamined += 1;
            }
        }
        for copy in &copies {
            let node = &of.nodes[copy.place];
            match &copy.failed {
                None => {}
                Some(PageError::Unanswered(why)) => self.leave_out(node, why.clone()),
                Some(PageError::Unreadable(why)) => {
                    self.found(node, of.rows, copy.last.as_ref(), CopyFault::Unreadable(why.clone()));
                }
            }
        }
        let failed: Vec<usize> = copies.iter().filter(|copy| copy.failed.is_some()).map(|copy| copy.place).collect();
        if !suspects.is_empty() {
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        }
        for of_token in suspects.chunk_by(|one, other| one.key.token == other.key.token) {
            self.look_again(&of, of_token, &failed).await?;
        }
        Ok(())
    }

    /// Reads the rows of one token again, and reports each copy that is as wrong as before. Nodes at the
    /// places in `failed` are not asked again.
    async fn look_again(&mut self, of: &RangeReads<'_>, suspects: &[Suspect], failed: &[usize]) -> Result<(), Ended> {
        let Some(token) = suspects.first().map(|suspect| suspect.key.token) else { return Ok(()) };
        let mut copies = of.copies(Range { after: token - 1, to: token });
        copies.retain(|copy| !failed.contains(&copy.place));
        let mut suspects = suspects.iter().peekable();
        loop {
            let (row, bytes) = next_row(&mut copies).await;
            self.count(bytes).await?;
            let Some((key, rows)) = row else { return Ok(()) };
            while suspects.next_if(|suspect| suspect.key < key).is_some() {}
            let Some(suspect) = suspects.next_if(|suspect| suspect.key == key) else { continue };
            let (rows, faults) = judged(&copies, rows);
            for (row, fault) in rows.iter().zip(faults) {
                let Some(fault) = fault.filter(|_| suspect.copies.contains(row)) else { continue };
                let fault = match fault {
                    Fault::Damaged => CopyFault::Damaged,
                    Fault::Conflict => CopyFault::Conflict,
                    Fault::Outdated => CopyFault::Outdated,
                    Fault::Missing => CopyFault::Missing,
                };
                self.found(&of.nodes[row.0], of.rows, Some(&key), fault);
            }
        }
    }

    fn answers(&self, node: &Arc<Node>) -> bool {
        !self.away.contains(node)
    }

    /// Compares no further copies of a node.
    fn leave_out(&mut self, node: &Arc<Node>, why: String) {
        self.away.push(node.clone());
        self.on.found(wrong(node, "", None, CopyFault::Unanswered(why)));
    }

    fn found(&self, node: &Node, rows: Rows, key: Option<&RowKey>, fault: CopyFault) {
        self.on.found(wrong(node, rows.name(), key, fault));
    }

    /// Counts bytes that were read, and waits until so many may have been.
    async fn count(&mut self, bytes: u64) -> Result<(), Ended> {
        self.compared.bytes += bytes;
        if bytes > 0 {
            let earliest = Duration::from_secs_f64(self.compared.bytes as f64 / self.bytes_per_second as f64);
            tokio::time::sleep_until(self.begun + earliest).await;
        }
        match self.on.progress(self.compared) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Ended::Stopped),
        }
    }
}

/// The rows of the copies that can be read, and their faults.
fn judged(copies: &[Copy<'_>], rows: Vec<Option<FoundRow>>) -> (Vec<PlacedRow>, Vec<Option<Fault>>) {
    let readable = copies.iter().zip(rows).filter(|(copy, _)| copy.failed.is_none());
    let (places, rows): (Vec<usize>, Vec<_>) = readable.map(|(copy, row)| (copy.place, row)).unzip();
    let faults = faults(&rows);
    (places.into_iter().zip(rows).collect(), faults)
}

fn wrong(node: &Node, table: &str, key: Option<&RowKey>, fault: CopyFault) -> WrongCopy {
    let (partition, sort) = key.map(|key| (key.partition.clone(), key.sort.clone())).unwrap_or_default();
    let chunk = key.map_or(0, |key| key.number);
    WrongCopy { node: at_node::address(node), table: table.to_owned(), partition, sort, chunk, fault }
}
