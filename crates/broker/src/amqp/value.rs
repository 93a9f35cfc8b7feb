//! Values (part 1: types).
//!
//! A value says its width by the upper half of its first byte, so unknown ones can be skipped. It
//! is read to a bounded depth, because a peer could otherwise nest one as deep as the stack.

use bytes::{Buf, BufMut, BytesMut};

use super::frame::FrameError;

/// How deep values may be nested: an error in a close is at 5.
pub const DEPTH_MAX: u32 = 16;

/// A value, as far as a sender looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Null,
    /// A truth.
    Bool(bool),
    /// A number that is not negative by its type.
    Number(u64),
    /// A string or a symbol.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A list, an array, or a map with keys and values in turn.
    Many(Vec<Value>),
    /// A value that says what it is by a number.
    Described(u64, Box<Value>),
    /// Something that a sender does not look at.
    Other,
}

impl Value {
    /// Reads a value from the front of bytes.
    pub fn read(bytes: &mut &[u8]) -> Result<Self, FrameError> {
        read(bytes, DEPTH_MAX)
    }

    /// The number, if it is one.
    pub(super) fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    /// The number, if it is one of 32 bits.
    pub(super) fn uint(&self) -> Option<u32> {
        self.number().and_then(|number| number.try_into().ok())
    }

    /// Whether it is true.
    pub(super) fn is_true(&self) -> bool {
        *self == Self::Bool(true)
    }

