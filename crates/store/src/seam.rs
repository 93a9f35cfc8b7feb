//! The trait.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::content::{ContentHeader, ContentId, ContentStream};
use crate::error::StoreResult;
use crate::row::{Lane, Row, Rows, Scan, Table};
use crate::step::{Outcome, Step};

/// Bounds of what a store takes, enforced by [`crate::limited::Limited`], above the engines, so that the embedded engine
/// refuses what Cassandra would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one value.
    pub value_bytes: usize,
    /// Bytes of all keys and values of one step.
    pub step_bytes: usize,
    /// Rows of one step.
    pub step_rows: usize,
    /// Steps of one list.
    pub steps: usize,
    /// Bytes of a partition key, and of a sort key.
    pub key_bytes: usize,
    /// Bytes of a guard's tag.
    pub tag_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            value_bytes: 64 << 10,
            step_bytes: 4 << 20,
            step_rows: 16 << 10,
            steps: 1024,
            key_bytes: 4 << 10,
            tag_bytes: 64,
        }
    }
}

/// How a store feels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The lanes whose writes are refused, and why; empty: none are.
    pub refusing_writes: BTreeMap<Lane, String>,
    /// Free room on the disk, bytes, where the engine knows it.
    pub free_bytes: Option<u64>,
    /// Stored bytes of contents that the store does not know, as far as it has looked; it keeps them for a while before it removes them.
    pub unknown_contents: u64,
    /// How old what is seen here of each other data center may be, by the data center's name, where the engine has several.
    pub replication_lag: BTreeMap<String, Duration>,
}

/// How much at the same time keeps a store busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce {
    /// Batches of rows that are read, by one who reads thousands of them.
    pub reads: usize,
    /// Writers for each processor of theirs that work at the same time: each prepares what it writes, and then waits for the store.
    pub writers_per_processor: usize,
}

impl Default for AtOnce {
    /// One reads while what the other has read is sent; most writers wait for a sync. Measured on two cores over the embedded engine: with two
    /// writers for each, an import takes a tenth longer.
    fn default() -> Self {
        Self { reads: 2, writers_per_processor: 4 }
    }
}

/// Some partitions of a table, and where to go on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WalkPage {
    /// Partition keys, each once, in the engine's token order.
    pub partitions: Vec<Bytes>,
    /// Pass it to the next call; `None`: the walk is over.
    pub next: Option<Bytes>,
}

/// A store of rows and contents. Every method ends by the call's deadline.
///
/// Rows are either *plain* (put, immutable) or *guarded* (written by compare-and-write only); a key is the one or the other
/// for ever. Callers seal values with [`crate::envelope`]; engines do not look into them.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The row at a key; `None`: there is none, or it has expired.
    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>>;

    /// Many rows at once, in the order asked for: one call instead of thousands.
    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>>;

    /// A page of a range of one partition (see [`Scan`]). Each page is a snapshot; two pages need not be the same one.
    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows>;

    /// The first pages of many ranges (table, partition, range) of one [`Lane`], in the order asked for: one call instead of many. It
    /// fails if one of them does. By default they are scanned one after the other.
    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let mut pages = Vec::with_capacity(scans.len());
        for (table, partition, scan) in scans {
            pages.push(self.scan(call, table, &partition, scan).await?);
        }
        Ok(pages)
    }

    /// Runs steps in order, stopping at the first that is refused. An engine that can, applies them all or none. All tables of a
    /// list are of one [`Lane`]; another list is [`StoreError::Invalid`](crate::StoreError::Invalid). When it answers
    /// [`Outcome::Applied`], all of it is as durable as the class asks, and every later read sees it.
    ///
    /// An error means that nothing was applied.
    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome>;

    /// Some partitions of a table that hold at least one row, from the beginning or from an earlier page's `next`. Partitions of
    /// [`Table::Contents`] are the ids of contents, in whatever state.
    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage>;

    /// Stores a stream for `owner`; it is readable once this has answered. The lease is renewed while bytes come in. If the
    /// stream fails, nothing of it is ever readable. The call's deadline bounds each step of the upload, not the whole.
    async fn put_content(&self, call: Call, owner: Bytes, content: ContentStream) -> StoreResult<ContentId> {
        let id = ContentId::fresh();
        self.put_content_as(call, id, owner, content).await?;
        Ok(id)
    }

    /// The same under an id that the caller has: for copying from another store. [`StoreError::Invalid`](crate::StoreError::Invalid) if
    /// there is a content with that id, in whatever state.
    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()>;

    /// What is known of a content; `None`: there is none.
    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>>;

    /// A range of a sealed content, which is clipped at its end; `None`: there is no such sealed content.
    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>>;

    /// Condemns a content unless it is still uploading under an unexpired lease: then it answers false. True says that it can
    /// no longer be sealed nor read, also if it was condemned before or is not there at all.
    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool>;

    /// Takes a condemned content away; of an uploading or sealed one it takes nothing and answers false. True says that it is
    /// gone, also if it was gone before: repeating it is no error.
    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool>;

    /// Takes away what no call can see any more: expired rows, condemned contents, what crashes left of uploads. Answers how many
    /// rows and contents those were. It changes no other answer, may be called at any time and by any number of servers, and
    /// ends by the deadline; what is left is for the next one. By default there is nothing to take away: for engines that
    /// reclaim by themselves, and those that keep nothing.
    async fn sweep(&self, _call: Call) -> StoreResult<u64> {
        Ok(0)
    }

    /// Whether guarded rows can be changed from here; [`StoreError::ReadOnly`](crate::StoreError::ReadOnly) says why not: they are decided
    /// in another data center, or the store is read-only. Strong reads may lag behind them then. So whoever repairs something by
    /// what guarded rows say asks this first, and repairs nothing where it is refused, not even by plain writes.
    fn check_home(&self) -> StoreResult<()> {
        Ok(())
    }

    /// How it feels.
    async fn health(&self) -> Health;

    /// Its bounds.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// How much at the same time keeps it busy.
    fn at_once(&self) -> AtOnce {
        AtOnce::default()
    }

    /// Makes what is acknowledged safe, lets go of the folder or the connections, and waits for that.
    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
