//! Frames: a text as raw DEFLATE (RFC 1951) without a final block, ending on a byte boundary (a sync flush).
//!
//! Frames can be put one after the other, and the two bytes [`FRAME_END`] after the last make a complete DEFLATE stream.
//! No frame refers back into the one before it, because each is compressed with an empty window. An empty text is an
//! empty frame.

use crate::Member;
use bytes::Bytes;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// An empty final block with fixed codes (RFC 1951, 3.2.6): what makes frames a complete DEFLATE stream.
pub const FRAME_END: [u8; 2] = [0x03, 0x00];

/// The longest text of a frame in bytes (1 GiB): the ZIP entry of a single page never needs ZIP64 sizes.
pub const MAX_TEXT_BYTES: u32 = 1 << 30;

/// The longest stored block of DEFLATE in bytes (RFC 1951, 3.2.4).
const STORED_BLOCK_MAX_BYTES: usize = 65_535;

/// Header of a stored block on a byte boundary: block type, length, inverted length.
const STORED_BLOCK_HEADER_BYTES: u64 = 5;

/// DEFLATE makes at most 258 bytes out of two bits; no stream inflates to more than this many times its length.
const MAX_RATIO: u64 = 1_032;

/// gzip header (RFC 1952, 2.3): DEFLATE, no flags, no time, no extra flags, unknown operating system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// What goes wrong with a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The text is longer than [`MAX_TEXT_BYTES`].
    #[error("a text of {bytes} bytes is longer than the {MAX_TEXT_BYTES} bytes that a frame holds")]
    TooLong {
        /// Length of the text.
        bytes: usize,
    },
    /// The compressor refused, or what it made does not inflate to the text again.
    #[error("the text could not be compressed into a frame that reads back: {0}")]
    Compress(String),
    /// The bytes are not DEFLATE, or do not end on a byte boundary without a final block.
    #[error("the frame is not whole DEFLATE blocks without a final one: {0}")]
    Format(String),
    /// The frame inflates to another length than it should.
    #[error("the frame does not inflate to the {expected} bytes that it should")]
    Size {
        /// Bytes that the text should have.
        expected: u32,
    },
    /// The frame inflates to another text than it should.
    #[error("the text of the frame has CRC-32 {actual:08x} instead of {expected:08x}")]
    Crc {
        /// CRC-32 that the text should have.
        expected: u32,
        /// CRC-32 that it has.
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

/// Makes frames; keeps the state of its compressor and inflater from one text to the next. One per thread.
pub struct Framer {
    compress: Compress,
    inflater: Inflater,
    compressed: Vec<u8>,
    proof: Vec<u8>,
}

impl Framer {
    /// A framer of a DEFLATE level: 0 (stored) to 9 (smallest); higher ones count as 9.
    pub fn new(level: u8) -> Self {
        Self {
            compress: Compress::new(compression(level), false),
            inflater: Inflater::new(),
            compressed: Vec::new(),
            proof: Vec::new(),
        }
    }

    /// Compresses a text once, and inflates the frame once to prove that it reads back as the text.
    pub fn frame(&mut self, text: &[u8]) -> Result<Frame, FrameError> {
        let size = u32::try_from(text.len()).ok().filter(|&size| size <= MAX_TEXT_BYTES);
        let size = size.ok_or(FrameError::TooLong { bytes: text.len() })?;
        let crc32 = crc32fast::hash(text);
        self.compressed.clear();
        if !text.is_empty() {
            self.compress.reset();
            deflate_into(&mut self.compress, text, FlushCompress::Sync, &mut self.compressed)?;
        }
        self.inflater
            .inflate_into(&self.compressed, size, crc32, &mut self.proof)
            .map_err(|error| FrameError::Compress(error.to_string()))?;
        if self.proof != text {
            return Err(FrameError::Compress("another text came back".into()));
        }
        Ok(Frame { bytes: Bytes::copy_from_slice(&self.compressed), size, crc32 })
    }
}

/// Inflates frames; keeps its state from one frame to the next.
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(false))
    }

    /// Replaces `text` by the text of a frame; see [`inflate`].
    pub(crate) fn inflate_into(
        &mut self,
        frame: &[u8],
        size: u32,
        crc32: u32,
        text: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        text.clear();
        if u64::from(size) > frame.len() as u64 * MAX_RATIO {
            return Err(FrameError::Size { expected: size });
        }
        // One byte more than the text, so that a longer one shows.
        text.reserve(size as usize + 1);
        self.0.reset(false);
        let mut status = Status::Ok;
        for part in [frame, &FRAME_END] {
            let result = self.0.decompress_vec(part, text, FlushDecompress::None);
            status = result.map_err(|error| FrameError::Format(error.to_string()))?;
            if text.len() > size as usize {
                return Err(FrameError::Size { expected: size });
            }
        }
        let read_bytes = self.0.total_in();
        if status != Status::StreamEnd || read_bytes != (frame.len() + FRAME_END.len()) as u64 {
            return Err(FrameError::Format("it ends too early or too late".into()));
        }
        if text.len() != size as usize {
            return Err(FrameError::Size { expected: size });
        }
        match crc32fast::hash(text) {
            actual if actual == crc32 => Ok(()),
            actual => Err(FrameError::Crc { expected: crc32, actual }),
        }
    }
}

