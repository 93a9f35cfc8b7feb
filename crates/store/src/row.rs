//! Rows, their keys, and scans.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::call::Class;
use crate::clock::UnixMillis;
use crate::random::{Random, SystemRandom};

/// A table: a name space for partitions. The set is closed, so that an engine can create all tables
/// beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Table {
    /// Objects: one partition per head, and others for its head log, directories and versions. Small
    /// rows that are looked up one by one.
    Objects,
    /// What objects are made of: packs of frames, and the other data of each member. Large rows that
    /// are read in sequence. If [`Table::Objects`] has a partition with the same key, its rows are
    /// put after the rows here and removed before them. So equal small rows mean equal packs, and a
    /// copy compares only the small rows.
    Packs,
    /// Containment marks, one partition per (container, incarnation, shard, epoch).
    Children,
    /// Selections: stored plans, one partition or more per plan.
    Selections,
    /// The audit, one partition per period and writer.
    Audit,
    /// Access tokens (hashes only).
    Tokens,
    /// Recorded work: objects to be collected, and jobs that any server can resume.
    Work,
    /// Headers and chunks of large contents, where the engine keeps them in rows.
    Contents,
    /// Marks on damaged rows of [`Table::Objects`], one partition per version. They have a table of
    /// their own because a mark must be readable and writable where the object's own rows are not.
    Damage,
    /// Pins: what selections keep from being collected, one partition per object. They are not in
    /// [`Table::Objects`] because a download writes them: see [`Lane`].
    Pins,
}

/// Tables that change together. A list of steps touches the tables of one lane only. Engines and
/// [`crate::limited::Limited`] refuse any other list as [`crate::StoreError::Invalid`] and apply
/// nothing. An engine may therefore give each lane a database of its own, and a failure in one lane
/// does not stop the writes of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// What is stored: objects, their containers, contents, damage marks and recorded work.
    Text,
    /// What serving writes: tokens, the audit, selections and pins. Reading goes on as long as
    /// these can be written.
    Service,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Lane; 2] = [Lane::Text, Lane::Service];

    /// The lane's name.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Text => "text",
            Lane::Service => "service",
        }
    }

    /// Its tables.
    pub fn tables(self) -> impl Iterator<Item = Table> {
        Table::ALL.into_iter().filter(move |table| table.lane() == self)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 10] = [
        Table::Objects,
        Table::Packs,
        Table::Children,
        Table::Selections,
        Table::Audit,
        Table::Tokens,
        Table::Work,
        Table::Contents,
        Table::Damage,
        Table::Pins,
    ];

    /// The lane it belongs to.
    pub fn lane(self) -> Lane {
        match self {
            Table::Objects | Table::Packs | Table::Children | Table::Work | Table::Contents | Table::Damage => {
                Lane::Text
            }
            Table::Selections | Table::Audit | Table::Tokens | Table::Pins => Lane::Service,
        }
    }

    /// The class of data of its rows. It holds for each row of a list, whatever the class of the
    /// call, so that a row is read at the level at which it was written.
    pub fn class(self) -> Class {
        match self {
            Table::Packs => Class::Content,
            Table::Audit => Class::Audit,
            Table::Objects
            | Table::Children
            | Table::Selections
            | Table::Tokens
            | Table::Work
            | Table::Contents
            | Table::Damage
            | Table::Pins => Class::Description,
        }
    }

    /// The table's name, as engines store it.
    pub fn name(self) -> &'static str {
        match self {
            Table::Objects => "objects",
            Table::Packs => "packs",
            Table::Children => "children",
            Table::Selections => "selections",
            Table::Audit => "audit",
            Table::Tokens => "tokens",
            Table::Work => "work",
            Table::Contents => "contents",
            Table::Damage => "damage",
            Table::Pins => "pins",
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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

/// An immutable row to put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRow {
    /// Its sort key.
    pub sort: Bytes,
    /// Its value.
    pub value: Bytes,
    /// When reads stop seeing it. The engine reclaims it later. `None`: never.
    pub expires_at: Option<UnixMillis>,
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
