//! Events, cursors, and why the feed cannot be read.

use std::fmt;

use bytes::Bytes;
use hathi::VolumeId;
use heads::announce::{Announcement, Change, ObjectKind};
use heads::{ObjectsError, ResourcePath, RevisionId, keys};
use serde::{Deserialize, Serialize};
use store::UnixMillis;
use thiserror::Error;

/// How far a reader has read: everything up to this position. It stays valid on every server, as
/// long as the feed keeps what comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cursor(pub(crate) RevisionId);

impl Cursor {
    /// Before all that the feed keeps.
    pub const BEGINNING: Self = Self(RevisionId::ZERO);

    /// Before everything that was announced at a time or later, by the clocks of the writers.
    /// [`Feed::since`](crate::Feed::since) has what a reader needs that follows from a time on.
    pub fn before(time: UnixMillis) -> Self {
        Self(RevisionId::first_at(time))
    }

    /// The cursor that `text` (32 hexadecimal digits) names.
    pub fn parse(text: &str) -> Option<Self> {
        RevisionId::parse(text).map(Self)
    }

    /// The time of its position.
    pub fn time(self) -> UnixMillis {
        self.0.time()
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A volume.
    Volume(VolumeId),
    /// A resource of the repository.
    Resource(ResourcePath),
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its position, as the cursor of a reader that has read it.
    pub cursor: Cursor,
    /// What happened.
    pub change: Change,
    /// The kind of object.
    pub kind: ObjectKind,
    /// The object.
    pub subject: Subject,
    /// The revision that was switched in.
    pub revision: RevisionId,
    /// When, by the writer's clock.
    pub at: UnixMillis,
    /// In whose name, if that was to be known.
    pub actor: Option<String>,
    /// With which program, as it names itself (`User-Agent`), if that was to be known.
    pub agent: Option<String>,
}

/// A version that was removed, or a received version that came or was removed. It is no event: only
/// a copy of the store has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedVersion {
    /// Its position, as the cursor of a reader that has read it.
    pub cursor: Cursor,
    /// The partition of its object.
    pub object: Bytes,
    /// The revision that it began with; of a received version, that of the object at the time.
    pub revision: RevisionId,
}

impl Event {
    /// The event of an announcement; `None` if its object is none that clients see.
    pub(crate) fn of(position: RevisionId, announced: Announcement) -> Option<Self> {
        let Announcement { change, kind, object, revision, at, actor, agent, .. } = announced;
        let volume = || keys::volume_of_partition(&object).map(Subject::Volume);
        let subject = keys::resource_of_partition(&object).map(Subject::Resource).or_else(volume)?;
        Some(Self { cursor: Cursor(position), change, kind, subject, revision, at, actor, agent })
    }
}

/// Why the feed cannot be read.
#[derive(Debug, Error)]
pub enum FeedError {
    /// Nothing is announced.
    #[error("the change feed is off: feed.keep is 0")]
    Off,
    /// The cursor is older than what is kept.
    #[error(
        "the change feed no longer has what comes after this cursor: it keeps changes for {kept_days} days. Read the \
         repository anew, and follow the feed from the time at which you began to"
    )]
    Dropped {
        /// How many days changes are kept, rounded down.
        kept_days: u64,
    },
    /// The store, or the kernel.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

impl From<store::StoreError> for FeedError {
    fn from(error: store::StoreError) -> Self {
        Self::Objects(error.into())
    }
}
