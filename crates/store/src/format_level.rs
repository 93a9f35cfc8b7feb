//! Levels: which kinds and versions of values a store holds.
//!
//! A store records its level. A program reads every level up to its newest one, and writes only
//! what the store's level allows. So programs of two releases can work on one store, and the older
//! one can come back, until an administrator raises the level (`penates upgrade`). A program whose
//! newest level is lower than the store's refuses the store.
//!
//! Each engine writes the level as the number of its format, so older programs refuse it too.

use std::fmt;

use bytes::Bytes;

use crate::envelope;

/// A level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormatLevel(u32);

impl FormatLevel {
    /// Values are in the first form of [`envelope`], which states no kind. The formats
    /// `penates-embedded 6` and 5 on Cassandra.
    pub const FIRST: FormatLevel = FormatLevel(1);

    /// Values are in the second form of [`envelope`].
    pub const KINDS: FormatLevel = FormatLevel(2);

    /// The store is an archive: it may hold the values of versions, of fixity and of the change
    /// feed. No table is new.
    pub const ARCHIVE: FormatLevel = FormatLevel(3);

    /// The store has the lane and the table of records.
    pub const RECORDS: FormatLevel = FormatLevel(4);

    /// The store may hold how far webhooks are. No table is new.
    pub const WEBHOOKS: FormatLevel = FormatLevel(5);

    /// The store may hold tokens with scopes and an expiry. No table is new.
    pub const SCOPES: FormatLevel = FormatLevel(6);

    /// The store may hold events in its audit: changes, reads of resources, refusals. No table is
    /// new.
    pub const AUDIT_CHANGES: FormatLevel = FormatLevel(7);

    /// Tokens may be limited to some volumes and resources. It is the same level: no release had
    /// one without the other.
    pub const LIMITED_TOKENS: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// The change feed may name who made a change. It is the same level too.
    pub const ACTORS: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// The change feed may name the program with which a change was made. It is the same level too.
    pub const AGENTS: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// The store may hold transactions: staged operations, and heads that one holds. It is the level
    /// of the audit's events, which was not published without them. No table is new.
    pub const TRANSACTIONS: FormatLevel = FormatLevel(7);

    /// The store may hold a search index. No table is new. It is the level above, because neither
    /// was published before the other.
    pub const SEARCH: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// The store may hold marks on versions. No table is new. It is the same level, for the same
    /// reason.
    pub const VERSION_MARKS: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// The store may hold versions whose times clients state. No table is new. It is the same
    /// level, for the same reason.
    pub const RECEIVED_VERSIONS: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// The store may hold archival groups. No table is new. It is the same level, for the same
    /// reason.
    pub const GROUPS: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// The plans of selections may name the volume of missing pages once. No table is new. It is the
    /// same level, for the same reason.
    pub const GROUPED_PLANS: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// A store that takes changes may hold a reason for being read-only whose lease has ended. No
    /// value is new. It is the same level: all its programs know leases.
    pub const ENDED_REASONS: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// How far a receiver of events is may name several events that are left out. No table is new. It
    /// is the same level, for the same reason.
    pub const SKIPS: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// The newest level that this program knows.
    pub const NEWEST: FormatLevel = FormatLevel::AUDIT_CHANGES;

    /// The level with a number, counted from 1.
    pub const fn of_number(number: u32) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The level above.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// A value as a store at this level holds it, sealed for a place (empty: for none).
    pub fn value(self, place: &[u8], value: Bytes) -> Bytes {
        match self {
            FormatLevel::FIRST => envelope::in_first_form(place, &value).unwrap_or(value),
            _ => value,
        }
    }
}

impl fmt::Display for FormatLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
