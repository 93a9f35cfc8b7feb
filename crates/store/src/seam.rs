//! The trait `Store`, its limits and its state of health.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::content::{ContentHeader, ContentId, ContentStream};
use crate::cut::Cut;
use crate::error::{StoreError, StoreResult};
use crate::format_level::FormatLevel;
use crate::measure::Measure;
use crate::row::{Row, Rows, Scan};
use crate::step::{Outcome, Step};
use crate::table::{Lane, Table};

/// The limits of a store. [`crate::limited::Limited`] enforces them above the engines, so that the
/// embedded engine refuses what Cassandra would refuse.
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

/// The state of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The lanes whose writes are refused, each with the reason; empty if none are.
    pub refusing_writes: BTreeMap<Lane, String>,
    /// Free disk space in bytes, if the engine knows it.
    pub free_bytes: Option<u64>,
    /// What is refused because the disk is nearly full, and how full it is; `None`: nothing.
    pub no_room: Option<(NoRoom, String)>,
    /// Bytes of content files that the store does not know, as far as it has looked. It keeps them
    /// for a while before it deletes them.
    pub unknown_contents: u64,
    /// How long ago the records had expired that the last sweep deleted, at most; `None`: there was
    /// no sweep yet, or the engine reclaims by itself.
    pub reclaim_lag: Option<Duration>,
    /// How many records expire in the present hour of the clock (UTC), and in each after it; of an
    /// hour with very many at least so many. Empty as long as that is not known.
    pub expiring: Vec<u64>,
    /// The greatest age of what is read here of each other data center, by name, if the engine has
    /// several.
    pub replication_lag: BTreeMap<String, Duration>,
}

/// What a store refuses because its disk is nearly full. Each kind includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoRoom {
    /// What needs much space: imports, large contents, records.
    ForMuch,
    /// All changes but removals.
    ForChanges,
    /// Removals too.
    ForRemovals,
}

/// How many calls at the same time keep a store busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce {
    /// Batches of rows that a reader of thousands of rows requests at the same time.
    pub reads: usize,
    /// Writers per processor of the writing machine. Each prepares rows and then waits for the
    /// store.
    pub writers_per_processor: usize,
}

impl Default for AtOnce {
    /// One batch is read while the previous one is sent; most writers wait for a sync. Measured on
    /// two cores over the embedded engine: with two writers per processor an import takes 10 %
    /// longer.
    fn default() -> Self {
        Self { reads: 2, writers_per_processor: 4 }
    }
}

/// What a kind of store is and can do. It selects the tests of its suite, and servers and commands
/// act by it. So none of them has to know which engine there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether several processes may have the store open at the same time. If not, a second one
    /// gets [`StoreError::Held`](crate::StoreError::Held).
    pub is_shared: bool,
    /// Whether [`Store::run`] applies all of a list or none of it. If not, a list that is refused
    /// or fails may be applied in part: up to the step that was refused.
    pub has_atomic_lists: bool,
    /// Whether a write may wait for its sync as long as its call allows
    /// ([`Call::sync_delay`]), and no longer.
    pub delays_syncs: bool,
    /// The folder of the data, if there is one. A server keeps files of its own in it: the
    /// certificate that it makes, and the administrator's socket.
    pub folder: Option<PathBuf>,
}

/// Some partitions of a table, and where to continue.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WalkPage {
    /// Partition keys, each once, in the engine's token order.
    pub partitions: Vec<Bytes>,
    /// The argument for the next call; `None`: the walk has ended.
    pub next: Option<Bytes>,
}

/// Some rows of a table whose partitions have one row each, and where to continue.
#[derive(Clone, Debug, Default)]
pub struct RowPage {
    /// Partition keys, each once, with the row of the partition at the empty sort key.
    pub rows: Vec<(Bytes, Row)>,
    /// The argument for the next call; `None`: the walk has ended.
    pub next: Option<Bytes>,
}

