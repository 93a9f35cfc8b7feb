//! Making frames. Each is checked to read back.

use flate2::{Compress, FlushCompress};

use crate::deflate::{Deflater, append_deflated, stream_compressor};
use crate::frame::{Frame, FrameError, MAX_TEXT_BYTES};
use crate::inflate::Inflater;

/// The bit of a block's header that makes it the final one (RFC 1951, 3.2.3).
const FINAL: u8 = 1;

/// Bits of the header of a block (RFC 1951, 3.2.3).
const BLOCK_HEADER_BITS: u32 = 3;

/// An empty stored block, which ends on a byte boundary (RFC 1951, 3.2.4). The three zero bits of
/// its header are padding of the byte before it, or reach into one more byte if that has fewer than
/// three bits left.
const EMPTY_STORED: [&[u8]; 2] = [&[0, 0, 0xff, 0xff], &[0, 0, 0, 0xff, 0xff]];

/// A longer text is compressed in parts of this many bytes. libdeflate usually makes one block of
/// such a part; of longer parts it more often makes several. The parts do not refer to one another.
/// Even so the frames of METS documents, the longest texts, are a quarter smaller (level 1) than
/// those of the compressor that can flush, and take two thirds of the time.
const PART_BYTES: usize = 32 << 10;

/// Makes frames. The same text always gives the same frame. It reuses its memory; each thread has
/// one.
pub struct Framer {
    whole: Deflater,
    flushed: Compress,
    inflater: Inflater,
    compressed: Vec<u8>,
    proof: Vec<u8>,
}

impl Framer {
    /// A framer with a DEFLATE level: 0 (stored) to 9 (smallest). Higher levels count as 9.
    pub fn new(level: u8) -> Self {
        Self {
            whole: Deflater::new(level),
            flushed: stream_compressor(level),
            inflater: Inflater::new(),
            compressed: Vec::new(),
            proof: Vec::new(),
        }
    }

    /// Compresses a text, and inflates the frame to check that it gives the text.
    pub fn frame(&mut self, text: &[u8]) -> Result<Frame, FrameError> {
        let size = u32::try_from(text.len()).ok().filter(|&size| size <= MAX_TEXT_BYTES);
        let size = size.ok_or(FrameError::TooLong { bytes: text.len() })?;
        let mut bytes = Vec::new();
        for part in text.chunks(PART_BYTES) {
            self.compress(part)?;
            bytes.extend_from_slice(&self.compressed);
        }
        Ok(Frame { bytes: bytes.into(), size, crc32: crc32fast::hash(text) })
    }

    /// Makes a frame of a part.
    fn compress(&mut self, part: &[u8]) -> Result<(), FrameError> {
        let crc32 = crc32fast::hash(part);
        if !self.one_block(part, crc32)? {
            self.flushed_blocks(part, crc32)?;
        }
        Ok(())
    }

