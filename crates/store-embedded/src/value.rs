//! The stored form of a table's value: a kind, its fields, and the row's value.
//!
//! | kind | then |
//! |---|---|
//! | 0 plain | value |
//! | 1 expiring | 8 bytes Unix milliseconds, big-endian; value |
//! | 2 guarded | 16 bytes stamp; 1 byte length of the tag; tag; value |
//!
//! A large value is returned as a slice of the bytes that the engine read, without copying; it
//! keeps its block in memory. A small one is copied: otherwise thousands of heads would keep
//! thousands of blocks of 32 KiB in memory.

use bytes::{BufMut, Bytes, BytesMut};
use store::{Guard, Row, Stamp, StoreError, StoreResult, UnixMillis};

const PLAIN: u8 = 0;
const EXPIRING: u8 = 1;
const GUARDED: u8 = 2;

/// Values up to this size are copied out of their block.
const SMALL_BYTES: usize = 4 << 10;

const STAMP_BYTES: usize = 16;
const EXPIRY_BYTES: usize = 8;

/// A decoded value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) value: Bytes,
    pub(crate) guard: Option<Guard>,
    pub(crate) expires_at: Option<UnixMillis>,
}

impl Value {
    /// Whether reads no longer see it.
    pub(crate) fn is_expired(&self, now: UnixMillis) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }

    /// The row at a sort key.
    pub(crate) fn into_row(self, sort: Bytes) -> Row {
        Row { sort, value: self.value, guard: self.guard, expires_at: self.expires_at }
    }
}

/// Encodes the value of an immutable row.
pub(crate) fn encode_plain(value: &[u8], expires_at: Option<UnixMillis>) -> Bytes {
    let mut encoded = BytesMut::with_capacity(1 + EXPIRY_BYTES + value.len());
    match expires_at {
        None => encoded.put_u8(PLAIN),
        Some(expires_at) => {
            encoded.put_u8(EXPIRING);
            encoded.put_u64(expires_at.0);
        }
    }
    encoded.put_slice(value);
    encoded.freeze()
}

/// Encodes the value of a guarded row.
pub(crate) fn encode_guarded(value: &[u8], guard: &Guard) -> StoreResult<Bytes> {
    let tag_len = u8::try_from(guard.tag.len()).map_err(|_| StoreError::Limit {
        what: "bytes of a tag",
        actual: guard.tag.len() as u64,
        max: u8::MAX.into(),
    })?;
    let mut encoded = BytesMut::with_capacity(2 + STAMP_BYTES + guard.tag.len() + value.len());
    encoded.put_u8(GUARDED);
    encoded.put_slice(&guard.stamp.0);
    encoded.put_u8(tag_len);
    encoded.put_slice(&guard.tag);
    encoded.put_slice(value);
    Ok(encoded.freeze())
}

/// When an encoded value expires; `None`: never, or it is no value.
pub(crate) fn expires_at(encoded: &[u8]) -> Option<UnixMillis> {
    let (EXPIRING, rest) = encoded.split_first().map(|(kind, rest)| (*kind, rest))? else { return None };
    Some(UnixMillis(u64::from_be_bytes(*rest.first_chunk()?)))
}

/// Whether an encoded value belongs to a guarded row.
pub(crate) fn is_guarded(encoded: &[u8]) -> bool {
    encoded.first() == Some(&GUARDED)
}

/// Decodes a value; `None`: this module did not encode it.
pub(crate) fn decode(encoded: &Bytes) -> Option<Value> {
    match *encoded.first()? {
        PLAIN => Some(Value { value: value_at(encoded, 1), guard: None, expires_at: None }),
        EXPIRING => {
            let expires_at = u64::from_be_bytes(encoded.get(1..1 + EXPIRY_BYTES)?.try_into().ok()?);
            let value = value_at(encoded, 1 + EXPIRY_BYTES);
            Some(Value { value, guard: None, expires_at: Some(UnixMillis(expires_at)) })
        }
        GUARDED => {
            let stamp = Stamp(encoded.get(1..1 + STAMP_BYTES)?.try_into().ok()?);
            let tag_at = 2 + STAMP_BYTES;
            let at = tag_at + usize::from(*encoded.get(1 + STAMP_BYTES)?);
            if encoded.len() < at {
                return None;
            }
            // The tag is small, and many heads are kept longer than their block: it is copied, so
            // as not to keep the block.
            let tag = Bytes::copy_from_slice(&encoded[tag_at..at]);
            Some(Value { value: value_at(encoded, at), guard: Some(Guard { stamp, tag }), expires_at: None })
        }
        _ => None,
    }
}

fn value_at(encoded: &Bytes, at: usize) -> Bytes {
    if encoded.len() - at <= SMALL_BYTES { Bytes::copy_from_slice(&encoded[at..]) } else { encoded.slice(at..) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_kind_decodes_to_what_was_encoded() {
        let value = Bytes::from_static(b"value");
        let expires_at = Some(UnixMillis(77));
        assert_eq!(
            decode(&encode_plain(b"value", None)),
            Some(Value { value: value.clone(), guard: None, expires_at: None })
        );
        assert_eq!(
            decode(&encode_plain(b"value", expires_at)),
            Some(Value { value: value.clone(), guard: None, expires_at })
        );
        let guard = Guard { stamp: Stamp::fresh(), tag: Bytes::from_static(b"tag") };
        let encoded = encode_guarded(b"value", &guard).unwrap();
        assert_eq!(decode(&encoded), Some(Value { value, guard: Some(guard), expires_at: None }));
    }

    #[test]
    fn a_truncated_value_is_distinguished_from_a_whole_one() {
        let guard = Guard { stamp: Stamp::fresh(), tag: Bytes::from_static(b"tag") };
        let encoded = encode_guarded(b"", &guard).unwrap();
        for len in 0..encoded.len() {
            assert_eq!(decode(&encoded.slice(..len)), None, "cut to {len} bytes");
        }
        assert_eq!(decode(&Bytes::from_static(&[EXPIRING, 0, 0])), None);
    }

    #[test]
    fn a_value_of_an_unknown_kind_is_refused() {
        assert_eq!(decode(&Bytes::from_static(&[9, 1, 2])), None);
    }
}
