//! What can be told to the engine when it is opened.

use std::time::Duration;

/// Sizes and bounds of the embedded engine. The defaults suit a small server that holds thousands of volumes.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Bytes of the cache of data blocks. What the operating system caches comes on top.
    pub cache_bytes: u64,
    /// Bytes that a table gathers in memory before they are written to a file of their own. The database keeps the value that it
    /// was made with; a later one has no effect on it.
    pub memtable_bytes: u64,
    /// Free bytes on the disk below which writes are refused, so that neither the journal nor a compaction ever meets a
    /// full disk (that would poison the engine). Small writes (heads, marks) are taken down to half of it, removals and the
    /// audit down to a quarter: a full store can be read, and emptied.
    pub headroom_bytes: u64,
    /// How old the oldest waiting write may be before further ones are refused as overload.
    pub max_queue_age: Duration,
    /// Bytes of writes that may wait or be under way at once; further ones wait to be let in, and are refused as overload
    /// after [`EmbeddedOptions::max_queue_age`].
    pub max_queued_bytes: usize,
    /// How long an upload of content may stay silent before it may be collected.
    pub content_lease: Duration,
    /// Threads that flush and compact. At least 2: with one, a flush waits for a compaction and writes wait for the flush.
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
            worker_threads: 2,
        }
    }
}
