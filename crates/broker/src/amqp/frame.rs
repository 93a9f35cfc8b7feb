//! Frames (part 2, section 2.3) and protocol headers (2.2).

use bytes::{Buf, BufMut, BytesMut};
use thiserror::Error;

use super::value::{Value, Writer, read_all};

/// The largest frame that a broker may send: it is announced to it.
pub const FRAME_BYTES_MAX: usize = 16 << 10;

/// Bytes of a frame before its body.
const HEAD_BYTES: usize = 8;

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// A frame is too long.
    #[error("a frame has more than {FRAME_BYTES_MAX} bytes")]
    LongFrame,
    /// The head of a frame contradicts itself.
    #[error("the head of a frame contradicts itself")]
    BadHead,
    /// There is no performative where one must be.
    #[error("a frame has no performative")]
    NoPerformative,
    /// A value is longer than what holds it.
    #[error("a value is longer than what holds it")]
    CutValue,
    /// A value has an unknown form.
    #[error("a value has an unknown form")]
    NoValue,
    /// Values are nested too deep.
    #[error("values are nested too deep")]
    DeepValue,
    /// A text is no UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
}

/// What a broker sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The beginning of a protocol: its id and version.
    Header([u8; 4]),
    /// A frame of the security layer.
    Sasl(u64, Vec<Value>),
    /// A performative with its fields. What follows it is left out.
    Amqp(u64, Vec<Value>),
    /// A sign of life.
    Beat,
}

/// Reads frames from bytes that come in pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Where the next bytes are added. After each time call [`Decoder::next_frame`] until it has no frame.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame that is complete. After an error the bytes that follow mean nothing.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((head, _)) = self.buffer.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        // As a size it would be a gigabyte.
        if let [b'A', b'M', b'Q', b'P', protocol @ ..] = *head {
            self.buffer.advance(HEAD_BYTES);
            return Ok(Some(Frame::Header(protocol)));
        }
        let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let (body_at, kind) = (usize::from(head[4]) * 4, head[5]);
        if size > FRAME_BYTES_MAX {
            return Err(FrameError::LongFrame);
        }
        if body_at < HEAD_BYTES || size < body_at {
            return Err(FrameError::BadHead);
        }
        if self.buffer.len() < size {
            return Ok(None);
        }
        let frame = self.buffer.split_to(size);
        let mut body = &frame[body_at..];
        if body.is_empty() {
            return Ok(Some(Frame::Beat));
        }
        let performative = Value::read(&mut body)?;
        let Some((code, fields)) = performative.composite() else { return Err(FrameError::NoPerformative) };
        Ok(Some(match kind {
            0 => Frame::Amqp(code, fields.to_vec()),
            1 => {
                read_all(body)?;
                Frame::Sasl(code, fields.to_vec())
            }
            _ => return Err(FrameError::BadHead),
        }))
    }
}

/// A frame of AMQP on the channel 0.
pub(super) const AMQP: u8 = 0;
/// A frame of the security layer.
pub(super) const SASL: u8 = 1;

/// Writes a frame with a performative, and a payload behind it.
pub(super) fn write(
    out: &mut BytesMut,
    kind: u8,
    code: u8,
    count: u32,
    fields: impl FnOnce(&mut Writer<'_>),
    payload: &[u8],
) {
    let place = out.len();
    out.put_slice(&[0, 0, 0, 0, 2, kind, 0, 0]);
    Writer(out).composite(code, count, fields);
    out.put_slice(payload);
    let size = u32::try_from(out.len() - place).unwrap_or(u32::MAX);
    (&mut out[place..]).put_u32(size);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8], size: usize) -> (Vec<Frame>, Option<FrameError>) {
        let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(size) {
            decoder.buffer().put_slice(piece);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error)),
                }
            }
            assert!(decoder.buffer.len() <= FRAME_BYTES_MAX + size);
        }
        (frames, None)
    }

    #[test]
    fn headers_beats_and_performatives_are_read_in_whatever_pieces_they_come() {
        let mut bytes = BytesMut::from(&b"AMQP\x03\x01\x00\x00\x00\x00\x00\x08\x02\x00\x00\x00"[..]);
        write(&mut bytes, AMQP, 0x14, 1, |fields| fields.uint(3), b"payload");
        write(&mut bytes, SASL, 0x44, 1, |fields| fields.ubyte(0), b"");
        for size in 1..=bytes.len() {
            let expected = vec![
                Frame::Header([3, 1, 0, 0]),
                Frame::Beat,
                Frame::Amqp(0x14, vec![Value::Number(3)]),
                Frame::Sasl(0x44, vec![Value::Number(0)]),
            ];
            assert_eq!(read(&bytes, size), (expected, None));
        }
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for (bytes, error) in [
            (&b"HTTP/1.1 400 Bad Request"[..], FrameError::LongFrame),
            (b"\x00\x00\x00\x07\x02\x00\x00\x00", FrameError::BadHead),
            (b"\x00\x00\x00\x08\x01\x00\x00\x00", FrameError::BadHead),
            (b"\x00\x00\x00\x08\x03\x00\x00\x00", FrameError::BadHead),
            (b"\x00\x00\x00\x09\x02\x00\x00\x00\x40", FrameError::NoPerformative),
            (b"\x00\x00\x00\x0C\x02\x07\x00\x00\x00\x53\x10\x45", FrameError::BadHead),
        ] {
            assert_eq!(read(bytes, 3).1, Some(error), "{}", bytes.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn bytes_mean_the_same_in_whatever_pieces_they_come(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..4),
            size in 1_usize..40,
        ) {
            let frames = bodies.into_iter().map(|body| {
                let size = u32::try_from(body.len() + 8).unwrap().to_be_bytes();
                [&size[..], &[2, 0, 0, 0], &body].concat()
            });
            let bytes = frames.collect::<Vec<_>>().concat();
            prop_assert_eq!(read(&bytes, size), read(&bytes, bytes.len().max(1)));
        }
    }
}
