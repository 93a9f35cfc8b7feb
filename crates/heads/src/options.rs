//! The settings of a library.

use std::time::Duration;

use crate::error::{ObjectsError, ObjectsResult};
use crate::keep::{History, HistoryTrees, Keep};
use crate::path::ResourcePath;
use crate::retries::TRIES_MAX;

/// The name of the container of all volumes.
pub const VOLUMES: &str = "volumes";

/// The settings of a library. The defaults are those of the design.
#[derive(Clone, Debug)]
pub struct LibraryOptions {
    /// G: how long condemned rows are kept.
    pub grace: Duration,
    /// Which past versions are kept, per kind of object.
    pub history: History,
    /// Which past versions of resources are kept in some trees of the repository instead.
    pub history_trees: HistoryTrees,
    /// L: how long a plan may be read from.
    pub plan_life: Duration,
    /// s: the greatest difference between two servers' clocks. [`Heads::clock_skew`] is the one
    /// that counts in a store.
    ///
    /// [`Heads::clock_skew`]: crate::Heads::clock_skew
    pub clock_skew_max: Duration,
    /// How long a selection lasts if its request does not say.
    pub selection_life: Duration,
    /// The longest life of a selection.
    pub selection_life_max: Duration,
    /// The age at which a sweep fences an intent. This only spares creators that are still at work;
    /// correctness does not depend on it.
    pub sweep_after: Duration,
    /// How long a writer tries to switch a head before it gives up.
    pub switch_within: Duration,
    /// The time limit of one call of the store.
    pub call_timeout: Duration,
    /// How long the change feed keeps changes; zero: none are announced.
    pub feed_keep: Duration,
    /// Whether changes that were decided earlier, with a token, name it in the feed. The server
    /// names that of a request ([`crate::actor`]).
    pub feed_actors: bool,
    /// How long a transaction lasts after it was begun or renewed.
    pub transaction_timeout: Duration,
    /// The most operations of a transaction, with those that later ones replaced.
    pub transaction_operations_max: usize,
    /// The most bytes of descriptions and of small contents that a transaction stages.
    pub transaction_bytes_max: u64,
    /// The most transactions that are open at once, about.
    pub transactions_max: u64,
    /// The most of them that one client has open, about.
    pub transactions_of_one_max: u64,
    /// DEFLATE level of frames, 1 to 9. Levels 6 and 9 make pages 1 % smaller than level 1, but
    /// take 1.6 and 1.8 times as long.
    pub frame_level: u8,
    /// Shards of the container of volumes.
    pub shards: u16,
    /// Shards of a new container of the repository. There are fewer, because there are many
    /// containers and most are small.
    pub resource_shards: u16,
    /// The approximate size in bytes at which a shard's container gets more shards, while the
    /// shard's children are live. Deleted children take twice as many bytes, and Cassandra should
    /// read no partition of more than 100 MB.
    pub shard_bytes_max: u64,
    /// One of so many children is sampled to estimate a shard's size.
    pub sample_one_of: u32,
    /// The largest content, in bytes, that is stored in a row rather than in a file of its own.
    pub small_content_bytes: usize,
    /// The bytes of names and notes of children with which a page of a listing ends, if it does not
    /// end earlier with its number of children.
    pub listing_bytes: usize,
    /// The number of rows of past members from which a shard is rewritten, if they are at least a
    /// quarter of it.
    pub rewrite_dead_rows_min: u64,
    /// Bytes that clients may make the server hold at once in bodies, lists, plans and graphs.
    pub memory_bytes: u64,
    /// Bytes that all bulk readers together may hold ahead of their clients.
    pub read_ahead_bytes: usize,
    /// Bulk requests that may stream at once. One more is refused for now.
    pub bulk_requests_max: usize,
    /// Processors that requests share: that many may plan, record their lists in the audit, or compute
    /// an update of a description, at the same time.
    pub processors: usize,
    /// Threads that may count tokens at once.
    pub counting_threads: usize,
    /// How far the audit may lag before new requests are refused. This is longer than a few tries
    /// of one call of the store: a record that waits for a node that hangs is written at the second
    /// or third try.
    pub audit_max_lag: Duration,
    /// How long records of the audit are kept; `None`: forever.
    pub audit_keep: Option<Duration>,
}

impl Default for LibraryOptions {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3_600);
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            grace: 24 * HOUR,
            history: History::default(),
            history_trees: HistoryTrees::default(),
            plan_life: 12 * HOUR,
            clock_skew_max: Duration::from_secs(300),
            selection_life: 7 * 24 * HOUR,
            selection_life_max: 30 * 24 * HOUR,
            sweep_after: Duration::from_secs(60),
            switch_within: Duration::from_secs(60),
            call_timeout: Duration::from_secs(10),
            feed_keep: 30 * 24 * HOUR,
            feed_actors: false,
            transaction_timeout: Duration::from_secs(180),
            transaction_operations_max: 1_000,
            transaction_bytes_max: 32 << 20,
            transactions_max: 10_000,
            transactions_of_one_max: 1_000,
            frame_level: 1,
            shards: 16,
            resource_shards: 4,
            shard_bytes_max: 40 << 20,
            sample_one_of: 1_024,
            small_content_bytes: 16 << 10,
            listing_bytes: 1 << 20,
            rewrite_dead_rows_min: 1_000,
            memory_bytes: 512 << 20,
            read_ahead_bytes: 8 << 20,
            bulk_requests_max: 256,
            processors,
            counting_threads: processors,
            audit_max_lag: Duration::from_secs(10),
            audit_keep: None,
        }
    }
}

impl LibraryOptions {
    /// Which versions of a resource are kept.
    pub fn kept_at(&self, path: &ResourcePath) -> Keep {
        self.history_trees.at(path).unwrap_or(self.history.resources)
    }

    /// How long a change may be tried after its writer has drawn a revision for it. Before it
    /// switches a head it reads once more, as often as calls are tried. The last try of a switch
    /// begins within `switch_within`, and is an announcement and a write.
    pub(crate) fn change_max(&self) -> Duration {
        self.switch_within + self.call_timeout * (TRIES_MAX + 2)
    }

    /// Refuses settings that would break a promise: without G > L + s, a stream could lose its
    /// rows.
    pub fn check(&self) -> ObjectsResult<()> {
        if self.grace <= self.plan_life + self.clock_skew_max {
            return Err(ObjectsError::Invalid(format!(
                "store.grace ({:?}) must be longer than store.plan_life ({:?}) and store.clock_skew_max ({:?}) together: \
                 otherwise a stream could lose what it still reads",
                self.grace, self.plan_life, self.clock_skew_max
            )));
        }
        if !(1..=9).contains(&self.frame_level) {
            return Err(ObjectsError::Invalid(format!("the level of frames is 1 to 9, not {}", self.frame_level)));
        }
        if self.shards == 0 || self.resource_shards == 0 {
            return Err(ObjectsError::Invalid("a container needs at least one shard".to_owned()));
        }
        Ok(())
    }
}
