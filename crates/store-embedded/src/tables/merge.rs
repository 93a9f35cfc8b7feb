//! Merges files that hold mostly what was deleted.
//!
//! A deleted row leaves a mark. Its space comes back when the mark is merged into the file that has
//! the row, and a read passes over the mark until then. fjall merges files when there are many of
//! them, or when those of a level are large. Marks are small. So after most rows have expired, and
//! little is written, marks and rows would stay for long.
//!
//! This is how fjall 3.1.13 works; read it again before you take another version:
//!
//! - A merge drops only what no reader can see any more. What that is becomes known when a memtable
//!   of the database is rotated. So memtables are written to files before a merge. Then none of the
//!   engine's journals waits for marks that the merge drops.
//! - The files that a merge has replaced are deleted when memtables are rotated after it. That
//!   takes several rotations, because the thread of `replaced.rs` keeps as many lists of files as
//!   fjall may have.
//! - While all files of a table are merged, no other table of the database is, and one of the
//!   engine's threads looks for work over and over. New files of the table pile up. After twenty of
//!   them the engine delays writes, and after thirty it halts them. So `pace.rs` bounds what is
//!   merged.
//! - A merge fails at a broken block, and leaves files, which the next start deletes. Another try
//!   would write further memtables to files, and so the engine would sooner merge that block
//!   itself. Then it refuses writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use fjall::{AbstractTree, Keyspace};
use parking_lot::Mutex;
use store::StoreResult;

use super::Tables;
use super::error::sync_error;
use super::pace::Pace;
use crate::opening::versions;
use crate::space::Space;

/// It is not worth the trouble for fewer marks.
const MARKS_MIN: u64 = 1_000;

/// Of so many rows and marks, one is a mark that came since the last merge. So a merge reads and
/// writes a few times as much as was deleted.
const ONE_OF: u64 = 3;

/// A table with more new files than this is not merged either: the engine merges them soon. So many
/// it may leave (`store.merge_files`).
const RUNS_MAX: usize = 16;

/// How many calls after a merge try to delete the files that it has replaced. Four are enough,
/// unless a backup reads them.
const CALLS_TO_DELETE: u8 = 20;

/// What was deleted in the tables of a lane, as far as merges know it.
#[derive(Debug)]
pub(super) struct Deleted {
    opened: Instant,
    /// Bytes that were written since then.
    written: AtomicU64,
    pace: Mutex<Pace>,
    /// Marks that the last merge of a table has left in its files. Locked while files are merged.
    left: Mutex<BTreeMap<Space, u64>>,
    /// Rows that sweeps have deleted since memtables were last written to files for a merge.
    unwritten: AtomicU64,
    /// How many further calls try to delete the files that a merge has replaced.
    calls_to_delete: AtomicU8,
    /// Whether a merge has failed.
    has_failed: AtomicBool,
}

impl Deleted {
    /// Of tables that are opened now.
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            written: AtomicU64::default(),
            pace: Mutex::default(),
            left: Mutex::default(),
            unwritten: AtomicU64::default(),
            calls_to_delete: AtomicU8::default(),
            has_failed: AtomicBool::default(),
        }
    }

    /// A commit has written so many bytes.
    pub(super) fn note_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What is known of writes and merges until now.
    fn pace(&self) -> Pace {
        let mut pace = self.pace.lock();
        pace.look(self.opened.elapsed(), self.written.load(Ordering::Relaxed));
        *pace
    }
}

/// What a table has in files.
#[derive(Clone, Copy, Debug)]
struct InFiles {
    /// Marks of deleted rows.
    marks: u64,
    /// Rows and marks.
    all: u64,
    bytes: u64,
}

impl InFiles {
    fn of(keyspace: &Keyspace) -> Self {
        let version = keyspace.tree.current_version();
        let none = Self { marks: 0, all: 0, bytes: keyspace.disk_space() };
        version.iter_tables().fold(none, |sum, file| Self {
            marks: sum.marks + file.tombstone_count(),
            all: sum.all + file.metadata.item_count,
            ..sum
        })
    }

    /// With so many marks more, which are in memory.
    fn and_marks(self, unwritten: u64) -> Self {
        Self { marks: self.marks + unwritten, all: self.all + unwritten, ..self }
    }

    /// Whether a merge is worth the trouble. `left` are the marks that the last one has left. That
    /// number sinks when the engine itself merges some of them.
    fn is_worth_merging(self, left: &mut u64) -> bool {
        *left = self.marks.min(*left);
        let new = self.marks - *left;
        new >= MARKS_MIN && new.saturating_mul(ONE_OF) >= self.all
    }
}

impl Tables {
    /// A sweep has deleted so many rows.
    pub(crate) fn note_deleted(&self, rows: u64) {
        self.deleted.unwritten.fetch_add(rows, Ordering::AcqRel);
    }

