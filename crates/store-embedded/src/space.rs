//! The keyspaces of a lane's database.

use store::{Class, Lane, Table};

/// Packs are read in sequence: larger blocks cost a third less CPU when a volume is scanned.
const RUN_BLOCK_BYTES: u32 = 32 << 10;

/// A keyspace: a table's rows, or one of the engine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Space {
    /// The [`Mark`](crate::opening::record::Mark) of the last group, and the last
    /// [`Synced`](crate::opening::record::Synced), in a row each.
    Marks,
    /// A table's rows.
    Rows(Table),
    /// Rows by expiry: see [`crate::expiry`].
    Expiries,
}

impl Space {
    /// The keyspaces of a lane in the order in which they are made, which numbers them from 1. The
    /// marks' number is [`MARKS_KEYSPACE`](crate::opening::journal::MARKS_KEYSPACE).
    pub(crate) fn all(lane: Lane) -> impl Iterator<Item = Self> {
        [Self::Marks].into_iter().chain(lane.tables().map(Self::Rows)).chain([Self::Expiries])
    }

    /// The number of keyspaces of a lane's database, including fjall's own list of names, which has
    /// the number 0.
    pub(crate) fn count(lane: Lane) -> u64 {
        1 + Self::all(lane).count() as u64
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Marks => "marks",
            Self::Rows(table) => table.name(),
            Self::Expiries => "expiries",
        }
    }

    /// Bytes of its blocks; `of_rows` are those of all tables that are read row by row. Thousands
    /// of heads are in as many blocks, so small blocks keep each read short.
    pub(crate) fn block_bytes(self, of_rows: u32) -> u32 {
        match self {
            Self::Rows(table) if table.class() == Class::Content => RUN_BLOCK_BYTES,
            _ => of_rows,
        }
    }
}