    /// The text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The description and the fields of a composite value (1.4).
    pub(super) fn composite(&self) -> Option<(u64, &[Value])> {
        match self {
            Self::Described(code, value) => match &**value {
                Self::Many(fields) => Some((*code, fields)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A field of a composite value; those at the end may be left out.
pub(super) fn field(fields: &[Value], index: usize) -> &Value {
    fields.get(index).unwrap_or(&Value::Null)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], FrameError> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(FrameError::CutValue)?;
    *bytes = rest;
    Ok(taken)
}

/// A number of a width in bytes, big-endian.
fn number(bytes: &mut &[u8], width: usize) -> Result<u64, FrameError> {
    Ok(take(bytes, width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn size(bytes: &mut &[u8], width: usize) -> Result<usize, FrameError> {
    usize::try_from(number(bytes, width)?).map_err(|_| FrameError::CutValue)
}

fn read(bytes: &mut &[u8], depth: u32) -> Result<Value, FrameError> {
    let depth = depth.checked_sub(1).ok_or(FrameError::DeepValue)?;
    match take(bytes, 1)?[0] {
        0 => {
            let code = read(bytes, depth)?;
            let value = read(bytes, depth)?;
            Ok(code.number().map_or(Value::Other, |code| Value::Described(code, Box::new(value))))
        }
        code => read_as(code, bytes, depth),
    }
}

/// Reads a value whose constructor was read (1.6.1 to 1.6.24, figure 1.6).
fn read_as(code: u8, bytes: &mut &[u8], depth: u32) -> Result<Value, FrameError> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(|text| Value::Text(text.to_owned()));
    Ok(match code {
        0x40 => Value::Null,
        0x41 => Value::Bool(true),
        0x42 => Value::Bool(false),
        0x43 | 0x44 => Value::Number(0),
        0x45 => Value::Many(Vec::new()),
        0x56 => Value::Bool(take(bytes, 1)?[0] != 0),
        0x50 | 0x52 | 0x53 => Value::Number(number(bytes, 1)?),
        0x60 => Value::Number(number(bytes, 2)?),
        0x70 => Value::Number(number(bytes, 4)?),
        0x80 => Value::Number(number(bytes, 8)?),
        _ => {
            // The width of its size, or of itself.
            let (is_sized, width) = match code >> 4 {
                0x4 => (false, 0),
                0x5 => (false, 1),
                0x6 => (false, 2),
                0x7 => (false, 4),
                0x8 => (false, 8),
                0x9 => (false, 16),
                0xA | 0xC | 0xE => (true, 1),
                0xB | 0xD | 0xF => (true, 4),
                _ => return Err(FrameError::NoValue),
            };
            if !is_sized {
                take(bytes, width)?;
                return Ok(Value::Other);
            }
            let size = size(bytes, width)?;
            let content = take(bytes, size)?;
            match code {
                0xA0 | 0xB0 => Value::Bytes(content.to_vec()),
                0xA1 | 0xA3 | 0xB1 | 0xB3 => text(content).map_err(|_| FrameError::NotUtf8)?,
                0xC0 | 0xC1 | 0xD0 | 0xD1 => list(content, width, depth)?,
                0xE0 | 0xF0 => array(content, width, depth)?,
                _ => Value::Other,
            }
        }
    })
}

fn list(mut content: &[u8], width: usize, depth: u32) -> Result<Value, FrameError> {
    let count = size(&mut content, width)?;
    // Each takes a byte at least.
    if count > content.len() {
        return Err(FrameError::CutValue);
    }
    let values = (0..count).map(|_| read(&mut content, depth));
    values.collect::<Result<_, _>>().map(Value::Many)
}

/// Values of one type, which stands before them (1.6.24).
fn array(mut content: &[u8], width: usize, depth: u32) -> Result<Value, FrameError> {
    let count = size(&mut content, width)?;
    let code = take(&mut content, 1)?[0];
    // Of values without a width of their own, any number fits; a sender looks at none of them, and at
    // none that is described.
    if code == 0 || code >> 4 == 0x4 {
        return Ok(Value::Other);
    }
    let depth = depth.checked_sub(1).ok_or(FrameError::DeepValue)?;
    if count > content.len() {
        return Err(FrameError::CutValue);
    }
    let values = (0..count).map(|_| read_as(code, &mut content, depth));
    values.collect::<Result<_, _>>().map(Value::Many)
}

/// Writes values.
pub(super) struct Writer<'a>(pub(super) &'a mut BytesMut);

impl Writer<'_> {
    pub(super) fn null(&mut self) {
        self.0.put_u8(0x40);
    }

    pub(super) fn bool(&mut self, truth: bool) {
        self.0.put_u8(if truth { 0x41 } else { 0x42 });
    }

    pub(super) fn ubyte(&mut self, number: u8) {
        self.0.put_slice(&[0x50, number]);
    }

    pub(super) fn byte(&mut self, number: i8) {
        self.0.put_u8(0x51);
        self.0.put_i8(number);
    }

    pub(super) fn ushort(&mut self, number: u16) {
        self.0.put_u8(0x60);
        self.0.put_u16(number);
    }

    pub(super) fn uint(&mut self, number: u32) {
        self.0.put_u8(0x70);
        self.0.put_u32(number);
    }

    pub(super) fn long(&mut self, number: i64) {
        self.0.put_u8(0x81);
        self.0.put_i64(number);
    }

    pub(super) fn string(&mut self, text: &str) {
        self.sized(0xB1, text.as_bytes());
    }

    pub(super) fn symbol(&mut self, text: &str) {
        self.sized(0xB3, text.as_bytes());
    }

    pub(super) fn binary(&mut self, bytes: &[u8]) {
        self.sized(0xB0, bytes);
    }

    fn sized(&mut self, code: u8, bytes: &[u8]) {
        self.0.put_u8(code);
        self.0.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.put_slice(bytes);
    }

    /// What the value that follows is.
    pub(super) fn description(&mut self, code: u8) {
        self.0.put_slice(&[0, 0x53, code]);
    }

    /// A composite value with so many fields.
    pub(super) fn composite(&mut self, code: u8, count: u32, fields: impl FnOnce(&mut Writer<'_>)) {
        self.description(code);
        self.many(0xD0, count, fields);
    }

    /// A map with so many keys and values together.
    pub(super) fn map(&mut self, count: u32, pairs: impl FnOnce(&mut Writer<'_>)) {
        self.many(0xD1, count, pairs);
    }

    fn many(&mut self, code: u8, count: u32, write: impl FnOnce(&mut Writer<'_>)) {
        self.0.put_u8(code);
        let place = self.0.len();
        self.0.put_u32(0);
        self.0.put_u32(count);
        write(&mut Writer(self.0));
        let size = u32::try_from(self.0.len() - place - 4).unwrap_or(u32::MAX);
        (&mut self.0[place..]).put_u32(size);
    }
}

/// Whether all bytes are values, one behind the other.
pub(super) fn read_all(mut bytes: &[u8]) -> Result<Vec<Value>, FrameError> {
    let mut values = Vec::new();
    while bytes.has_remaining() {
        values.push(Value::read(&mut bytes)?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_that_are_written_are_read() {
        let mut out = BytesMut::new();
        Writer(&mut out).composite(0x10, 7, |fields| {
            fields.string("ü");
            fields.null();
            fields.uint(7);
            fields.ushort(8);
            fields.bool(true);
            fields.binary(b"ab");
            fields.map(2, |pairs| {
                pairs.symbol("a");
                pairs.long(-1);
            });
        });
        let value = Value::read(&mut &out[..]).unwrap();
        let (code, fields) = value.composite().unwrap();
        assert_eq!(code, 0x10);
        let map = Value::Many(vec![Value::Text("a".to_owned()), Value::Other]);
        let expected = [
            Value::Text("ü".to_owned()),
            Value::Null,
            Value::Number(7),
            Value::Number(8),
            Value::Bool(true),
            Value::Bytes(b"ab".to_vec()),
            map,
        ];
        assert_eq!(fields, expected);
        assert_eq!(field(fields, 9), &Value::Null);
    }

    #[test]
    fn values_that_are_nested_too_deep_or_cut_or_too_many_are_refused() {
        let read = |bytes: &[u8]| Value::read(&mut &bytes[..]);
        assert_eq!(read(&[0; 4_096]), Err(FrameError::DeepValue));
        let nested = |levels: usize| {
            (0..levels).fold(vec![0x40], |inner, _| {
                let size = u32::try_from(inner.len() + 4).unwrap().to_be_bytes();
                [&[0xD0], &size[..], &1_u32.to_be_bytes(), &inner].concat()
            })
        };
        assert!(read(&nested(15)).is_ok());
        assert_eq!(read(&nested(16)), Err(FrameError::DeepValue));
        assert_eq!(read(&nested(400)), Err(FrameError::DeepValue));
        for cut in [&[][..], &[0xA1, 2, b'a'], &[0x70, 0], &[0xC0, 1, 200], &[0xE0, 2, 200, 0x50]] {
            assert_eq!(read(cut), Err(FrameError::CutValue), "{cut:?}");
        }
        assert_eq!(read(&[0xF0, 0, 0, 0, 5, 255, 255, 255, 255, 0x45]), Ok(Value::Other));
        assert_eq!(read(&[0x10]), Err(FrameError::NoValue));
        assert_eq!(read(&[0xA1, 1, 0xFF]), Err(FrameError::NotUtf8));
        let mechanisms = [0xE0, 9, 2, 0xA3, 1, b'A', 4, b'P', b'L', b'A', b'I'];
        let names = ["A", "PLAI"].map(|name| Value::Text(name.to_owned()));
        assert_eq!(read(&mechanisms), Ok(Value::Many(names.to_vec())));
    }

    proptest! {
        #[test]
        fn any_bytes_are_values_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_all(&bytes);
        }
    }
}
