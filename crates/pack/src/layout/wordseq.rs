//! The layout `wordseq`: one entry with all pages of all groups.

use super::{Arrangement, Entries};

/// [`Layout::WordSeq`](super::Layout::WordSeq).
pub(super) struct WordSequence;

impl Arrangement for WordSequence {
    fn name(&self) -> &'static str {
        "wordseq"
    }

    fn version(&self) -> u8 {
        1
    }

    fn entries(&self) -> Entries {
        Entries::One("wordseq.txt")
    }
}