    /// Whether [`Tables::merge_deleted`] would do something, and does not do so already.
    pub(crate) fn has_much_deleted(&self, has_room: impl Fn(u64) -> bool) -> bool {
        let Some(mut left) = self.deleted.left.try_lock() else { return false };
        if self.deleted.has_failed.load(Ordering::Acquire) {
            return false;
        }
        let unwritten = self.deleted.unwritten.load(Ordering::Acquire);
        let pace = self.deleted.pace();
        let is_worth = |(space, keyspace): &(Space, Keyspace)| {
            *space != Space::Marks
                && is_worth_merging(*space, keyspace, &mut left, unwritten)
                && self.may_be_merged(keyspace, &pace)
                && has_room(keyspace.disk_space())
        };
        self.deleted.calls_to_delete.load(Ordering::Acquire) > 0 || self.keyspaces.iter().any(is_worth)
    }

    /// Merges all files of each table that has much deleted in them, if `has_room` says that there
    /// is room for so many bytes. Takes about as long as it takes to read and write them. Their
    /// space comes back at the next calls. There must be a commit before each call.
    ///
    /// If files of a table cannot be merged, the table is left as it is, and none is merged until the
    /// next start.
    ///
    /// Errors: as of a sync; [`store::StoreError::Io`] if memtables cannot be written to files.
    pub(crate) fn merge_deleted(&self, has_room: impl Fn(u64) -> bool) -> StoreResult<()> {
        let Some(mut left) = self.deleted.left.try_lock() else { return Ok(()) };
        self.deleted.unwritten.store(0, Ordering::Release);
        self.write_to_files()?;
        let calls = self.deleted.calls_to_delete.load(Ordering::Acquire);
        let calls = if self.has_files_in_no_list() { calls.saturating_sub(1) } else { 0 };
        self.deleted.calls_to_delete.store(calls, Ordering::Release);
        for (space, keyspace) in self.keyspaces.iter().filter(|(space, _)| *space != Space::Marks) {
            let before = keyspace.disk_space();
            let may_be_merged = self.may_be_merged(keyspace, &self.deleted.pace());
            if is_worth_merging(*space, keyspace, &mut left, 0) && may_be_merged && has_room(before) {
                let begun = Instant::now();
                let merged = keyspace.major_compact();
                let took = begun.elapsed();
                let after = InFiles::of(keyspace);
                left.insert(*space, after.marks);
                let (table, lane, after) = (space.name(), self.lane, after.bytes);
                match merged {
                    Ok(()) => {
                        self.deleted.pace.lock().merged(before, took, self.deleted.opened.elapsed());
                        self.deleted.calls_to_delete.store(CALLS_TO_DELETE, Ordering::Release);
                        tracing::info!(%lane, table, before, after, ?took, "files with deleted rows are merged");
                    }
                    Err(error) => {
                        self.deleted.has_failed.store(true, Ordering::Release);
                        tracing::warn!(%lane, table, %error, "files with deleted rows cannot be merged");
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether few enough new files would pile up if all files of a table were merged.
    fn may_be_merged(&self, keyspace: &Keyspace, pace: &Pace) -> bool {
        let new_files = keyspace.tree.l0_run_count();
        new_files <= RUNS_MAX && keyspace.disk_space() <= pace.bytes_max(new_files, self.memtable_bytes)
    }

    /// Whether there are files that are in no list of files in force.
    fn has_files_in_no_list(&self) -> bool {
        let has_others = |(_, keyspace): &(Space, Keyspace)| {
            let files = std::fs::read_dir(versions::tables(keyspace.path())).map_or(0, Iterator::count);
            files > keyspace.tree.table_count()
        };
        self.keyspaces.iter().any(has_others)
    }

    /// Writes memtables to files while groups are committed. The marks of groups come last: see
    /// [`Tables::flush`].
    fn write_to_files(&self) -> StoreResult<()> {
        for begin in [Self::begin_flush, |tables: &Self| tables.marks().rotate_memtable().map(drop)] {
            {
                // A file must not be ahead of the journal.
                let mut held = self.hold();
                self.sync_held(&mut held)?;
                begin(self).map_err(sync_error)?;
            }
            self.wait_until_flushed().map_err(sync_error)?;
            self.replaced.look();
        }
        Ok(())
    }
}

fn is_worth_merging(space: Space, keyspace: &Keyspace, left: &mut BTreeMap<Space, u64>, unwritten: u64) -> bool {
    InFiles::of(keyspace).and_marks(unwritten).is_worth_merging(left.entry(space).or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_merged_when_a_third_of_them_are_new_marks() {
        let of = |marks, all| InFiles { marks, all, bytes: 1 << 20 };
        assert!(of(1_000, 3_000).is_worth_merging(&mut 0));
        assert!(!of(1_000, 3_001).is_worth_merging(&mut 0));
        assert!(!of(999, 999).is_worth_merging(&mut 0), "it is little");
        assert!(!of(1_000, 3_000).is_worth_merging(&mut 1), "it was left");
        assert!(of(2_000, 3_000).is_worth_merging(&mut 1_000));
        let mut left = 2_000;
        assert!(!of(500, 3_000).is_worth_merging(&mut left));
        assert!(of(1_500, 3_000).is_worth_merging(&mut left), "the engine merged the others");
    }
}