/// A store of rows and contents. Every method ends by the call's deadline, unless it says
/// otherwise.
///
/// Rows are either *plain* (put) or *guarded* (written by compare-and-write only). A key is one or
/// the other forever. [`crate::PlainRows`] says for each table whether its plain rows are written
/// once or replaced. Callers seal values with [`crate::envelope`]; engines do not interpret them.
///
/// Engines implement this trait; wrappers over a store implement [`crate::Wrapper`].
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The row at a key; `None`: there is none, or it has expired.
    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>>;

    /// Many rows, in the order of the keys: one call instead of thousands.
    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>>;

    /// A page of a range of one partition (see [`Scan`]). Each page is a snapshot. Two pages may
    /// show different ones.
    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows>;

    /// The first pages of many ranges (table, partition, range) of one [`Lane`], in the order of
    /// the ranges: one call instead of many. It fails if one range fails. By default the ranges are
    /// scanned one after the other.
    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let mut pages = Vec::with_capacity(scans.len());
        for (table, partition, scan) in scans {
            pages.push(self.scan(call, table, &partition, scan).await?);
        }
        Ok(pages)
    }

    /// Runs steps in order and stops at the first that is refused. An engine that can applies all
    /// or none: see [`Capabilities`]. All tables of a list belong to one [`Lane`]; any other list
    /// is [`StoreError::Invalid`](crate::StoreError::Invalid). After [`Outcome::Applied`], all of
    /// it is as durable as the call and the tables want (see [`crate::Durability`]), and every
    /// later read sees it.
    ///
    /// An error means that nothing was applied.
    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome>;

    /// Some partitions of a table that hold at least one row, from the beginning or from an earlier
    /// page's `next`. The partitions of [`Table::Contents`] are the ids of contents, in any state.
    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage>;

    /// Some partitions with their rows at the empty sort key: [`Store::walk`] and
    /// [`Store::get_many`] as one call, for a table whose partitions have one row each. A page may
    /// end before `max`, with the row that reaches `max_bytes` of keys and values. It has no
    /// partition without such a row, and may be empty before the walk has ended.
    ///
    /// An engine may keep what is read only once from replacing in its cache what is read often. By
    /// default the rows are looked up after the walk, whatever their bytes.
    async fn walk_rows(
        &self,
        call: Call,
        table: Table,
        from: Option<Bytes>,
        max: usize,
        max_bytes: usize,
    ) -> StoreResult<RowPage> {
        let _ = max_bytes;
        let page = self.walk(call, table, from, max).await?;
        let keys = page.partitions.iter().map(|partition| (partition.clone(), Bytes::new())).collect();
        let rows = self.get_many(call, table, keys).await?;
        let found = page.partitions.into_iter().zip(rows);
        let rows = found.filter_map(|(partition, row)| Some((partition, row?))).collect();
        Ok(RowPage { rows, next: page.next })
    }

    /// Stores a stream for `owner` under a fresh id. The content is readable once this returns. The
    /// lease is renewed while bytes come in. If the stream fails, no part of it ever becomes
    /// readable. The call's deadline bounds each step of the upload, not the whole. Bytes and
    /// header are as durable as the call and [`Table::Contents`] want.
    async fn put_content(&self, call: Call, owner: Bytes, content: ContentStream) -> StoreResult<ContentId> {
        let id = self.fresh_content_id();
        self.put_content_as(call, id, owner, content).await?;
        Ok(id)
    }

    /// The id of the next content that [`Store::put_content`] stores. The default draws it from
    /// the operating system's randomness.
    fn fresh_content_id(&self) -> ContentId {
        ContentId::fresh()
    }

    /// Like [`Store::put_content`], under an id that the caller has: for copying from another
    /// store. It fails with [`StoreError::Invalid`](crate::StoreError::Invalid) if a content with
    /// that id exists, in any state.
    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()>;

    /// What the store knows of a content; `None`: it does not exist.
    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>>;

    /// A range of a sealed content, clipped at its end; `None`: there is no such sealed content.
    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>>;

    /// Condemns a content. Returns false if it is still being uploaded under an unexpired lease.
    /// Returns true if it can no longer be sealed or read, even if it was condemned before or does
    /// not exist.
    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool>;

    /// Deletes a condemned content. Returns false, and deletes nothing, if it is being uploaded or
    /// sealed. Returns true if the content is gone, even if it was gone before: repeating the call
    /// is no error. An engine that deletes a large content part by part may bound each part by the
    /// deadline, not the whole. What a call that fails leaves, the next one deletes.
    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool>;

    /// Deletes what no call can see any more: expired rows, condemned contents, leftovers of
    /// interrupted uploads. Returns how many rows and contents those were. It changes no other
    /// answer and ends by the deadline; the next sweep continues. Any number of servers may call it
    /// at any time. The default deletes nothing: for engines that reclaim by themselves, and for
    /// those that store nothing.
    async fn sweep(&self, _call: Call) -> StoreResult<u64> {
        Ok(0)
    }

    /// Makes a [`Cut`]: the store's files as they are at one moment, for a backup. Writes wait for
    /// some milliseconds meanwhile.
    ///
    /// Errors: [`StoreError::Invalid`] if the store is not one in a data folder.
    async fn cut(&self, _call: Call) -> StoreResult<Cut> {
        Err(StoreError::Invalid("only a store in a data folder is backed up like this".to_owned()))
    }

    /// Whether guarded rows can be changed from here.
    /// [`StoreError::ReadOnly`](crate::StoreError::ReadOnly) says why not: they are decided in
    /// another data center, the store is read-only, or this machine's clock is wrong. Strong reads
    /// may lag behind then. Code that repairs something by what guarded rows say calls this first.
    /// If it fails, that code repairs nothing, not even by plain writes.
    fn check_home(&self) -> StoreResult<()> {
        Ok(())
    }

    /// What to add to this machine's clock for the time that all who share the store have, in
    /// milliseconds. It is not certain, and changes while the store is open. Zero if the store is
    /// not shared, or knows nothing better than this machine's clock.
    fn clock_correction_ms(&self) -> i64 {
        0
    }

    /// The level of the store: which kinds and versions of values may be written. It may rise while
    /// the store is open, and never falls.
    fn level(&self) -> FormatLevel {
        FormatLevel::NEWEST
    }

    /// The state of the store.
    async fn health(&self) -> Health;

    /// What the engine measures of itself. It may wait for the engine's locks: call it on a thread
    /// that may block. The default measures nothing.
    fn measures(&self) -> Vec<Measure> {
        Vec::new()
    }

    /// The limits of the store.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// What the store is and can do. It stays the same while the store is open.
    fn capabilities(&self) -> Capabilities;

    /// How many calls at the same time keep the store busy.
    fn at_once(&self) -> AtOnce {
        AtOnce::default()
    }

    /// Makes acknowledged writes safe, releases the folder or the connections, and waits until that
    /// is done.
    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
