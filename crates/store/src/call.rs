//! The parameters of each call of the store.

use std::time::Duration;

use tokio::time::Instant;

use crate::class::{Class, Durability};
use crate::error::{StoreError, StoreResult};
use crate::table::Table;

/// How current a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strength {
    /// The class's usual level.
    Usual,
    /// Never older than a finished write of the same row.
    Strong,
    /// Strong, and never older than a compare-and-write that was decided, even if its writer got no
    /// answer: the read completes compare-and-writes that are under way. No later serial read of
    /// the row is older than what such a read has shown.
    ///
    /// For [`Store::get`](crate::Store::get) and [`Store::get_many`](crate::Store::get_many); pages
    /// of scans are strong. It costs more than a strong read and slows writers of the same
    /// partition.
    Serial,
}

impl Durability {
    /// Refuses a write that wants this if an engine gives less.
    pub fn require(self, given: Durability) -> StoreResult<()> {
        if self <= given { Ok(()) } else { Err(StoreError::NotDurable { wanted: self, given }) }
    }
}

/// The moment by which a call must have ended: with an answer, a refusal or "unknown". It is an
/// instant of tokio's clock, which a test or the simulator can pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Instant);

impl Deadline {
    /// A deadline `duration` from now.
    pub fn within(duration: Duration) -> Self {
        Self(Instant::now() + duration)
    }

    /// The remaining time; zero if the deadline has passed.
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    pub fn passed(&self) -> bool {
        self.remaining().is_zero()
    }
}

/// Class, strength, deadline and durability of one call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The class of data.
    pub class: Class,
    /// How current a read must be.
    pub strength: Strength,
    /// When it must have ended.
    pub deadline: Deadline,
    /// Whether it writes a step of a removal (a mark, or a head that says so). When disk space runs
    /// low, such writes are refused later than other small writes, so that removals can free space.
    pub is_removal: bool,
    /// Whether it writes a part of something that was decided, and that cannot be given up any
    /// more, or large steps of a removal. When disk space runs low, such writes are refused as late
    /// as removals, however large they are: what was decided must not stay half done.
    pub is_owed: bool,
    /// What a write must survive, if its tables do not need more.
    pub durability: Durability,
    /// How long after its acknowledgement a write may take until it survives a power failure, if it
    /// does not have to survive one at once. Zero, the default, does not let an engine put a sync
    /// off that it would make at once. Engines that keep to it say so
    /// ([`crate::Capabilities::delays_syncs`]); others ignore it.
    pub sync_delay: Duration,
    /// Whether the reader reads everything, and each thing once (a check, a copy). An engine should
    /// not let it replace in its caches what others read.
    pub is_once: bool,
    /// Whether a write of plain rows counts by the clock of its process, so that the last one wins:
    ///
    /// - a removal reads nothing. It removes what was written before it;
    /// - a replacement compares a usual read, and is written as just after what it replaces. So any
    ///   other write of that row wins over it, even one that the read did not see;
    /// - the steps are puts, removals and replacements in one partition, and are one write.
    ///
    /// In an engine whose data belongs to one process the last one wins in any case.
    pub is_by_clock: bool,
    /// Whether the caller of a write has just read the rows that it writes, or knows that there are
    /// none. An engine that would read them beforehand, to have them in memory and to refuse a plain
    /// put of a guarded row, need not do so.
    pub has_read: bool,
}

impl Call {
    /// A call of the usual strength.
    pub fn new(class: Class, deadline: Deadline) -> Self {
        Self {
            class,
            strength: Strength::Usual,
            deadline,
            is_removal: false,
            is_owed: false,
            durability: Durability::Written,
            sync_delay: Duration::ZERO,
            is_once: false,
            is_by_clock: false,
            has_read: false,
        }
    }

    /// The same call, as a step of a removal.
    pub fn removing(self) -> Self {
        Self { is_removal: true, ..self }
    }

    /// The same call, as a part of what was decided, or as large steps of a removal.
    pub fn owed(self) -> Self {
        Self { is_owed: true, ..self }
    }

    /// The same call, by one who reads everything once.
    pub fn once(self) -> Self {
        Self { is_once: true, ..self }
    }

    /// The same call, whose writes count by the clock.
    pub fn by_clock(self) -> Self {
        Self { is_by_clock: true, ..self }
    }

    /// The same call, whose caller has just read the rows that it writes, or knows that there are none.
    pub fn having_read(self) -> Self {
        Self { has_read: true, ..self }
    }

    /// The same call, strong.
    pub fn strong(self) -> Self {
        Self { strength: Strength::Strong, ..self }
    }

    /// The same call, serial.
    pub fn serial(self) -> Self {
        Self { strength: Strength::Serial, ..self }
    }

    /// The same call, whose write must survive at least this.
    pub fn durable(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// The same call, whose write may survive a power failure only so much later.
    pub fn synced_within(self, sync_delay: Duration) -> Self {
        Self { sync_delay, ..self }
    }

    /// What a write of this call to a table must survive.
    pub fn wanted_of(&self, table: Table) -> Durability {
        self.durability.max(table.info().durability)
    }

    /// The same call for another class of data.
    pub fn of(self, class: Class) -> Self {
        Self { class, ..self }
    }
}
