//! Names of pages, and records of entries.

use crate::entry::{EntryHeader, Sizes};
use crate::frame::{FRAME_END, stored_len};
use crate::{Level, Member, Sums};

/// Name of the entry that lists missing pages and volumes.
pub(crate) const ERRORS: &[u8] = b"ERROR.err";

/// The names of a group's pages, one at a time in a reused buffer.
#[derive(Clone)]
pub(crate) struct PageNames {
    name: Vec<u8>,
    digits_at: usize,
}

impl PageNames {
    const DIGITS: &str = "00000000";

    /// Names that have the number of the page in eight digits between `before` and `after`.
    pub(crate) fn new(before: &str, after: &str) -> Self {
        Self { name: [before, Self::DIGITS, after].concat().into_bytes(), digits_at: before.len() }
    }

    /// Length in bytes of each name.
    pub(crate) fn len(&self) -> usize {
        self.name.len()
    }

    /// The name of a page; its number is at most [`MAX_SEQ`](crate::archive::MAX_SEQ).
    pub(crate) fn of(&mut self, seq: u32) -> &[u8] {
        let mut rest = seq;
        for digit in self.name[self.digits_at..self.digits_at + Self::DIGITS.len()].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.name
    }
}

/// Length in bytes of a member within an entry, at a level whose length is known.
pub(crate) fn content_len(level: Level, member: &Member) -> u64 {
    contents_len(level, &Sums::of(member))
}

/// Length in bytes of some members within an entry.
pub(crate) fn contents_len(level: Level, sums: &Sums) -> u64 {
    if level == Level::Stored { sums.stored_bytes } else { sums.frame_bytes }
}

/// The entry of one member, its sizes in the local header.
pub(crate) fn member_entry(level: Level, utf8: bool, member: &Member) -> EntryHeader {
    joined_entry(level, utf8, &Sums::of(member), member.crc32)
}

/// The entry of some members joined, its sizes in the local header.
pub(crate) fn joined_entry(level: Level, utf8: bool, sums: &Sums, crc32: u32) -> EntryHeader {
    let compressed = contents_len(level, sums) + FRAME_END.len() as u64;
    EntryHeader { directory: false, utf8, size: sums.bytes, compressed, crc32, sizes: Sizes::Ahead }
}

/// The entry of `ERROR.err`, in stored blocks: the same bytes whatever compresses the rest.
pub(crate) fn errors_entry(text: &[u8]) -> EntryHeader {
    let (size, crc32) = (text.len() as u64, crc32fast::hash(text));
    let compressed = stored_len(size) + FRAME_END.len() as u64;
    EntryHeader { directory: false, utf8: false, size, compressed, crc32, sizes: Sizes::Ahead }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_names_have_eight_digits() {
        let mut names = PageNames::new("uc2.x/", ".txt");
        assert_eq!(names.of(12_345_678), b"uc2.x/12345678.txt");
        assert_eq!(names.of(9), b"uc2.x/00000009.txt");
        assert_eq!(names.len(), 18);
    }
}
