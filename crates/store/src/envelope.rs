//! A kind, a version and a checksum around each value, added and verified above the engines.
//!
//! ```text
//! 3 │ kind │ version of the kind │ CRC-32 of kind, version, place and payload │ payload
//! ```
//!
//! Kind, version and the first byte, which names the form, take one byte each. The CRC-32 (IEEE) is
//! little-endian. A value that is sealed for a place opens nowhere else; the place is not stored.

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

use crate::value_kind::ValueKind;

/// The first byte. Builds before 0.1.0 wrote 1 and 2 over other payloads, so those are refused.
const FORM: u8 = 3;

/// The bytes before the CRC-32.
const BEFORE_SUM: usize = 3;

/// The bytes that an envelope adds to its payload.
pub const OVERHEAD: usize = BEFORE_SUM + SUM_BYTES;

const SUM_BYTES: usize = 4;

/// Why a value cannot be trusted.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Too short to be an envelope.
    #[error("a value of {0} bytes is too short")]
    Short(usize),
    /// Its first byte names no form.
    #[error("a value has an envelope of form {0}, this program reads {FORM}")]
    Form(u8),
    /// The payload is not what was written, or is of another place.
    #[error("a value fails its checksum")]
    Checksum,
    /// It is of a kind that this program does not know.
    #[error("a value is of kind {0}, which this program does not know")]
    UnknownKind(u8),
    /// It is whole, and of another kind than the reader expects.
    #[error("a value is of kind `{found}`, and not of kind `{expected}`")]
    Kind {
        /// Its kind.
        found: ValueKind,
        /// The kind that was expected.
        expected: ValueKind,
    },
    /// It has a version that this program does not read.
    #[error("a value of kind `{kind}` has version {version}, which this program does not read")]
    Version {
        /// Its kind.
        kind: ValueKind,
        /// Its version.
        version: u8,
    },
}

/// A value that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The version of its kind, from 1 on.
    pub version: u8,
    /// Its payload.
    pub payload: Bytes,
}

/// Seals a payload of version 1.
pub fn seal(kind: ValueKind, payload: &[u8]) -> Bytes {
    sealed(kind, 1, &[], payload)
}

/// Seals a payload of a version of its kind.
pub fn seal_version(kind: ValueKind, version: u8, payload: &[u8]) -> Bytes {
    sealed(kind, version, &[], payload)
}

/// Seals a payload of version 1 for the place where it will be stored: [`open_at`] opens it for the
/// same place only.
pub fn seal_at(kind: ValueKind, place: &[u8], payload: &[u8]) -> Bytes {
    sealed(kind, 1, place, payload)
}

fn sealed(kind: ValueKind, version: u8, place: &[u8], payload: &[u8]) -> Bytes {
    let mut sealed = BytesMut::with_capacity(OVERHEAD + payload.len());
    sealed.put_slice(&[FORM, kind.number(), version]);
    sealed.put_u32_le(checksum(&[kind.number(), version], place, payload));
    sealed.put_slice(payload);
    sealed.freeze()
}

/// Opens a value of a kind that has version 1 only. Returns the payload without copying it.
pub fn open(kind: ValueKind, value: &Bytes) -> Result<Bytes, EnvelopeError> {
    open_at(kind, &[], value)
}

/// Opens a value of version 1 that was sealed for a place.
pub fn open_at(kind: ValueKind, place: &[u8], value: &Bytes) -> Result<Bytes, EnvelopeError> {
    match opened(kind, place, value)? {
        Opened { version: 1, payload } => Ok(payload),
        Opened { version, .. } => Err(EnvelopeError::Version { kind, version }),
    }
}

/// Opens a value of any version.
pub fn open_version(kind: ValueKind, value: &Bytes) -> Result<Opened, EnvelopeError> {
    opened(kind, &[], value)
}

/// Checks that a value is whole, whatever its kind is. It must not be sealed for a place.
pub fn check(value: &Bytes) -> Result<(), EnvelopeError> {
    unsealed(&[], value).map(drop)
}

fn opened(expected: ValueKind, place: &[u8], value: &Bytes) -> Result<Opened, EnvelopeError> {
    match unsealed(place, value)? {
        (kind, opened) if kind == expected => Ok(opened),
        (found, _) => Err(EnvelopeError::Kind { found, expected }),
    }
}

/// The kind of a whole value, and what it holds.
fn unsealed(place: &[u8], value: &Bytes) -> Result<(ValueKind, Opened), EnvelopeError> {
    let short = EnvelopeError::Short(value.len());
    match value.first() {
        Some(&FORM) => {}
        Some(&form) => return Err(EnvelopeError::Form(form)),
        None => return Err(short),
    }
    let Some((&[_, kind, version], rest)) = value.split_first_chunk::<BEFORE_SUM>() else { return Err(short) };
    let (sum, _) = rest.split_first_chunk::<SUM_BYTES>().ok_or(short)?;
    let payload = value.slice(OVERHEAD..);
    if checksum(&[kind, version], place, &payload) != u32::from_le_bytes(*sum) {
        return Err(EnvelopeError::Checksum);
    }
    let kind = ValueKind::of_number(kind).ok_or(EnvelopeError::UnknownKind(kind))?;
    Ok((kind, Opened { version, payload }))
}