/// The text of a frame: exactly `size` bytes with this CRC-32, or an error. No more than `size` bytes are ever held.
pub fn inflate(frame: &[u8], size: u32, crc32: u32) -> Result<Vec<u8>, FrameError> {
    let mut text = Vec::new();
    Inflater::new().inflate_into(frame, size, crc32, &mut text)?;
    Ok(text)
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

/// Length in bytes of a text as DEFLATE stored blocks (RFC 1951, 3.2.4) of at most 65,535 bytes, none of them final.
pub fn stored_len(size: u64) -> u64 {
    size + STORED_BLOCK_HEADER_BYTES * size.div_ceil(STORED_BLOCK_MAX_BYTES as u64)
}

/// The stored blocks of a text, as header and content of each; joined they have [`stored_len`] bytes.
pub(crate) fn stored_blocks(text: &[u8]) -> impl Iterator<Item = ([u8; 5], &[u8])> {
    text.chunks(STORED_BLOCK_MAX_BYTES).map(|block| {
        let [low, high] = (block.len() as u16).to_le_bytes();
        ([0, low, high, !low, !high], block)
    })
}

/// The level as flate2 takes it; it would panic at more than 9.
pub(crate) fn compression(level: u8) -> Compression {
    Compression::new(u32::from(level.min(9)))
}

/// Appends all of `input` to `output`, compressed and flushed; what the compressor holds back without a flush, it keeps.
pub(crate) fn deflate_into(
    compress: &mut Compress,
    input: &[u8],
    flush: FlushCompress,
    output: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let end = compress.total_in() + input.len() as u64;
    output.reserve(input.len() / 2 + 64);
    loop {
        let rest = input.len() - (end - compress.total_in()) as usize;
        let result = compress.compress_vec(&input[rest..], output, flush);
        let status = result.map_err(|error| FrameError::Compress(error.to_string()))?;
        // Room left over means that the compressor had nothing more to write.
        if status == Status::StreamEnd || (compress.total_in() == end && output.len() < output.capacity()) {
            return Ok(());
        }
        output.reserve(output.len().max(64));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
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
        fn a_frame_reads_back_as_its_text_at_every_level(text in texts(), level in 0u8..=12) {
            let frame = Framer::new(level).frame(&text).unwrap();
            prop_assert_eq!(inflate(&frame.bytes, frame.size, frame.crc32).unwrap(), text);
        }

        #[test]
        fn frames_in_a_row_with_the_end_are_one_deflate_stream(texts in proptest::collection::vec(texts(), 0..5)) {
            let mut framer = Framer::new(6);
            let mut joined: Vec<u8> = Vec::new();
            for text in &texts {
                joined.extend_from_slice(&framer.frame(text).unwrap().bytes);
            }
            joined.extend_from_slice(&FRAME_END);
            let mut text = Vec::new();
            flate2::bufread::DeflateDecoder::new(&joined[..]).read_to_end(&mut text).unwrap();
            prop_assert_eq!(text, texts.concat());
        }

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

        #[test]
        fn arbitrary_bytes_never_pass_for_a_frame_of_another_text(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(inflate(&bytes, 77, 0xdead_beef).is_err());
        }
    }

    #[test]
    fn an_empty_text_is_an_empty_frame() {
        assert_eq!(frame(b""), Frame { bytes: Bytes::new(), size: 0, crc32: 0 });
    }

    #[test]
    fn a_frame_that_is_cut_or_damaged_or_final_is_refused() {
        let text = b"It is a truth universally acknowledged, a truth universally acknowledged.";
        let frame = frame(text);
        let cut = &frame.bytes[..frame.bytes.len() - 3];
        assert!(matches!(inflate(cut, frame.size, frame.crc32), Err(FrameError::Format(_))));
        let ended = [&frame.bytes[..], &FRAME_END].concat();
        assert!(matches!(inflate(&ended, frame.size, frame.crc32), Err(FrameError::Format(_))));
        assert!(matches!(inflate(&frame.bytes, frame.size - 1, frame.crc32), Err(FrameError::Size { .. })));
        assert!(matches!(inflate(&frame.bytes, frame.size + 1, frame.crc32), Err(FrameError::Size { .. })));
        assert!(matches!(inflate(&frame.bytes, frame.size, frame.crc32 ^ 1), Err(FrameError::Crc { .. })));
    }

    #[test]
    fn a_size_that_no_frame_of_this_length_reaches_is_refused_before_memory_is_taken() {
        assert!(matches!(inflate(&[0; 5], u32::MAX, 0), Err(FrameError::Size { .. })));
    }
}
