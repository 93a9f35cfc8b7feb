//! The kinds of stored values.

use std::fmt;

/// Defines [`ValueKind`] with its number and name.
macro_rules! kinds {
    ($($(#[$comment:meta])* $kind:ident = $number:literal $name:literal,)*) => {
        /// What a stored value is. Each value carries the number of its kind in its envelope. A
        /// number is never changed or used again, even if nothing of its kind is written any more.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum ValueKind {
            $($(#[$comment])* $kind = $number,)*
        }

        impl ValueKind {
            /// All kinds.
            pub const ALL: &[ValueKind] = &[$(ValueKind::$kind,)*];

            /// Its number.
            pub fn number(self) -> u8 {
                self as u8
            }

            /// The kind with a number.
            pub fn of_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(ValueKind::$kind),)*
                    _ => None,
                }
            }

            /// Its name in messages.
            pub fn name(self) -> &'static str {
                match self {
                    $(ValueKind::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// Why the store is read-only.
    ReadOnly = 1 "read-only reason",
    /// The state of a large content.
    ContentHeader = 2 "content header",
    /// Checksums of the blocks of a content's file.
    ContentSums = 3 "content checksums",
    /// A chunk of a content.
    ContentChunk = 4 "content chunk",
    /// An access token.
    Token = 5 "token",
    /// A head, or an entry of a head log.
    Head = 16 "head",
    /// An entry in the list of a volume's generations.
    Generation = 17 "generation",
    /// A segment of a volume's directory.
    Directory = 18 "directory segment",
    /// A segment with what is known of pages besides their text.
    Fixity = 19 "fixity segment",
    /// Frames.
    Pack = 20 "pack",
    /// A mark of a child of a container.
    ChildMark = 21 "child mark",
    /// A change of a shard of a container.
    ChildChange = 22 "change of children",
    /// The bytes that a child's rows take.
    ChildSample = 23 "sample of children",
    /// An entry in the list of partitions with past members.
    PastIndex = 24 "list of past members",
    /// A piece of a description.
    Description = 25 "description",
    /// The few bytes of a resource.
    SmallContent = 26 "small content",
    /// The record that an object's head may name a content.
    Keeper = 27 "owner of a content",
    /// The record of an inbound link, or of a bucket of such records.
    Backlink = 28 "backlink",
    /// A mark on damage.
    DamageMark = 29 "damage mark",
    /// What a selection protects of a volume.
    Pin = 30 "pin",
    /// The description of a selection.
    Selection = 31 "selection",
    /// A chunk of a selection's plan.
    PlanChunk = 32 "chunk of a plan",
    /// A selection in the list of its owner.
    OwnedSelection = 33 "selection of an owner",
    /// That all rows of a selection are written.
    SelectionComplete = 34 "end of a selection's rows",
    /// When a selection was ended early.
    SelectionEnded = 35 "early end of a selection",
    /// That a selection was swept.
    SelectionSwept = 36 "swept selection",
    /// A record of the audit.
    Audit = 37 "audit record",
    /// The record that something of a volume may have to be collected.
    VolumeWork = 38 "work on a volume",
    /// The record that a version of a resource was superseded.
    SupersededWork = 39 "superseded version",
    /// The record that a container is to grow.
    GrowingWork = 40 "growing container",
    /// The record that a container's earlier shards are to be dropped.
    OutgrownWork = 41 "outgrown shards",
    /// The record that the marks of a deleted container are to be dropped.
    EmptyingWork = 42 "emptying of a container",
    /// How many partitions of a deleted container are empty.
    Emptied = 43 "emptied partitions",
    /// The record that a container is being deleted.
    DeletionWork = 44 "deletion of a container",
    /// The record that a partition of marks is to be dropped.
    DroppingWork = 45 "dropping of marks",
    /// Up to where a queue of work is empty.
    LowWater = 46 "low-water mark",
    /// A change in the feed: that an object's head was about to be switched.
    Announcement = 47 "announced change",
    /// That a bucket of the feed has changes.
    FeedBucket = 48 "bucket of the feed",
    /// A pass of the fixity auditor over everything.
    FixityPass = 49 "fixity pass",
    /// What a server is checking.
    FixityReader = 50 "fixity reader",
    /// What a check found.
    FixityFinding = 51 "fixity finding",
    /// A record.
    Record = 52 "record",
    /// How far a webhook is.
    Webhook = 60 "webhook",
    /// An event in the audit: a change, a read of a resource, refusals.
    AuditEvent = 61 "audit event",
    /// The state of the search index.
    SearchState = 62 "state of the search index",
    /// What can be searched for of a path.
    SearchDocument = 63 "document of the search index",
    /// A path in a sorted list of the search index.
    SearchEntry = 64 "entry of the search index",
    /// The key with which places in results of searches are sealed.
    SearchCursorKey = 65 "key of the search index",
    /// A transaction.
    Transaction = 70 "transaction",
    /// What a transaction makes of a resource.
    StagedOperation = 71 "staged operation",
    /// A piece of a description in a transaction.
    StagedDescription = 72 "staged description",
    /// The few bytes of a resource in a transaction.
    StagedContent = 73 "staged content",
    /// The record that a transaction is to be ended.
    TransactionWork = 74 "work on a transaction",
    /// That a transaction was about to create a container.
    MadeContainer = 75 "container of a transaction",
    /// A mark on a version: that a client asked for it, or that it was removed.
    VersionMark = 76 "mark on a version",
    /// The versions of a resource whose times clients stated.
    ReceivedVersions = 77 "list of received versions",
    /// The state of a version whose time a client stated.
    ReceivedVersion = 78 "received version",
    /// A value of a test.
    Trial = 255 "trial",
}

impl fmt::Display for ValueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of this list is a change of the stored format.
    #[test]
    fn kinds_keep_their_numbers() {
        let numbers: Vec<u8> = ValueKind::ALL.iter().map(|kind| kind.number()).collect();
        assert_eq!(numbers, (1..=5).chain(16..=52).chain(60..=65).chain(70..=78).chain([255]).collect::<Vec<u8>>());
        let digest = ValueKind::ALL.iter().fold(crc32fast::Hasher::new(), |mut hasher, kind| {
            hasher.update(format!("{kind:?}={}\n", kind.number()).as_bytes());
            hasher
        });
        assert_eq!(digest.finalize(), 953_348_844, "append kinds, and change none");
        assert!(ValueKind::ALL.iter().all(|kind| ValueKind::of_number(kind.number()) == Some(*kind)));
        assert_eq!((ValueKind::of_number(0), ValueKind::of_number(6)), (None, None));
    }
}
