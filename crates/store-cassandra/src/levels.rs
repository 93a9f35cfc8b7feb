//! How many replicas must answer, per class of data, for reads and for writes.

use std::fmt;

use scylla::statement::{Consistency, SerialConsistency};
use serde::{Deserialize, Serialize};
use store::{Class, Durability, Strength};

/// A consistency level of Cassandra, in settings written as in CQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Level {
    /// One replica.
    One,
    /// Two replicas.
    Two,
    /// Three replicas.
    Three,
    /// More than half of all replicas.
    Quorum,
    /// All replicas.
    All,
    /// More than half of the replicas in the local data center.
    LocalQuorum,
    /// More than half of the replicas in each data center.
    EachQuorum,
    /// One replica in the local data center.
    LocalOne,
}

impl Level {
    const ALL: [(Level, &'static str); 8] = [
        (Level::One, "ONE"),
        (Level::Two, "TWO"),
        (Level::Three, "THREE"),
        (Level::Quorum, "QUORUM"),
        (Level::All, "ALL"),
        (Level::LocalQuorum, "LOCAL_QUORUM"),
        (Level::EachQuorum, "EACH_QUORUM"),
        (Level::LocalOne, "LOCAL_ONE"),
    ];

    pub(crate) fn consistency(self) -> Consistency {
        match self {
            Level::One => Consistency::One,
            Level::Two => Consistency::Two,
            Level::Three => Consistency::Three,
            Level::Quorum => Consistency::Quorum,
            Level::All => Consistency::All,
            Level::LocalQuorum => Consistency::LocalQuorum,
            Level::EachQuorum => Consistency::EachQuorum,
            Level::LocalOne => Consistency::LocalOne,
        }
    }

    /// The smallest number of replicas at which this level can be met at all.
    pub(crate) fn replicas_min(self) -> usize {
        match self {
            Level::Two => 2,
            Level::Three => 3,
            _ => 1,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(level, _)| level == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// The replicas that decide lightweight transactions, in settings written as in CQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Serial {
    /// All: one order for all data centers, and a majority of all replicas must be up.
    #[default]
    Serial,
    /// Those of the local data center, which must be the only one where heads are written (their
    /// home).
    LocalSerial,
}

impl Serial {
    pub(crate) fn consistency(self) -> SerialConsistency {
        match self {
            Serial::Serial => SerialConsistency::Serial,
            Serial::LocalSerial => SerialConsistency::LocalSerial,
        }
    }

    /// The level of a read that sees the decisions of lightweight transactions.
    pub(crate) fn read(self) -> Consistency {
        match self {
            Serial::Serial => Consistency::Serial,
            Serial::LocalSerial => Consistency::LocalSerial,
        }
    }
}

/// The levels of one class of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassLevels {
    /// Of usual reads.
    pub read: Level,
    /// Of writes.
    pub write: Level,
}

impl ClassLevels {
    /// The same level for both.
    pub const fn both(level: Level) -> Self {
        Self { read: level, write: level }
    }
}

/// The levels of all classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Of [`Class::Description`].
    pub description: ClassLevels,
    /// Of [`Class::Content`].
    pub content: ClassLevels,
    /// Of [`Class::Record`].
    pub record: ClassLevels,
    /// Of [`Class::Audit`].
    pub audit: ClassLevels,
    /// Of lightweight transactions.
    pub serial: Serial,
}

impl Default for Levels {
    /// The levels that keep all promises with three replicas per data center.
    fn default() -> Self {
        let quorum = ClassLevels::both(Level::LocalQuorum);
        Self { description: quorum, content: quorum, record: quorum, audit: quorum, serial: Serial::Serial }
    }
}

/// The levels, and their effect in the given keyspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InForce {
    pub(crate) levels: Levels,
    pub(crate) copies: Copies,
}

/// The copies that a keyspace keeps of each row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies {
    /// In the local data center.
    pub(crate) local: usize,
    /// In all data centers.
    pub(crate) all: usize,
    /// The number of other data centers with copies.
    pub(crate) others: usize,
}

impl Copies {
    /// The least number of nodes that have a write at `level` once it is acknowledged.
    fn acknowledging(self, level: Level) -> usize {
        let quorum = |copies: usize| copies / 2 + 1;
        match level {
            Level::One | Level::LocalOne => 1,
            Level::Two => 2,
            Level::Three => 3,
            Level::Quorum => quorum(self.all),
            Level::All => self.all,
            Level::LocalQuorum => quorum(self.local),
            Level::EachQuorum => quorum(self.local) + self.others,
        }
    }
}

impl Levels {
    /// The levels of each class.
    pub(crate) fn classes(&self) -> [(Class, ClassLevels); 4] {
        [Class::Description, Class::Content, Class::Record, Class::Audit].map(|class| (class, self.of(class)))
    }

    fn of(&self, class: Class) -> ClassLevels {
        match class {
            Class::Description => self.description,
            Class::Content => self.content,
            Class::Record => self.record,
            Class::Audit => self.audit,
        }
    }
}

impl InForce {
    /// The level of a read.
    pub(crate) fn read(&self, class: Class, strength: Strength) -> Level {
        match strength {
            Strength::Usual => self.levels.of(class).read,
            Strength::Strong | Strength::Serial => self.strong(class),
        }
    }

    /// The level of a plain write.
    pub(crate) fn write(&self, class: Class) -> Level {
        self.levels.of(class).write
    }

    /// The replicas that decide lightweight transactions.
    pub(crate) fn serial(&self) -> Serial {
        self.levels.serial
    }

