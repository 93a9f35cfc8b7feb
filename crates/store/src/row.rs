//! Rows, their keys, and scans.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::clock::UnixMillis;
use crate::random::{Random, SystemRandom};

/// The value that a compare-and-write compares: unique, and changed by every write of a guarded
/// row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp(pub [u8; 16]);

impl Stamp {
    /// A fresh random stamp.
    pub fn fresh() -> Self {
        Self::drawn(&SystemRandom)
    }

    /// A fresh stamp, drawn from `random`.
    pub fn drawn(random: &dyn Random) -> Self {
        Self(random.bytes())
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Stored beside the value of a row that only compare-and-write writes (a head).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// Compared by [`crate::Step::CompareAndWrite`].
    pub stamp: Stamp,
    /// At most 64 bytes that [`crate::Condition::Tag`] compares. The domain defines them: state,
    /// incarnation and so on.
    pub tag: Bytes,
}

/// A row, as read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its sort key.
    pub sort: Bytes,
    /// Its value (sealed by [`crate::envelope`], above the engines).
    pub value: Bytes,
    /// Its guard, if it was written by compare-and-write.
    pub guard: Option<Guard>,
    /// When reads stop seeing it; `None`: never. Guarded rows never expire.
    pub expires_at: Option<UnixMillis>,
}

/// A plain row to put. What becomes of a row that is there already follows from the table: see
/// [`crate::PlainRows`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRow {
    /// Its sort key.
    pub sort: Bytes,
    /// Its value.
    pub value: Bytes,
    /// When reads stop seeing it. The engine reclaims it later. `None`: never, which is the only
    /// choice in most tables ([`crate::TableInfo::may_expire`]).
    pub expires_at: Option<UnixMillis>,
}

/// A plain row without its key: what [`crate::Step::Replace`] expects, and what it puts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainValue {
    /// The value.
    pub value: Bytes,
    /// When reads stop seeing the row; `None`: never.
    pub expires_at: Option<UnixMillis>,
}

impl PlainValue {
    /// What a row holds that was read.
    pub fn of(row: &Row) -> Self {
        Self { value: row.value.clone(), expires_at: row.expires_at }
    }
}

impl NewRow {
    /// A row that does not expire.
    pub fn new(sort: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { sort: sort.into(), value: value.into(), expires_at: None }
    }
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// From the smallest sort key up.
    Forward,
    /// From the greatest sort key down.
    Backward,
}

/// A range of one partition that is read page by page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scan {
    /// The first sort key (inclusive), in byte order, whatever the direction.
    pub from: Bytes,
    /// The sort key before which the range ends (exclusive); `None`: the end of the partition.
    pub to: Option<Bytes>,
    /// The end at which the scan begins.
    pub direction: Direction,
    /// A page ends with the row that reaches this number of bytes of keys and values. It holds at
    /// least one row if there is one.
    pub max_bytes: usize,
}

impl Scan {
    /// An engine may answer a page of at most so many bytes at once, without another thread. Ask
    /// for so many first where few rows are expected.
    pub const FEW_BYTES: usize = 4 << 10;

    /// All rows whose sort key begins with `prefix`, forward, in pages of `max_bytes`.
    pub fn prefix(prefix: impl Into<Bytes>, max_bytes: usize) -> Self {
        let from = prefix.into();
        let to = prefix_end(&from);
        Self { from, to, direction: Direction::Forward, max_bytes }
    }

    /// The rest of this range after a page that returned `next`; `None` if that page was the last.
    pub fn resumed(&self, next: Option<Bytes>) -> Option<Self> {
        let next = next?;
        Some(match self.direction {
            Direction::Forward => Self { from: next, ..self.clone() },
            Direction::Backward => Self { to: Some(next), ..self.clone() },
        })
    }
}

/// The smallest key greater than all keys that begin with `prefix`; `None` if there is none.
pub fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

/// A page of a scan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rows {
    /// The rows, in the scan's direction.
    pub rows: Vec<Row>,
    /// Where to continue (see [`Scan::resumed`]); `None`: nothing is left in the range.
    pub next: Option<Bytes>,
}
