//! Merges files that hold mostly what was deleted.
//!
//! A deleted row leaves a mark. Its space comes back when the mark is merged into the file that has
//! the row, and a read passes over the mark until then. fjall merges files when there are many of
//! them, or when those of a level are large. Marks are small. So after most rows have expired, and
//! little is written, marks and rows would stay for long.

use fjall::{AbstractTree, Keyspace};

use super::Tables;
use crate::space::Space;

/// It is not worth the trouble for fewer marks.
const MARKS_MIN: u64 = 1_000;

/// Of so many rows and marks, one is a mark that came since the last merge. As each mark stands for
/// a row, half of the rows are deleted then. A merge writes no more rows than were deleted before.
const ONE_OF: u64 = 3;

/// Larger tables are not merged: nothing else merges files of the table meanwhile, and after twenty
/// new ones the engine delays writes.
const BYTES_MAX: u64 = 8 << 30;

/// What a table has in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// Whether a merge is worth the trouble. `left` are the marks that the last one has left.
    fn is_worth_merging(self, left: u64) -> bool {
        let new = self.marks.saturating_sub(left);
        new >= MARKS_MIN && new.saturating_mul(ONE_OF) >= self.all && self.bytes <= BYTES_MAX
    }
}

impl Tables {
    /// Whether [`Tables::merge_deleted`] would merge something, and does not do so already.
    pub(crate) fn has_much_deleted(&self) -> bool {
        let Some(left) = self.marks_left.try_lock() else { return false };
        let is_worth = |(space, keyspace): &(Space, Keyspace)| {
            InFiles::of(keyspace).is_worth_merging(left.get(space).copied().unwrap_or_default())
        };
        self.keyspaces.iter().any(is_worth)
    }

    /// Merges all files of each table that has much deleted in them, if `has_room` says that there
    /// is room for so many bytes. Takes about as long as it takes to read the files.
    ///
    /// A table whose files cannot be merged is left as it is. It is tried again when as much more
    /// has been deleted.
    pub(crate) fn merge_deleted(&self, has_room: impl Fn(u64) -> bool) {
        let Some(mut left) = self.marks_left.try_lock() else { return };
        for (space, keyspace) in &self.keyspaces {
            let before = InFiles::of(keyspace);
            if !before.is_worth_merging(left.get(space).copied().unwrap_or_default()) || !has_room(before.bytes) {
                continue;
            }
            let merged = keyspace.major_compact();
            let after = InFiles::of(keyspace);
            left.insert(*space, after.marks);
            let (table, lane) = (space.name(), self.lane);
            match merged {
                Ok(()) => tracing::info!(%lane, table, before.bytes, after.bytes, "files with deleted rows are merged"),
                Err(error) => tracing::warn!(%lane, table, %error, "files with deleted rows cannot be merged"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_merged_when_half_of_their_rows_are_deleted_and_not_again_before_as_many_are() {
        let of = |marks, all| InFiles { marks, all, bytes: 1 << 20 };
        assert!(of(1_000, 3_000).is_worth_merging(0));
        assert!(!of(1_000, 3_001).is_worth_merging(0));
        assert!(!of(999, 999).is_worth_merging(0), "it is little");
        assert!(!of(1_000, 3_000).is_worth_merging(1), "it was left");
        assert!(of(2_000, 3_000).is_worth_merging(1_000));
        assert!(!of(1_000, 1_000).is_worth_merging(2_000));
        assert!(InFiles { bytes: BYTES_MAX, ..of(1_000, 3_000) }.is_worth_merging(0));
        assert!(!InFiles { bytes: BYTES_MAX + 1, ..of(1_000, 3_000) }.is_worth_merging(0), "it is too large");
    }
}
