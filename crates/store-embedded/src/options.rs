//! What can be told to the engine when it is opened.

use std::time::Duration;

use store::Lane;

/// Sizes and bounds of the embedded engine. The defaults suit a small server that holds thousands of volumes.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Bytes of the caches of data blocks, of all lanes together. What the operating system caches comes on top.
    pub cache_bytes: u64,
    /// Bytes that a table of text gathers in memory before they are written to a file of their own; one of another lane at most a
    /// quarter of it. The database keeps the value that it
    /// was made with; a later one has no effect on it.
    pub memtable_bytes: u64,
    /// Free bytes on the disk below which writes are refused, so that neither the journal nor a compaction ever meets a
    /// full disk (that would poison the engine). Small writes (heads, marks) are taken down to half of it, removals down to a
    /// quarter, and the audit to the end, for which an eighth of it (64 MiB at most) is reserved in a file: a full store can be
    /// read, and emptied.
    pub headroom_bytes: u64,
    /// How old the oldest waiting write may be before further ones are refused as overload.
    pub max_queue_age: Duration,
    /// Bytes of writes that may wait or be under way at once; in each lane; further ones wait to be let in, and are refused as overload
    /// after [`EmbeddedOptions::max_queue_age`].
    pub max_queued_bytes: usize,
    /// How long an upload of content may stay silent before it may be collected.
    pub content_lease: Duration,
    /// How long the file of a content is kept that the database does not know, from when that is first seen. It should be longer than
    /// it takes to notice that a database was restored without its contents, and to restore what belongs to them.
    pub unknown_content_grace: Duration,
    /// Contents that one sweep looks at, at least one; the next goes on there.
    pub contents_per_sweep: usize,
    /// Threads that flush and compact, of each lane. At least 2: with one, a flush waits for a compaction and writes wait for the flush.
    /// With two, the one that fjall keeps for flushes puts every request to compact back into the queue, over and over, while the other
    /// compacts; a third takes them out.
    pub worker_threads: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 32 << 20,
            memtable_bytes: 8 << 20,
            headroom_bytes: 512 << 20,
            max_queue_age: Duration::from_secs(2),
            max_queued_bytes: 32 << 20,
            content_lease: Duration::from_secs(15 * 60),
            unknown_content_grace: Duration::from_secs(30 * 24 * 3600),
            contents_per_sweep: 10_000,
            worker_threads: 3,
        }
    }
}

/// What a lane's database is opened with.
#[derive(Clone, Debug)]
pub(crate) struct LaneOptions {
    pub(crate) cache_bytes: u64,
    pub(crate) memtable_bytes: u64,
    /// Bytes of the journals from which on memtables are flushed early. fjall takes no less than 64 MiB.
    pub(crate) journals_bytes: u64,
    /// Files that are kept open.
    pub(crate) open_files: usize,
    pub(crate) worker_threads: usize,
}

impl EmbeddedOptions {
    /// The share of a lane. What serving writes is small and seldom read again.
    pub(crate) fn of_lane(&self, lane: Lane) -> LaneOptions {
        let service_cache_bytes = self.cache_bytes / 16;
        match lane {
            Lane::Text => LaneOptions {
                cache_bytes: self.cache_bytes - service_cache_bytes,
                memtable_bytes: self.memtable_bytes,
                journals_bytes: 128 << 20,
                open_files: 256,
                worker_threads: self.worker_threads,
            },
            Lane::Service => LaneOptions {
                cache_bytes: service_cache_bytes,
                memtable_bytes: self.memtable_bytes / 4,
                journals_bytes: 64 << 20,
                open_files: 64,
                worker_threads: self.worker_threads,
            },
        }
    }
}