    /// Whether there are replicas in more than one data center.
    fn many_datacenters(&self) -> bool {
        self.copies.others > 0
    }

    /// What an acknowledged plain write survives. The engine does not know when a node syncs its
    /// commit log, so only a second node protects from a power failure.
    pub(crate) fn durability(&self, class: Class) -> Durability {
        self.durability_at(self.write(class))
    }

    /// What an acknowledged lightweight transaction survives.
    pub(crate) fn committed_durability(&self) -> Durability {
        self.durability_at(self.commit())
    }

    fn durability_at(&self, level: Level) -> Durability {
        if self.copies.acknowledging(level) > 1 { Durability::Replicated } else { Durability::Written }
    }

    /// The level at which a decided lightweight transaction must be stored before it is
    /// acknowledged. It is never less than a quorum. Where all data centers decide, it is a quorum
    /// in each of them, so that a strong read sees it.
    pub(crate) fn commit(&self) -> Level {
        match self.serial() {
            Serial::Serial if self.many_datacenters() => Level::EachQuorum,
            Serial::Serial | Serial::LocalSerial => Level::LocalQuorum,
        }
    }

    /// The level of a strong read: it overlaps every finished write of the class, and every head,
    /// in at least one replica.
    ///
    /// If heads have their home in this data center, strong reads of descriptions and records stay
    /// in it, so that it can continue alone. Rows that were written elsewhere may lag here.
    pub(crate) fn strong(&self, class: Class) -> Level {
        let at_home = self.serial() == Serial::LocalSerial && matches!(class, Class::Description | Class::Record);
        match self.levels.of(class).write {
            Level::One | Level::Two | Level::Three | Level::LocalOne => Level::All,
            // A head that a quorum of its home has need not be in a quorum of all replicas.
            Level::Quorum if self.many_datacenters() && self.serial() == Serial::LocalSerial => Level::EachQuorum,
            Level::Quorum => Level::Quorum,
            Level::LocalQuorum if self.many_datacenters() && !at_home => Level::EachQuorum,
            Level::LocalQuorum | Level::EachQuorum | Level::All => Level::LocalQuorum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a read overlaps a finished write, with `replicas` in each of `datacenters`; local
    /// levels use the same one if `at_home`.
    fn surely_meet(read: Level, write: Level, replicas: usize, datacenters: usize, at_home: bool) -> bool {
        let (quorum, all) = (replicas / 2 + 1, replicas * datacenters);
        let anywhere = |level| match level {
            Level::One | Level::LocalOne => 1,
            Level::Two => 2,
            Level::Three => 3,
            Level::Quorum => all / 2 + 1,
            Level::All => all,
            Level::LocalQuorum => quorum,
            Level::EachQuorum => quorum * datacenters,
        };
        // Two quorums of one data center share a replica.
        let in_each = |level| matches!(level, Level::EachQuorum | Level::All);
        let local = |level| level == Level::LocalQuorum;
        let in_one = in_each(read) && (local(write) || in_each(write)) || local(read) && in_each(write);
        anywhere(read) + anywhere(write) > all || in_one || at_home && local(read) && local(write)
    }

    #[test]
    fn a_strong_read_overlaps_every_finished_write_at_all_levels() {
        let all = Level::ALL.map(|(level, _)| level);
        for (write, serial) in all.into_iter().flat_map(|level| [(level, Serial::Serial), (level, Serial::LocalSerial)])
        {
            for (replicas, datacenters) in [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2), (3, 3)] {
                let class = ClassLevels { read: Level::One, write };
                let copies = Copies { local: replicas, all: replicas * datacenters, others: datacenters - 1 };
                let levels = Levels { description: class, content: class, serial, ..Levels::default() };
                let levels = InForce { levels, copies };
                let strong = levels.strong(Class::Content);
                let what = format!("after {write}, {serial:?}, {replicas} replicas in each of {datacenters}");
                assert!(surely_meet(strong, write, replicas, datacenters, false), "content at {strong} {what}");
                let (strong, at_home) = (levels.strong(Class::Description), serial == Serial::LocalSerial);
                assert!(surely_meet(strong, write, replicas, datacenters, at_home), "description at {strong} {what}");
                assert!(
                    surely_meet(strong, levels.commit(), replicas, datacenters, at_home),
                    "head at {strong} {what}"
                );
            }
        }
    }

    #[test]
    fn a_write_survives_the_loss_of_a_machine_if_two_have_acknowledged_it() {
        let given = |write, local, others| {
            let levels = Levels { audit: ClassLevels { read: Level::One, write }, ..Levels::default() };
            let in_force = InForce { levels, copies: Copies { local, all: local * (others + 1), others } };
            (in_force.durability(Class::Audit), in_force.committed_durability())
        };
        let (one, two) = (Durability::Written, Durability::Replicated);
        for (write, copies, others, expected) in [
            (Level::One, 3, 0, (one, two)),
            (Level::LocalOne, 3, 1, (one, two)),
            (Level::Two, 3, 0, (two, two)),
            (Level::LocalQuorum, 1, 0, (one, one)),
            (Level::LocalQuorum, 2, 0, (two, two)),
            (Level::LocalQuorum, 1, 1, (one, two)),
            (Level::Quorum, 1, 1, (two, two)),
            (Level::EachQuorum, 1, 1, (two, two)),
            (Level::All, 1, 0, (one, one)),
            (Level::All, 3, 0, (two, two)),
        ] {
            assert_eq!(given(write, copies, others), expected, "{write}, {copies} copies, {others} other data centers");
        }
    }
}
