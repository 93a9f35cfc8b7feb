//! Samples of children, from which the size of a container is estimated.

use bytes::Bytes;
use store::{NewRow, ValueKind, envelope};

use crate::keys;
use crate::revision::RevisionId;

/// Bytes of a row besides its key and payload: the envelope, and what Cassandra writes for a row
/// and its cell.
pub const ROW_BYTES: usize = 20;

/// Bytes of a row with a value of so many bytes.
pub fn row_bytes(sort: &Bytes, value: usize) -> u64 {
    (sort.len() + value + ROW_BYTES) as u64
}

/// Selects the children that are samples.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// One of so many children is a sample.
    pub one_of: u32,
}

impl Sampling {
    /// Whether a child is a sample. This follows from its incarnation, so that it remains one
    /// wherever it is copied.
    pub fn includes(self, incarnation: RevisionId) -> bool {
        crc32fast::hash(&incarnation.0).is_multiple_of(self.one_of.max(1))
    }

    /// The row that records the bytes of a child's rows, if the child is a sample: its two marks,
    /// and the change record.
    pub fn row(self, name: &str, incarnation: RevisionId, note: &Bytes) -> Option<NewRow> {
        let bytes = u32::try_from(sampled_bytes(name.len()) + note.len()).unwrap_or(u32::MAX);
        self.includes(incarnation).then(|| {
            NewRow::new(keys::sample(incarnation), envelope::seal(ValueKind::ChildSample, &bytes.to_be_bytes()))
        })
    }
}

/// Bytes of a key that consists of a kind and a revision.
const REVISION_KEY: usize = 17;

/// Bytes of a mark of a child whose name has so many bytes.
const fn mark_bytes(name: usize) -> usize {
    name + REVISION_KEY + 1 + ROW_BYTES
}

/// Bytes that a sample counts for a child whose name has so many bytes: its two marks, and the
/// change record.
pub const fn sampled_bytes(name: usize) -> usize {
    2 * mark_bytes(name) + REVISION_KEY + ROW_BYTES
}

/// Bytes of a child's rows once it is gone: all four marks, the last with a revision, and two
/// change records.
pub const fn past_bytes(name: usize) -> usize {
    4 * mark_bytes(name) + size_of::<RevisionId>() + 2 * (REVISION_KEY + ROW_BYTES)
}
