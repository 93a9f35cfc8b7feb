//! Classes of data, and what a write of it survives.

use std::fmt;

/// The class of data that a call touches. An engine chooses the consistency of reads and of writes
/// by it. For rows the table decides ([`crate::Table::class`]), since one list may hold rows of
/// several classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Heads, logs, directories, containment, selections: rows that say what exists.
    Description,
    /// Packs and content streams: the bytes themselves.
    Content,
    /// Expiring attribute records.
    Record,
    /// Audit entries: who requested what.
    Audit,
}

/// What an acknowledged write survives. Each level includes those before it.
///
/// A table states the least that its writes need ([`crate::TableInfo::durability`]), and a call may
/// state more ([`crate::Call::durable`]). An engine may give more than is wanted. If it cannot promise as
/// much, it refuses with [`crate::StoreError::NotDurable`] and applies nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Durability {
    /// The end of the process that wrote it, at any moment (`kill -9`).
    Written,
    /// A power failure of one machine that stores it.
    Synced,
    /// The loss of one machine that stores it, with its disks.
    Replicated,
}

impl Durability {
    /// All levels, from the least to the greatest.
    pub const ALL: [Durability; 3] = [Durability::Written, Durability::Synced, Durability::Replicated];
}

impl fmt::Display for Durability {
    /// Names what is survived.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Written => "the end of its process",
            Durability::Synced => "a power failure",
            Durability::Replicated => "the loss of a machine",
        })
    }
}
