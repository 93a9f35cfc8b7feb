//! Encodes directories and fixity. A directory has, for each page in METS order, what a plan, a
//! range or a central directory needs. Its entries have a fixed size, so that a page is found by
//! its index. Fixity is what a reader of one page needs in addition.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use heads::volume_body::Entry;
use heads::volume_body::FramePlace;
use pack::Member;
use serde::{Deserialize, Serialize};

/// Pages in one directory segment.
pub const SEGMENT_PAGES: u32 = 256;

/// Pages in one fixity segment: fewer, because names and labels are as long as METS makes them.
pub const FIXITY_SEGMENT_PAGES: u32 = 64;

/// The most bytes of the file name, label and features of one page together, so that a fixity
/// segment fits a value.
pub const FIXITY_TEXT_BYTES_MAX: usize = 800;

/// Bytes of one encoded entry.
pub const ENTRY_BYTES: usize = 24;

/// The most bytes of the directory rows for that many pages, with their envelopes and keys.
pub fn rows_bytes_max(pages: u32) -> usize {
    pages as usize * ENTRY_BYTES + pages.div_ceil(SEGMENT_PAGES) as usize * 64
}

/// Encodes a segment.
pub fn encode(entries: &[Entry]) -> Bytes {
    let mut encoded = BytesMut::with_capacity(entries.len() * ENTRY_BYTES);
    for entry in entries {
        encoded.put_u32(entry.seq);
        encoded.put_u32(entry.member.size);
        encoded.put_u32(entry.member.frame_len);
        encoded.put_u32(entry.member.crc32);
        encoded.put_u32(entry.place.pack);
        encoded.put_u32(entry.place.offset);
    }
    encoded.freeze()
}

/// Decodes a segment; `None` if it is not one.
pub fn decode(encoded: &[u8]) -> Option<Vec<Entry>> {
    let (entries, []) = encoded.as_chunks::<ENTRY_BYTES>() else { return None };
    let entry = |bytes: &[u8; ENTRY_BYTES]| {
        let (numbers, _) = bytes.as_chunks::<4>();
        let number = |index: usize| u32::from_be_bytes(numbers[index]);
        Entry {
            seq: number(0),
            member: Member { size: number(1), frame_len: number(2), crc32: number(3) },
            place: FramePlace { pack: number(4), offset: number(5) },
        }
    };
    Some(entries.iter().map(entry).collect())
}

/// The stored facts of a page besides its text, in fixity segments of [`FIXITY_SEGMENT_PAGES`]
/// pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageFixity {
    /// The page's file name in the source.
    pub file_name: String,
    /// `ORDERLABEL` of its METS div.
    pub label: Option<String>,
    /// `LABEL` of its METS div, split at commas.
    pub features: Vec<String>,
    /// MD5 of the text, as METS gives it.
    pub md5: [u8; 16],
    /// SHA-256 of the text.
    pub sha256: [u8; 32],
    /// SHA-256 of the gzip form (header, frame, end, trailer), for `Repr-Digest` of
    /// `Content-Encoding: gzip`.
    pub gzip_sha256: [u8; 32],
}

/// Bytes of the three digests at the end of a [`PageFixity`].
const DIGESTS_BYTES: usize = 16 + 32 + 32;

impl PageFixity {
    /// The bytes that it takes in its segment, without the lengths of its texts.
    pub fn stored_bytes(&self) -> u64 {
        let texts = self.features.iter().map(String::len).sum::<usize>() + self.label.as_ref().map_or(0, String::len);
        (self.file_name.len() + texts + DIGESTS_BYTES) as u64
    }
}

/// Decodes the fixity of some pages of a segment, which is a `Vec<PageFixity>` in postcard's
/// format. The range is cut at the segment's end. Earlier pages are skipped, because a reader
/// usually wants one of 64.
pub fn decode_fixity(encoded: &[u8], pages: Range<u32>) -> postcard::Result<Vec<PageFixity>> {
    let (count, mut rest): (u32, _) = postcard::take_from_bytes(encoded)?;
    for _ in 0..pages.start.min(count) {
        // The texts before the digests. Nothing is copied out of them.
        let (_, digests): ((&str, Option<&str>, Vec<&str>), _) = postcard::take_from_bytes(rest)?;
        rest = digests.get(DIGESTS_BYTES..).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
    }
    let wanted = pages.start..pages.end.min(count);
    let mut fixity = Vec::with_capacity(wanted.len());
    for _ in wanted {
        let (page, later) = postcard::take_from_bytes(rest)?;
        fixity.push(page);
        rest = later;
    }
    // Where the last page was read, nothing may follow it.
    match pages.end >= count && !rest.is_empty() {
        true => Err(postcard::Error::DeserializeBadEncoding),
        false => Ok(fixity),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_segment_reads_back_as_it_was_written() {
        let entry = |n: u32| Entry {
            seq: n,
            member: Member { size: n * 10, frame_len: n * 5, crc32: !n },
            place: FramePlace { pack: n / 3, offset: n * 7 },
        };
        let entries: Vec<_> = (1..=SEGMENT_PAGES).map(entry).collect();
        let encoded = encode(&entries);
        assert_eq!(decode(&encoded).unwrap(), entries);
        assert_eq!(decode(&encoded[1..]), None, "a torn segment is not taken for a shorter one");
    }

    #[test]
    fn fixity_of_some_pages_is_what_decoding_all_of_it_finds() {
        let page = |n: u8| PageFixity {
            file_name: format!("{n:08}.txt"),
            label: n.is_multiple_of(2).then(|| "ä".repeat(usize::from(n))),
            features: vec!["CHAPTER_START".to_owned(); usize::from(n % 3)],
            md5: [n; 16],
            sha256: [n + 1; 32],
            gzip_sha256: [n + 2; 32],
        };
        let all: Vec<_> = (0..64).map(page).collect();
        let encoded = postcard::to_allocvec(&all).unwrap();
        for from in 0..=64 {
            for to in [from, from + 1, 64, 70] {
                let expected = &all[from..to.min(64).max(from)];
                assert_eq!(decode_fixity(&encoded, from as u32..to as u32).unwrap(), expected, "{from}..{to}");
            }
        }
        for len in 0..encoded.len() {
            assert!(decode_fixity(&encoded[..len], 0..64).is_err(), "cut at {len}");
        }
    }
}
