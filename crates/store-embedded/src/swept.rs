//! How far sweeps have come, and what they found.

use bytes::Bytes;

/// Where the next sweep of contents continues. It is kept in memory: a server that starts begins
/// again.
#[derive(Default)]
pub(crate) struct SweepPosition {
    /// After this content; `None`: at the first.
    pub(crate) content: Option<Bytes>,
    /// At this folder of files.
    pub(crate) shard: u8,
}

/// The number of unknown files, by folder, as far as this process has looked.
pub(crate) struct UnknownFiles(pub(crate) [u64; 256]);

impl Default for UnknownFiles {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl UnknownFiles {
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().sum()
    }
}
