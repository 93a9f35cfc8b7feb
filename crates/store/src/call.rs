//! What travels with each call of the store.

use std::time::Duration;

use tokio::time::Instant;

/// The class of data a call touches. An engine picks consistency and durability by it, apart for reads and for writes. Of rows the
/// table decides ([`crate::Table::class`]), since one list may hold rows of several classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Heads, logs, directories, containment, selections: what says what is there.
    Description,
    /// Packs and content streams: the bytes themselves.
    Content,
    /// Expiring attribute records.
    Record,
    /// Who asked for what.
    Audit,
}

/// How sure a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strength {
    /// The class's usual level.
    Usual,
    /// Never older than a finished write of the same row.
    Strong,
    /// Strong, and never older than a compare-and-write that was decided, whether or not its writer was told: it finishes what is under
    /// way. What such a read of a guarded row has shown, with all rows that appeared with it and before it, every later serial read
    /// of a row of the same partition finds. So who does not know what came of a compare-and-write reads the guarded row first, and
    /// what appeared with its successor afterwards.
    ///
    /// For [`Store::get`](crate::Store::get); pages of scans are strong. It costs more than a strong read, and gets in the way of
    /// writers of the same partition.
    Serial,
}

/// The moment by which a call must have ended, with an answer, a refusal or "unknown". It is one of tokio's time, which stands still
/// where a test or the simulator pauses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Instant);

impl Deadline {
    /// A deadline `duration` from now.
    pub fn within(duration: Duration) -> Self {
        Self(Instant::now() + duration)
    }

    /// What is left; zero if it has passed.
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    pub fn passed(&self) -> bool {
        self.remaining().is_zero()
    }
}

/// Class, strength and deadline of one call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// What kind of data.
    pub class: Class,
    /// How sure.
    pub strength: Strength,
    /// Until when.
    pub deadline: Deadline,
    /// Whether what it writes is a step of a removal (a mark, a head that says so): where room grows scarce it is refused later than other
    /// small writes, so that room can come back.
    pub is_removal: bool,
}

impl Call {
    /// A call of the usual strength.
    pub fn new(class: Class, deadline: Deadline) -> Self {
        Self { class, strength: Strength::Usual, deadline, is_removal: false }
    }

    /// The same call, as a step of a removal.
    pub fn removing(self) -> Self {
        Self { is_removal: true, ..self }
    }

    /// The same call, strong.
    pub fn strong(self) -> Self {
        Self { strength: Strength::Strong, ..self }
    }

    /// The same call, serial.
    pub fn serial(self) -> Self {
        Self { strength: Strength::Serial, ..self }
    }

    /// The same call for another class of data.
    pub fn of(self, class: Class) -> Self {
        Self { class, ..self }
    }
}
