//! Inflating frames.

use libdeflater::{DecompressionError, Decompressor};
use std::cell::RefCell;

use crate::frame::{FRAME_END, FrameError};

/// Highest expansion of a stream: DEFLATE makes at most 258 bytes of two bits.
const MAX_RATIO: u64 = 1_032;

thread_local! {
    /// For [`inflate`]: building its tables for each page would cost too much.
    static INFLATER: RefCell<Inflater> = RefCell::new(Inflater::new());
}

/// Inflates frames. It reuses its memory.
pub(crate) struct Inflater {
    inflater: Decompressor,
    /// The frame and its end, because libdeflate needs a stream in one piece.
    stream: Vec<u8>,
}

impl Inflater {
    pub(crate) fn new() -> Self {
        Self { inflater: Decompressor::new(), stream: Vec::new() }
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
        self.stream.clear();
        self.stream.extend_from_slice(frame);
        self.stream.extend_from_slice(&FRAME_END);
        text.resize(size as usize, 0);
        match self.inflater.deflate_decompress(&self.stream, text) {
            Ok(len) if len == size as usize => {}
            Ok(_) | Err(DecompressionError::InsufficientSpace) => return Err(FrameError::Size { expected: size }),
            Err(DecompressionError::BadData) => {
                return Err(FrameError::Format("it is not DEFLATE, or it is truncated".to_owned()));
            }
        }
        match crc32fast::hash(text) {
            actual if actual == crc32 => Ok(()),
            actual => Err(FrameError::Crc { expected: crc32, actual }),
        }
    }
}

/// The text of a frame: exactly `size` bytes with this CRC-32, or an error. It never holds more
/// than `size` bytes of text.
pub fn inflate(frame: &[u8], size: u32, crc32: u32) -> Result<Vec<u8>, FrameError> {
    let mut text = Vec::new();
    INFLATER.with_borrow_mut(|inflater| inflater.inflate_into(frame, size, crc32, &mut text))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Framer;
    use proptest::prelude::*;

    #[test]
    fn a_truncated_frame_or_one_of_another_text_is_refused() {
        let text = b"It is a truth universally acknowledged, a truth universally acknowledged.";
        let frame = Framer::new(6).frame(text).unwrap();
        let cut = &frame.bytes[..frame.bytes.len() - 3];
        assert!(matches!(inflate(cut, frame.size, frame.crc32), Err(FrameError::Format(_))));
        assert!(matches!(inflate(&frame.bytes, frame.size - 1, frame.crc32), Err(FrameError::Size { .. })));
        assert!(matches!(inflate(&frame.bytes, frame.size + 1, frame.crc32), Err(FrameError::Size { .. })));
        assert!(matches!(inflate(&frame.bytes, frame.size, frame.crc32 ^ 1), Err(FrameError::Crc { .. })));
    }

    #[test]
    fn a_size_that_no_frame_of_this_length_reaches_is_refused_before_memory_is_taken() {
        assert!(matches!(inflate(&[0; 5], u32::MAX, 0), Err(FrameError::Size { .. })));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_pass_for_a_frame_of_another_text(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(inflate(&bytes, 77, 0xdead_beef).is_err());
        }
    }
}
