//! Options with which the engine is opened.

use std::time::Duration;

use store::{FormatLevel, Lane};

/// Sizes and bounds of the embedded engine. The defaults suit a small server that holds thousands
/// of volumes.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Bytes of the caches of data blocks of all lanes together. The operating system's cache comes
    /// on top.
    pub cache_bytes: u64,
    /// Bytes that a table of the text lane gathers in memory before they are written to a file; a
    /// table of another lane gathers at most a quarter of it. A database keeps the value with which
    /// it was made; a later one has no effect.
    pub memtable_bytes: u64,
    /// Free bytes on the disk below which writes are refused, so that neither the journal nor a
    /// compaction ever meets a full disk (that would poison the engine). Small writes (heads,
    /// marks) are accepted down to half of it, removals down to a quarter, and the audit to the
    /// end: an eighth of it (64 MiB at most) is reserved in a file for the audit. So a full store
    /// can be read and emptied.
    pub headroom_bytes: u64,
    /// How old the oldest waiting write may be before further ones are refused as overload.
    pub max_queue_age: Duration,
    /// Bytes of writes that may wait or be under way at the same time in each lane. Further ones
    /// wait for space, and are refused as overload after [`EmbeddedOptions::max_queue_age`].
    pub max_queued_bytes: usize,
    /// How long an upload of content may send nothing before it may be deleted.
    pub content_lease: Duration,
    /// How long a content file that the database does not know is kept, from when it is first seen.
    /// This should be longer than it takes to notice that a database was restored without its
    /// contents, and to restore them.
    pub unknown_content_grace: Duration,
    /// The number of contents that one sweep checks, at least one. The next sweep continues there.
    pub contents_per_sweep: usize,
    /// Threads per lane that flush and compact. At least 2: with one, a flush waits for a
    /// compaction, and writes wait for the flush. With two, the one that fjall reserves for flushes
    /// puts every request to compact back into the queue, over and over, while the other compacts;
    /// a third takes them out.
    pub worker_threads: usize,
    /// Each write may wait this long for its sync, whatever its call wants. Zero, except in a program
    /// that makes again what a power failure undoes. The death of the process alone undoes nothing.
    pub sync_delay: Duration,
    /// The newest level that this program knows. Tests set another one, to be an earlier or a later
    /// program.
    pub newest_level: FormatLevel,
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
            sync_delay: Duration::ZERO,
            newest_level: FormatLevel::NEWEST,
        }
    }
}

/// The options of a lane's database.
#[derive(Clone, Debug)]
pub(crate) struct LaneOptions {
    pub(crate) cache_bytes: u64,
    pub(crate) memtable_bytes: u64,
    /// Memtables are flushed early once the journals have this number of bytes. fjall's minimum is
    /// 64 MiB.
    pub(crate) journals_bytes: u64,
    /// Files that are kept open.
    pub(crate) open_files: usize,
    pub(crate) worker_threads: usize,
}

impl EmbeddedOptions {
    /// The share of a lane. The service lane is small and seldom read again. Records get a quarter
    /// of the cache.
    pub(crate) fn of_lane(&self, lane: Lane) -> LaneOptions {
        let service_cache_bytes = self.cache_bytes / 16;
        let records_cache_bytes = self.cache_bytes / 4;
        match lane {
            Lane::Text => LaneOptions {
                cache_bytes: self.cache_bytes - service_cache_bytes - records_cache_bytes,
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
            Lane::Records => LaneOptions {
                cache_bytes: records_cache_bytes,
                memtable_bytes: self.memtable_bytes,
                journals_bytes: 128 << 20,
                open_files: 256,
                worker_threads: self.worker_threads,
            },
        }
    }
}
