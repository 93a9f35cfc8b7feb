//! The list of rows by expiry. With it a sweep reads only rows that have expired.
//!
//! A row that expires has one entry. It goes when the row does, or gets another expiry.
//!
//! Each entry is a key without a value: 8 bytes Unix milliseconds (big-endian), the table's name,
//! 0x00, the row's key.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};
use store::{Table, UnixMillis};

use crate::key::KeyRange;

const EXPIRY_BYTES: usize = 8;

/// The entry of a row.
pub(crate) fn encode(expires_at: UnixMillis, table: Table, key: &[u8]) -> Bytes {
    let name = table.name().as_bytes();
    let mut entry = BytesMut::with_capacity(EXPIRY_BYTES + name.len() + 1 + key.len());
    entry.put_u64(expires_at.0);
    entry.put_slice(name);
    entry.put_u8(0);
    entry.put_slice(key);
    entry.freeze()
}

/// The row of an entry; `None`: the entry is not valid.
pub(crate) fn decode(entry: &Bytes) -> Option<(Table, Bytes)> {
    let rest = entry.get(EXPIRY_BYTES..)?;
    let name_len = rest.iter().position(|byte| *byte == 0)?;
    let table = Table::ALL.into_iter().find(|table| table.name().as_bytes() == &rest[..name_len])?;
    Some((table, entry.slice(EXPIRY_BYTES + name_len + 1..)))
}

/// The time of an entry.
pub(crate) fn time(entry: &[u8]) -> Option<UnixMillis> {
    Some(UnixMillis(u64::from_be_bytes(*entry.first_chunk()?)))
}

/// The entries of rows that have expired, behind one of them.
pub(crate) fn due(now: UnixMillis, after: Option<&[u8]>) -> KeyRange {
    let begin = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.to_vec()));
    (begin, end_of(now.0.checked_add(1).map(UnixMillis)))
}

/// The entries of rows that expire from one time on, and before another.
pub(crate) fn between(from: UnixMillis, to: UnixMillis) -> KeyRange {
    (Bound::Included(from.0.to_be_bytes().to_vec()), end_of(Some(to)))
}

fn end_of(time: Option<UnixMillis>) -> Bound<Vec<u8>> {
    time.map_or(Bound::Unbounded, |time| Bound::Excluded(time.0.to_be_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::RangeBounds;

    use super::*;

    #[test]
    fn an_entry_gives_back_its_row() {
        for table in Table::ALL {
            let key = Bytes::from_static(b"\x00key\x00");
            assert_eq!(decode(&encode(UnixMillis(5), table, &key)), Some((table, key)));
        }
    }

    #[test]
    fn a_row_is_due_if_it_expires_now_or_did_earlier() {
        let range = due(UnixMillis(100), None);
        for (expires_at, is_due) in [(0, true), (99, true), (100, true), (101, false), (u64::MAX, false)] {
            let entry = encode(UnixMillis(expires_at), Table::Work, b"key").to_vec();
            assert_eq!(range.contains(&entry), is_due, "expires at {expires_at}");
            assert_eq!(time(&entry), Some(UnixMillis(expires_at)));
            assert!(!due(UnixMillis(100), Some(&entry)).contains(&entry));
        }
        let hour = between(UnixMillis(100), UnixMillis(200));
        for (expires_at, is_in) in [(99, false), (100, true), (199, true), (200, false)] {
            let entry = encode(UnixMillis(expires_at), Table::Work, b"key").to_vec();
            assert_eq!(hour.contains(&entry), is_in, "expires at {expires_at}");
        }
    }
}
