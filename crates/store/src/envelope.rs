//! A format version and a checksum around each value, added and verified above the engines.
//!
//! Layout: one byte version, four bytes CRC-32 (IEEE, little-endian) of the payload, the payload.
//! For a value that is sealed for a place, the CRC-32 covers the place and the payload, so that the
//! value opens nowhere else.

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

/// The version written by this program.
pub const VERSION: u8 = 1;

/// The bytes that an envelope adds to its payload.
pub const OVERHEAD: usize = 5;

/// Why a value cannot be trusted.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Too short to be an envelope.
    #[error("a value of {0} bytes is too short")]
    Short(usize),
    /// Written by another version.
    #[error("a value has format version {0}, this program reads {VERSION}")]
    Version(u8),
    /// The payload is not what was written.
    #[error("a value fails its checksum")]
    Checksum,
}

/// Seals a payload.
pub fn seal(payload: &[u8]) -> Bytes {
    seal_at(&[], payload)
}

/// Seals a payload for the place where it will be stored: [`open_at`] opens it for the same place
/// only.
pub fn seal_at(place: &[u8], payload: &[u8]) -> Bytes {
    let mut sealed = BytesMut::with_capacity(OVERHEAD + payload.len());
    sealed.put_u8(VERSION);
    sealed.put_u32_le(checksum(place, payload));
    sealed.put_slice(payload);
    sealed.freeze()
}

/// Opens a sealed value. Returns the payload without copying it.
pub fn open(value: &Bytes) -> Result<Bytes, EnvelopeError> {
    open_at(&[], value)
}

/// Opens a value that was sealed for a place.
pub fn open_at(place: &[u8], value: &Bytes) -> Result<Bytes, EnvelopeError> {
    if value.len() < OVERHEAD {
        return Err(EnvelopeError::Short(value.len()));
    }
    if value[0] != VERSION {
        return Err(EnvelopeError::Version(value[0]));
    }
    let payload = value.slice(OVERHEAD..);
    let stored = u32::from_le_bytes([value[1], value[2], value[3], value[4]]);
    if checksum(place, &payload) == stored { Ok(payload) } else { Err(EnvelopeError::Checksum) }
}

fn checksum(place: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(place);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_to_its_payload() {
        assert_eq!(open(&seal(b"payload")).as_deref(), Ok(&b"payload"[..]));
        assert_eq!(open(&seal(b"")).as_deref(), Ok(&b""[..]));
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let sealed = seal(b"some payload");
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&flipped.into()).is_err(), "bit {bit} went unnoticed");
        }
    }

    #[test]
    fn a_value_that_is_sealed_for_a_place_opens_there_and_nowhere_else() {
        let sealed = seal_at(b"here", b"payload");
        assert_eq!(open_at(b"here", &sealed).as_deref(), Ok(&b"payload"[..]));
        assert_eq!(open_at(b"there", &sealed), Err(EnvelopeError::Checksum));
        assert_eq!(open(&sealed), Err(EnvelopeError::Checksum));
        assert_eq!(sealed[1..5], crc32fast::hash(b"herepayload").to_le_bytes(), "the stored form has changed");
    }

    #[test]
    fn a_short_value_is_refused() {
        assert_eq!(open(&Bytes::from_static(b"abc")), Err(EnvelopeError::Short(3)));
    }
}
