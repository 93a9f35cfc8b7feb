//! The tables, each described by data: engines, wrappers, copying and the simulator read the
//! description ([`TableInfo`]) and know no table by name, except where they store one in a way of
//! its own.
//!
//! To add a table, add a description below. An engine with options per table does not compile
//! until it has some for the new one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::class::{Class, Durability};

/// The description of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its name, as engines store it.
    pub name: &'static str,
    /// The lane it belongs to.
    pub lane: Lane,
    /// The class of data of its rows. It holds for each row of a list, whatever the class of the
    /// call, so that a row is read at the level at which it was written.
    pub class: Class,
    /// What a put does to a plain row that is there already.
    pub plain_rows: PlainRows,
    /// Whether its rows may have an expiry. [`crate::limited::Limited`] refuses one elsewhere.
    pub may_expire: bool,
    /// The least that its writes must survive, whatever their calls state.
    pub durability: Durability,
}

/// What a put does to a plain row that is there already, with other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlainRows {
    /// Callers write a row once, and put it again only as it is. No engine has to compare, so none
    /// refuses other bytes: reads then return one of the two rows, whole. An engine may keep
    /// either, and a copy need not look at rows that are there. The simulator and the tests of the
    /// domain fail if a row is put with other bytes.
    WrittenOnce,
    /// The put row replaces the one that is there, value and expiry. If several processes put a
    /// row at the same key, an engine may go by their clocks.
    Replaced,
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
    /// Records. They change all the time, and must not wait behind imports of megabytes.
    Records,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Lane; 3] = [Lane::Text, Lane::Service, Lane::Records];

    /// The lane's name.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Text => "text",
            Lane::Service => "service",
            Lane::Records => "records",
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

/// Defines [`Table`] from the descriptions of the tables, so that none can be without one.
macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident = $info:expr;)*) => {
        /// A table: a name space for partitions. The set is closed, so that an engine can create
        /// all tables beforehand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Table {
            $($(#[$doc])* $table,)*
        }

        impl Table {
            /// All tables.
            pub const ALL: [Table; [$(Table::$table),*].len()] = [$(Table::$table),*];

            /// Its description.
            pub const fn info(self) -> &'static TableInfo {
                match self {
                    $(Table::$table => const { &$info },)*
                }
            }
        }
    };
}

/// What most tables are.
const USUAL: TableInfo = TableInfo {
    name: "",
    lane: Lane::Text,
    class: Class::Description,
    plain_rows: PlainRows::WrittenOnce,
    may_expire: false,
    // No more, because a cluster may keep one copy, and its nodes choose when they sync.
    durability: Durability::Written,
};

// The order is part of the stored format of the embedded engine: it numbers the tables of a lane.
//
tables! {
    /// Objects: one partition per head, and others for its head log, directories and versions.
    /// Small rows that are looked up one by one.
    Objects = TableInfo { name: "objects", ..USUAL };
    /// What objects are made of: packs of frames, and the other data of each member. Large rows
    /// that are read in sequence. If [`Table::Objects`] has a partition with the same key, its rows
    /// are put after the rows here and removed before them. So equal small rows mean equal packs,
    /// unless a small row arrives late. A copy compares the packs only once, at its end.
    Packs = TableInfo { name: "packs", class: Class::Content, ..USUAL };
    /// Containment marks, one partition per (container, incarnation, shard, epoch). Marks of past
    /// members expire if the history of a container is kept for a time.
    Children = TableInfo { name: "children", may_expire: true, ..USUAL };
    /// Selections: stored plans, one partition or more per plan. The time of its end is replaced
    /// where several requests end a selection.
    Selections = TableInfo {
        name: "selections",
        lane: Lane::Service,
        plain_rows: PlainRows::Replaced,
        may_expire: true,
        ..USUAL
    };
    /// The audit, one partition per period and writer. A page of records is replaced by a fuller
    /// one.
    Audit = TableInfo {
        name: "audit",
        lane: Lane::Service,
        class: Class::Audit,
        plain_rows: PlainRows::Replaced,
        ..USUAL
    };
    /// Access tokens (hashes only).
    Tokens = TableInfo { name: "tokens", lane: Lane::Service, ..USUAL };
    /// Recorded work: objects to be collected, and jobs that any server can resume. Positions and
    /// reasons are replaced.
    Work = TableInfo { name: "work", plain_rows: PlainRows::Replaced, ..USUAL };
    /// Headers and chunks of large contents, where the engine keeps them in rows.
    Contents = TableInfo { name: "contents", ..USUAL };
    /// Marks on damaged rows of [`Table::Objects`], one partition per version. They have a table of
    /// their own because a mark must be readable and writable where the object's own rows are not.
    Damage = TableInfo { name: "damage", ..USUAL };
    /// Pins: what selections keep from being collected, one partition per object. They are not in
    /// [`Table::Objects`] because a download writes them: see [`Lane`].
    Pins = TableInfo { name: "pins", lane: Lane::Service, ..USUAL };
    /// Records, one partition and row per record.
    Records = TableInfo {
        name: "records",
        lane: Lane::Records,
        class: Class::Record,
        plain_rows: PlainRows::Replaced,
        may_expire: true,
        ..USUAL
    };
}

impl Table {
    /// The lane it belongs to.
    pub fn lane(self) -> Lane {
        self.info().lane
    }

    /// The class of data of its rows: see [`TableInfo::class`].
    pub fn class(self) -> Class {
        self.info().class
    }

    /// The table's name, as engines store it.
    pub fn name(self) -> &'static str {
        self.info().name
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