fn checksum(stated: &[u8], place: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(stated);
    hasher.update(place);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn the_stored_bytes_do_not_change() {
        let sum = crc32fast::hash(b"\x10\x03payload").to_le_bytes();
        assert_eq!(seal_version(ValueKind::Head, 3, b"payload"), [&b"\x03\x10\x03"[..], &sum, b"payload"].concat());
        let sum = crc32fast::hash(b"\x04\x01herepayload").to_le_bytes();
        assert_eq!(
            seal_at(ValueKind::ContentChunk, b"here", b"payload"),
            [&b"\x03\x04\x01"[..], &sum, b"payload"].concat()
        );
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926, "the check value of CRC-32 (IEEE)");
    }

    #[test]
    fn a_sealed_value_opens_to_its_payload() {
        for payload in [&b"payload"[..], b""] {
            let value = seal(ValueKind::Pack, payload);
            assert_eq!(open(ValueKind::Pack, &value).as_deref(), Ok(payload));
            assert_eq!(open_version(ValueKind::Pack, &value).unwrap().version, 1);
            assert_eq!(check(&value), Ok(()));
        }
    }

    #[test]
    fn a_value_of_a_build_before_the_first_release_is_refused() {
        let (one, two) = (crc32fast::hash(b"payload").to_le_bytes(), crc32fast::hash(b"\x10\x01payload").to_le_bytes());
        let values =
            [(1, [&b"\x01"[..], &one, b"payload"].concat()), (2, [b"\x02\x10\x01", &two[..], b"payload"].concat())];
        for (form, value) in values {
            let value = Bytes::from(value);
            assert_eq!(check(&value), Err(EnvelopeError::Form(form)));
            assert_eq!(open(ValueKind::Head, &value), Err(EnvelopeError::Form(form)));
        }
    }

    #[test]
    fn a_value_of_another_kind_or_version_is_refused() {
        let value = seal(ValueKind::Pack, b"payload");
        assert_eq!(
            open(ValueKind::Head, &value),
            Err(EnvelopeError::Kind { found: ValueKind::Pack, expected: ValueKind::Head })
        );
        let later = seal_version(ValueKind::Pack, 2, b"payload");
        assert_eq!(open(ValueKind::Pack, &later), Err(EnvelopeError::Version { kind: ValueKind::Pack, version: 2 }));
        assert_eq!(open_version(ValueKind::Pack, &later), Ok(Opened { version: 2, payload: "payload".into() }));
    }

    #[test]
    fn a_whole_value_of_an_unknown_kind_is_refused() {
        let sum = crc32fast::hash(b"\xfa\x01x").to_le_bytes();
        let value = Bytes::from([&b"\x03\xfa\x01"[..], &sum, b"x"].concat());
        assert_eq!(check(&value), Err(EnvelopeError::UnknownKind(0xfa)));
        assert_eq!(open(ValueKind::Pack, &value), Err(EnvelopeError::UnknownKind(0xfa)));
    }

    #[test]
    fn any_flipped_bit_and_any_cut_are_found_in_values_of_every_kind() {
        let mut random = StdRng::seed_from_u64(1);
        for &kind in ValueKind::ALL {
            let payload: Vec<u8> = (0..random.random_range(0..40)).map(|_| random.random()).collect();
            let version = random.random();
            let value = seal_version(kind, version, &payload);
            for bit in 0..value.len() * 8 {
                let mut flipped = value.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let flipped = Bytes::from(flipped);
                assert!(open_version(kind, &flipped).is_err(), "{kind}: bit {bit} went unnoticed");
                assert!(check(&flipped).is_err(), "{kind}: bit {bit} went unnoticed");
            }
            for len in 0..value.len() {
                assert!(check(&value.slice(..len)).is_err(), "{kind}: cut at {len}");
            }
        }
    }

    #[test]
    fn a_value_that_is_sealed_for_a_place_opens_there_and_nowhere_else() {
        let kind = ValueKind::ContentChunk;
        let value = seal_at(kind, b"here", b"payload");
        assert_eq!(open_at(kind, b"here", &value).as_deref(), Ok(&b"payload"[..]));
        assert_eq!(open_at(kind, b"there", &value), Err(EnvelopeError::Checksum));
        assert_eq!(open(kind, &value), Err(EnvelopeError::Checksum));
    }

    #[test]
    fn a_short_value_is_refused() {
        assert_eq!(check(&Bytes::new()), Err(EnvelopeError::Short(0)));
        assert_eq!(check(&Bytes::from_static(&[3, 16])), Err(EnvelopeError::Short(2)));
        assert_eq!(check(&Bytes::from_static(&[3, 16, 1, 0, 0, 0])), Err(EnvelopeError::Short(6)));
        assert_eq!(check(&Bytes::from_static(b"abc")), Err(EnvelopeError::Form(b'a')));
    }
}
