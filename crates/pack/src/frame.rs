//! Frames: a text as raw DEFLATE (RFC 1951) without a final block, ending on a byte boundary (a
//! sync flush).
//!
//! Frames can be concatenated. The two bytes [`FRAME_END`] after the last one complete the DEFLATE
//! stream. No frame refers back into the one before it, because each is compressed with an empty
//! window. An empty text is an empty frame.

use crate::Member;
use bytes::Bytes;

/// An empty final block with fixed codes (RFC 1951, 3.2.6). It completes a DEFLATE stream of
/// frames.
pub const FRAME_END: [u8; 2] = [0x03, 0x00];

/// The longest text of a frame in bytes (1 GiB): the ZIP entry of a single page never needs ZIP64
/// sizes.
pub const MAX_TEXT_BYTES: u32 = 1 << 30;

/// The longest stored block of DEFLATE in bytes (RFC 1951, 3.2.4).
const STORED_BLOCK_MAX_BYTES: usize = 65_535;

/// Header of a stored block on a byte boundary: block type, length, inverted length.
const STORED_BLOCK_HEADER_BYTES: u64 = 5;

/// gzip header (RFC 1952, 2.3): DEFLATE, no flags, no time, no extra flags, unknown operating
/// system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// Why a frame is refused.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The text is longer than [`MAX_TEXT_BYTES`].
    #[error("a text of {bytes} bytes is longer than the {MAX_TEXT_BYTES} bytes that a frame holds")]
    TooLong {
        /// Length of the text.
        bytes: usize,
    },
    /// The compressor failed, or its output does not inflate to the text.
    #[error("the text could not be compressed into a frame that reads back: {0}")]
    Compress(String),
    /// The bytes are not DEFLATE, or are truncated.
    #[error("the frame is not whole DEFLATE blocks: {0}")]
    Format(String),
    /// The frame inflates to another length than expected.
    #[error("the frame does not inflate to the expected {expected} bytes")]
    Size {
        /// Expected length in bytes.
        expected: u32,
    },
    /// The frame inflates to another text than expected.
    #[error("the text of the frame has CRC-32 {actual:08x} instead of {expected:08x}")]
    Crc {
        /// Expected CRC-32.
        expected: u32,
        /// Actual CRC-32.
        actual: u32,
    },
}

/// A text as a frame, with what ZIP and gzip need to know about the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The DEFLATE blocks; empty for an empty text.
    pub bytes: Bytes,
    /// Length of the text in bytes.
    pub size: u32,
    /// CRC-32 of the text (the polynomial of ZIP and gzip).
    pub crc32: u32,
}

impl Frame {
    /// The frame as an archive's directory describes it.
    pub fn member(&self) -> Member {
        Member { size: self.size, frame_len: self.bytes.len() as u32, crc32: self.crc32 }
    }
}

/// A frame as a gzip member (RFC 1952): header, frame, [`FRAME_END`], CRC-32, length of the text.
pub fn gzip(frame: &[u8], size: u32, crc32: u32) -> Bytes {
    let mut gzip = Vec::with_capacity(GZIP_HEADER.len() + frame.len() + FRAME_END.len() + 8);
    gzip.extend_from_slice(&GZIP_HEADER);
    gzip.extend_from_slice(frame);
    gzip.extend_from_slice(&FRAME_END);
    gzip.extend_from_slice(&crc32.to_le_bytes());
    gzip.extend_from_slice(&size.to_le_bytes());
    gzip.into()
}

/// CRC-32 of two texts joined, from the CRC-32 of each and the length of the second in bytes.
pub fn crc32_combine(a: u32, b: u32, b_len: u64) -> u32 {
    // The combination depends on the length of the second text only.
    let mut joined = crc32fast::Hasher::new_with_initial_len(a, 0);
    joined.combine(&crc32fast::Hasher::new_with_initial_len(b, b_len));
    joined.finalize()
}

/// Length in bytes of a text as DEFLATE stored blocks (RFC 1951, 3.2.4) of at most 65,535 bytes,
/// none of them final.
pub fn stored_len(size: u64) -> u64 {
    size + STORED_BLOCK_HEADER_BYTES * size.div_ceil(STORED_BLOCK_MAX_BYTES as u64)
}

/// The stored blocks of a text, as header and content of each; joined they have [`stored_len`]
/// bytes.
pub(crate) fn stored_blocks(text: &[u8]) -> impl Iterator<Item = ([u8; 5], &[u8])> {
    text.chunks(STORED_BLOCK_MAX_BYTES).map(|block| {
        let [low, high] = (block.len() as u16).to_le_bytes();
        ([0, low, high, !low, !high], block)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Framer, inflate};
    use proptest::prelude::*;
    use std::io::Read;

    fn frame(text: &[u8]) -> Frame {
        Framer::new(6).frame(text).unwrap()
    }

    /// Texts that compress well, badly, and not at all.
    fn texts() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..2_000),
            "[a-e \n]{0,4000}".prop_map(String::into_bytes),
            (any::<u8>(), 0..200_000usize).prop_map(|(byte, len)| vec![byte; len]),
        ]
    }

    proptest! {
        #[test]
        fn gzip_of_a_frame_is_read_by_a_gzip_reader(text in texts()) {
            let frame = frame(&text);
            let mut read = Vec::new();
            let gzip = gzip(&frame.bytes, frame.size, frame.crc32);
            flate2::bufread::GzDecoder::new(&gzip[..]).read_to_end(&mut read).unwrap();
            prop_assert_eq!(read, text);
        }

        #[test]
        fn the_crc_of_joined_texts_is_combined(a in texts(), b in texts()) {
            let combined = crc32_combine(crc32fast::hash(&a), crc32fast::hash(&b), b.len() as u64);
            prop_assert_eq!(combined, crc32fast::hash(&[a, b].concat()));
        }

        #[test]
        fn stored_blocks_have_the_computed_length_and_read_back(text in texts()) {
            let blocks: Vec<u8> = stored_blocks(&text).flat_map(|(header, block)| [&header[..], block].concat()).collect();
            prop_assert_eq!(blocks.len() as u64, stored_len(text.len() as u64));
            prop_assert_eq!(inflate(&blocks, text.len() as u32, crc32fast::hash(&text)).unwrap(), text);
        }
    }
}
