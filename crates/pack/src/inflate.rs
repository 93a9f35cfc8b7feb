//! Inflating frames.

use libdeflater::{DecompressionError, Decompressor};
use std::cell::RefCell;

use crate::frame::FrameError;

/// Highest expansion of a stream: DEFLATE makes at most 258 bytes of two bits.
const MAX_RATIO: u64 = 1_032;

/// Completes a frame for libdeflate: a final stored block without content (RFC 1951, 3.2.4), and
/// zeros that are not read as part of the stream. For [`FRAME_END`](crate::FRAME_END), which is
/// shorter, libdeflate would build the tables of the fixed codes, once per frame. And it decodes
/// the last 25 bytes of its input in a slower loop, which are now behind the frame.
const STREAM_END: [u8; 32] = {
    let mut end = [0; 32];
    end[0] = 1;
    end[3] = 0xff;
    end[4] = 0xff;
    end
};

/// Room behind a text, in bytes: libdeflate fills the last 299 bytes of its output in a slower
/// loop, which would be a fifth of a page.
const ROOM_BYTES: usize = 320;

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

    /// Replaces `text` by the text of a frame; see [`inflate`]. After an error `text` is of no use.
    pub(crate) fn inflate_into(
        &mut self,
        frame: &[u8],
        size: u32,
        crc32: u32,
        text: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        if u64::from(size) > frame.len() as u64 * MAX_RATIO {
            return Err(FrameError::Size { expected: size });
        }
        self.stream.clear();
        self.stream.extend_from_slice(frame);
        self.stream.extend_from_slice(&STREAM_END);
        let size_bytes = size as usize;
        text.resize(size_bytes + ROOM_BYTES, 0);
        let inflated = self.inflater.deflate_decompress(&self.stream, text);
        text.truncate(size_bytes);
        match inflated {
            Ok(len) if len == size_bytes => {}
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

/// The text of a frame: exactly `size` bytes with this CRC-32, or an error. Whatever the frame is,
/// its text takes no more memory than for `size` bytes and a few hundred.
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
    fn a_text_that_is_longer_than_stated_is_refused_whether_it_fits_the_room_or_not() {
        let text: Vec<u8> = (0..500_u32).flat_map(|n| format!("{n} ").into_bytes()).collect();
        let frame = Framer::new(6).frame(&text).unwrap();
        for more in [1, ROOM_BYTES - 1, ROOM_BYTES, ROOM_BYTES + 1, text.len()] {
            let stated = text.len() - more;
            let crc32 = crc32fast::hash(&text[..stated]);
            assert!(matches!(inflate(&frame.bytes, stated as u32, crc32), Err(FrameError::Size { .. })), "{more}");
        }
    }

    #[test]
    fn a_reused_buffer_has_nothing_of_the_text_before() {
        let (mut inflater, mut framer, mut back) = (Inflater::new(), Framer::new(6), Vec::new());
        for text in [&b"a longer text, ".repeat(100)[..], b"a text", b"", &b"the longest text, ".repeat(300)[..]] {
            let frame = framer.frame(text).unwrap();
            inflater.inflate_into(&frame.bytes, frame.size, frame.crc32, &mut back).unwrap();
            assert_eq!(back, text);
        }
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
