//! The queues of recorded work, by name. `queue.rs` says how one works.

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Volumes of which a revision left rows to collect, or may have left some.
    Collecting,
    /// Resources of which a version was superseded.
    Superseded,
    /// Containers that are being deleted, with their contents.
    Deleting,
    /// Deleted containers whose children's marks are to be dropped.
    Emptying,
    /// Containers that have to get more shards.
    Growing,
    /// Containers that have outgrown shards, which are to be dropped.
    Outgrown,
    /// Transactions that expire, are to be carried out, or are to be forgotten.
    Transactions,
}

impl Queue {
    /// All queues.
    pub const ALL: [Self; 7] = [
        Self::Collecting,
        Self::Superseded,
        Self::Deleting,
        Self::Emptying,
        Self::Growing,
        Self::Outgrown,
        Self::Transactions,
    ];

    /// Its name in keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Collecting => "collecting",
            Self::Superseded => "superseded",
            Self::Deleting => "deleting",
            Self::Emptying => "emptying",
            Self::Growing => "growing",
            Self::Outgrown => "outgrown",
            Self::Transactions => "transactions",
        }
    }

    /// The number of partitions of each of its buckets.
    pub fn shards(self) -> u8 {
        match self {
            Self::Collecting | Self::Superseded => 16,
            Self::Deleting | Self::Emptying | Self::Transactions => 4,
            // Each record is about a container with some million children.
            Self::Growing | Self::Outgrown => 1,
        }
    }
}