    /// Turns a whole stream of one block into a frame: it clears the final bit, and appends an
    /// empty stored block that leads to the byte boundary. It is not known at which bit of the last
    /// byte the block ends, only that it is not before the last set bit. Of the two possible
    /// continuations just one inflates; in the other, the stored block's length does not match its
    /// complement. Returns false if the stream has several blocks, because the final one is then
    /// somewhere within.
    fn one_block(&mut self, part: &[u8], crc32: u32) -> Result<bool, FrameError> {
        self.whole.deflate_into(part, &mut self.compressed)?;
        let block_len = self.compressed.len();
        match self.compressed.first_mut() {
            Some(first) if *first & FINAL != 0 => *first &= !FINAL,
            _ => return Ok(false),
        }
        let free_bits_max = self.compressed.last().map_or(0, |last| last.leading_zeros());
        let ends = if free_bits_max < BLOCK_HEADER_BITS { &EMPTY_STORED[1..] } else { &EMPTY_STORED[..] };
        for end in ends {
            self.compressed.truncate(block_len);
            self.compressed.extend_from_slice(end);
            if self.prove(part, crc32).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the frame with a stream that is flushed at its end.
    fn flushed_blocks(&mut self, part: &[u8], crc32: u32) -> Result<(), FrameError> {
        self.compressed.clear();
        self.flushed.reset();
        append_deflated(&mut self.flushed, part, FlushCompress::Sync, &mut self.compressed)?;
        self.prove(part, crc32)
    }

    /// Inflates the new frame.
    fn prove(&mut self, part: &[u8], crc32: u32) -> Result<(), FrameError> {
        let inflated = self.inflater.inflate_into(&self.compressed, part.len() as u32, crc32, &mut self.proof);
        inflated.map_err(|error| FrameError::Compress(error.to_string()))?;
        if self.proof != part {
            return Err(FrameError::Compress("another text came back".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::frame::FRAME_END;
    use crate::inflate;
    use bytes::Bytes;
    use proptest::prelude::*;
    use std::io::Read;

    /// Texts that compress well, badly, and not at all; of one block and of many.
    fn texts() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..2_000),
            "[a-e \n]{0,4000}".prop_map(String::into_bytes),
            (any::<u8>(), 0..200_000usize).prop_map(|(byte, len)| vec![byte; len]),
            (proptest::collection::vec(any::<u8>(), 0..12_000), "[a-e \n]{0,40000}").prop_map(|(noise, text)| [
                noise,
                text.into_bytes()
            ]
            .concat()),
        ]
    }

    proptest! {
        #[test]
        fn a_frame_reads_back_as_its_text_at_every_level(text in texts(), level in 0u8..=12) {
            let frame = Framer::new(level).frame(&text).unwrap();
            prop_assert_eq!(inflate(&frame.bytes, frame.size, frame.crc32).unwrap(), text);
        }

        #[test]
        fn a_frame_does_not_depend_on_earlier_frames(texts in proptest::collection::vec(texts(), 1..4), level in 1u8..=9) {
            let mut framer = Framer::new(level);
            for text in &texts {
                prop_assert_eq!(framer.frame(text).unwrap(), Framer::new(level).frame(text).unwrap());
            }
        }

        #[test]
        fn frames_in_a_row_with_the_end_are_one_deflate_stream(texts in proptest::collection::vec(texts(), 0..5), level in 0u8..=9) {
            let mut framer = Framer::new(level);
            let mut joined: Vec<u8> = Vec::new();
            for text in &texts {
                joined.extend_from_slice(&framer.frame(text).unwrap().bytes);
            }
            joined.extend_from_slice(&FRAME_END);
            let mut text = Vec::new();
            let mut decoder = flate2::bufread::DeflateDecoder::new(&joined[..]);
            decoder.read_to_end(&mut text).unwrap();
            prop_assert_eq!(text, texts.concat());
            prop_assert_eq!(decoder.total_in(), joined.len() as u64, "it ends with the end, and not before");
        }
    }

    #[test]
    fn an_empty_text_is_an_empty_frame() {
        assert_eq!(Framer::new(6).frame(b"").unwrap(), Frame { bytes: Bytes::new(), size: 0, crc32: 0 });
    }

    #[test]
    fn a_page_becomes_one_block_and_a_book_several() {
        let page: Vec<u8> =
            (0..300_u32).flat_map(|n| format!("{} ", n.wrapping_mul(2_654_435_761)).into_bytes()).collect();
        let book: Vec<u8> = (0..90_000_u32).flat_map(|n| format!("{} ", n.wrapping_mul(n)).into_bytes()).collect();
        let mut framer = Framer::new(6);
        let mut is_one_block = |text: &[u8]| framer.one_block(text, crc32fast::hash(text)).unwrap();
        assert!(is_one_block(&page));
        assert!(!is_one_block(&book));
        let frame = framer.frame(&book).unwrap();
        assert_eq!(inflate(&frame.bytes, frame.size, frame.crc32).unwrap(), book);
    }

    #[test]
    fn a_long_text_becomes_frames_of_its_parts_which_are_one_block_each() {
        let mets: Vec<u8> = (0..2_000_u32)
            .flat_map(|n| {
                format!("<file ID=\"OCR{n:08}\" CHECKSUM=\"{:08x}\"/>\n", n.wrapping_mul(2_654_435_761)).into_bytes()
            })
            .collect();
        let mut framer = Framer::new(1);
        let whole = framer.frame(&mets).unwrap();
        let parts: Vec<u8> = mets.chunks(PART_BYTES).flat_map(|part| framer.frame(part).unwrap().bytes).collect();
        assert_eq!(whole.bytes, parts);
        assert!(mets.chunks(PART_BYTES).all(|part| framer.one_block(part, crc32fast::hash(part)).unwrap()));
        assert_eq!(inflate(&whole.bytes, whole.size, whole.crc32).unwrap(), mets);
    }
}
