//! Options with which the engine is opened.

use std::time::Duration;

use store::{FormatLevel, Lane};

/// The least bytes of the journals of a lane. fjall begins a new journal at about this size, and
/// takes no less.
pub(crate) const JOURNALS_BYTES_MIN: u64 = 64 << 20;

/// Sizes and bounds of the embedded engine. The defaults suit a small server that holds thousands
/// of volumes.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Bytes of the caches of all lanes together: of data blocks, and of whole records. The
    /// operating system's cache comes on top.
    pub cache_bytes: u64,
    /// Bytes that a table of the text lane or of records gathers in memory before they are written
    /// to a file; a table of the service lane gathers a quarter of it. A database keeps the value
    /// with which it was made; a later one has no effect.
    pub memtable_bytes: u64,
    /// Memtables of the text lane, and of records, are written to files early once the lane's
    /// journals have this number of bytes, and those of the service lane once its journals have
    /// half of it. At least 64 MiB: less counts as that.
    pub journals_bytes: u64,
    /// Bytes of a block of rows, 1 KiB to 1 MiB. Packs have blocks of their own size. A database
    /// keeps the value with which it was made.
    pub row_block_bytes: u32,
    /// So many files of a table that were memtables are merged into larger ones, 2 to 16: with
    /// twenty of them, fjall delays writes. A database keeps the value with which it was made.
    pub merge_files: u8,
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
    /// Small lists of steps are then written on the threads of their callers.
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
            journals_bytes: 128 << 20,
            row_block_bytes: 4 << 10,
            merge_files: 4,
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
    /// Of the cache of blocks.
    pub(crate) cache_bytes: u64,
    /// Of the cache of whole rows.
    pub(crate) row_cache_bytes: u64,
    pub(crate) memtable_bytes: u64,
    /// Memtables are flushed early once the journals have this number of bytes.
    pub(crate) journals_bytes: u64,
    pub(crate) row_block_bytes: u32,
    pub(crate) merge_files: u8,
    /// Files that are kept open.
    pub(crate) open_files: usize,
    pub(crate) worker_threads: usize,
}

impl EmbeddedOptions {
    /// The share of a lane. The service lane is small and seldom read again. Records get a quarter
    /// of the cache: one half of it for blocks, the other for whole rows. A row takes less than the
    /// block that it is in. The blocks serve listings, and rows that are read seldom.
    pub(crate) fn of_lane(&self, lane: Lane) -> LaneOptions {
        let service_cache_bytes = self.cache_bytes / 16;
        let records_cache_bytes = self.cache_bytes / 4;
        let row_cache_bytes = records_cache_bytes / 2;
        let journals_bytes = self.journals_bytes.max(JOURNALS_BYTES_MIN);
        let of_text = LaneOptions {
            cache_bytes: self.cache_bytes - service_cache_bytes - records_cache_bytes,
            row_cache_bytes: 0,
            memtable_bytes: self.memtable_bytes,
            journals_bytes,
            row_block_bytes: self.row_block_bytes,
            merge_files: self.merge_files,
            open_files: 256,
            worker_threads: self.worker_threads,
        };
        match lane {
            Lane::Text => of_text,
            Lane::Service => LaneOptions {
                cache_bytes: service_cache_bytes,
                memtable_bytes: self.memtable_bytes / 4,
                journals_bytes: (journals_bytes / 2).max(JOURNALS_BYTES_MIN),
                open_files: 64,
                ..of_text
            },
            Lane::Records => {
                LaneOptions { cache_bytes: records_cache_bytes - row_cache_bytes, row_cache_bytes, ..of_text }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_share_what_the_options_give_and_none_has_fewer_journals_than_the_engine_takes() {
        let options = EmbeddedOptions {
            memtable_bytes: 64 << 20,
            journals_bytes: 1 << 30,
            row_block_bytes: 16 << 10,
            merge_files: 8,
            ..EmbeddedOptions::default()
        };
        let of = |lane| {
            let lane = options.of_lane(lane);
            (lane.memtable_bytes >> 20, lane.journals_bytes >> 20, lane.row_block_bytes, lane.merge_files)
        };
        assert_eq!(of(Lane::Text), (64, 1 << 10, 16 << 10, 8));
        assert_eq!(of(Lane::Records), of(Lane::Text));
        assert_eq!(of(Lane::Service), (16, 512, 16 << 10, 8));
        let cached = |lane| options.of_lane(lane).cache_bytes + options.of_lane(lane).row_cache_bytes;
        assert_eq!(Lane::ALL.map(cached).iter().sum::<u64>(), options.cache_bytes);
        assert_eq!(options.of_lane(Lane::Records).row_cache_bytes, options.cache_bytes / 8);
        for journals_bytes in [0, 64 << 20, 128 << 20] {
            let options = EmbeddedOptions { journals_bytes, ..EmbeddedOptions::default() };
            assert_eq!(options.of_lane(Lane::Service).journals_bytes, JOURNALS_BYTES_MIN, "{journals_bytes}");
        }
    }
}
