//! The stored form of keys and values in Cassandra.
//!
//! A value is one cell: a byte with the format, the expiry in milliseconds since the Unix epoch
//! (big-endian) if there is one, and the bytes of the value. A partition key begins with a format
//! byte, because Cassandra refuses an empty key.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use store::{Guard, Row, Stamp, StoreError, StoreResult, Table, UnixMillis, envelope};

/// A value that does not expire.
const LASTING: u8 = 1;

/// A value with an expiry before it.
const EXPIRING: u8 = 2;

/// The first byte of a stored partition key.
const KEY_FORMAT: u8 = 1;

/// Values up to this size are copied out of their response, so that a small one does not keep all
/// of it in memory.
const COPIED_BYTES_MAX: usize = 8 << 10;

/// Cassandra deletes an expired row this much later than it expires for Penates, so that no node's
/// clock is early.
const TTL_MARGIN: Duration = Duration::from_secs(3600);

/// The longest time to live that Cassandra is given; it accepts 20 years. A row that lives longer
/// than this is not deleted by Cassandra, but still expires for Penates.
const TTL_MAX: Duration = Duration::from_secs(5 * 365 * 24 * 3600);

/// Cassandra is given no time to live that ends later than this. In the default
/// `storage_compatibility_mode` of 5.0, and before, it refuses a write that expires after
/// 2038-01-19T03:14:06Z. This is a day before, because the clocks of its nodes may be ahead of this
/// one's.
const TTL_UNTIL: UnixMillis = UnixMillis((i32::MAX as u64 - 24 * 3600) * 1000);

/// The stored form of a partition key.
pub(crate) fn stored_partition(partition: &[u8]) -> Bytes {
    let mut stored = BytesMut::with_capacity(1 + partition.len());
    stored.put_u8(KEY_FORMAT);
    stored.put_slice(partition);
    stored.freeze()
}

/// The partition key of a stored form.
pub(crate) fn partition_of(table: Table, stored: &[u8]) -> StoreResult<Bytes> {
    match stored.split_first() {
        Some((&KEY_FORMAT, partition)) => Ok(Bytes::copy_from_slice(partition)),
        _ => Err(corrupt(table, "a partition key is not one of Penates")),
    }
}

/// The stored form of a value.
pub(crate) fn stored_value(value: &[u8], expires_at: Option<UnixMillis>) -> Bytes {
    let mut stored = BytesMut::with_capacity(9 + value.len());
    match expires_at {
        None => stored.put_u8(LASTING),
        Some(at) => {
            stored.put_u8(EXPIRING);
            stored.put_u64(at.0);
        }
    }
    stored.put_slice(value);
    stored.freeze()
}

/// The time to live that Cassandra gets as a hint, in seconds; 0: none.
pub(crate) fn time_to_live_s(expires_at: Option<UnixMillis>, now: UnixMillis) -> i32 {
    let Some(expires_at) = expires_at else { return 0 };
    let life = expires_at.since(now) + TTL_MARGIN;
    if life > TTL_MAX || now.plus(life) > TTL_UNTIL { 0 } else { i32::try_from(life.as_secs()).unwrap_or(0) }
}

/// The cells of a row besides its key.
pub(crate) struct Cells {
    pub(crate) value: Option<Bytes>,
    pub(crate) stamp: Option<Bytes>,
    pub(crate) tag: Option<Bytes>,
}

/// The row of some cells; `None`: it has expired.
pub(crate) fn row_of(table: Table, sort: Bytes, cells: Cells, now: UnixMillis) -> StoreResult<Option<Row>> {
    let stored = cells.value.ok_or_else(|| corrupt(table, "a row has no value"))?;
    let Some((value, expires_at)) = live_value(table, &stored, now)? else { return Ok(None) };
    let value = if value.len() <= COPIED_BYTES_MAX { Bytes::copy_from_slice(&value) } else { value };
    let guard = cells.stamp.map(|stamp| guard_of(table, &stamp, cells.tag)).transpose()?;
    Ok(Some(Row { sort: Bytes::copy_from_slice(&sort), value, guard, expires_at }))
}

/// A value and its expiry; `None`: it has expired.
fn live_value(table: Table, stored: &Bytes, now: UnixMillis) -> StoreResult<Option<(Bytes, Option<UnixMillis>)>> {
    match stored.first() {
        Some(&LASTING) => Ok(Some((stored.slice(1..), None))),
        Some(&EXPIRING) => {
            let at = stored.get(1..9).and_then(|at| at.try_into().ok()).map(u64::from_be_bytes);
            let at = at.ok_or_else(|| corrupt(table, "a value is truncated"))?;
            Ok((at > now.0).then(|| (stored.slice(9..), Some(UnixMillis(at)))))
        }
        _ => Err(corrupt(table, "a value is of another format")),
    }
}

/// Whether the cell of a value is what was written: of a known format, around a sealed value.
pub(crate) fn is_whole(stored: &Bytes) -> bool {
    let before = match stored.first() {
        Some(&LASTING) => 1,
        Some(&EXPIRING) => 9,
        _ => return false,
    };
    stored.len() >= before && envelope::check(&stored.slice(before..)).is_ok()
}

fn guard_of(table: Table, stamp: &[u8], tag: Option<Bytes>) -> StoreResult<Guard> {
    let stamp = stamp.try_into().map_err(|_| corrupt(table, "a stamp is not of 16 bytes"))?;
    Ok(Guard { stamp: Stamp(stamp), tag: tag.map_or_else(Bytes::new, |tag| Bytes::copy_from_slice(&tag)) })
}

pub(crate) fn corrupt(table: Table, detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt { table, detail: detail.into() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(stored: Bytes, now: u64) -> StoreResult<Option<Row>> {
        let cells = Cells { value: Some(stored), stamp: None, tag: None };
        row_of(Table::Objects, Bytes::new(), cells, UnixMillis(now))
    }

    #[test]
    fn a_value_lasts_until_the_millisecond_in_which_it_expires() {
        let stored = stored_value(b"v", Some(UnixMillis(1_000)));
        assert_eq!(read(stored.clone(), 999).unwrap().unwrap().value, "v");
        assert_eq!(read(stored, 1_000).unwrap(), None);
        assert_eq!(read(stored_value(b"", None), u64::MAX).unwrap().unwrap().value, "");
    }

    #[test]
    fn a_value_of_unknown_form_is_damage_and_no_panic() {
        for stored in [&b""[..], b"\x00v", b"\x02", b"\x02\0\0\0\0\0\0\0", b"\xFF"] {
            assert!(matches!(read(Bytes::copy_from_slice(stored), 0), Err(StoreError::Corrupt { .. })), "{stored:?}");
        }
        assert!(partition_of(Table::Objects, b"").is_err() && partition_of(Table::Objects, b"\x00p").is_err());
    }

    #[test]
    fn a_row_is_reclaimed_after_it_expires_and_never_before() {
        let now = UnixMillis(1_000_000);
        let time_to_live_s = |at| time_to_live_s(Some(UnixMillis(at)), now);
        assert!(time_to_live_s(1_000_000 + 10_000) > 10);
        assert!(time_to_live_s(0) > 0, "0 would mean for ever");
        assert_eq!(time_to_live_s(u64::MAX), 0);
        assert_eq!(super::time_to_live_s(None, now), 0);
    }

    #[test]
    fn cassandra_is_given_no_time_to_live_beyond_what_its_files_can_say() {
        let (beginning_of_2037, last) = (UnixMillis(2_114_380_800_000), UnixMillis(i32::MAX as u64 * 1000));
        let until = |at| time_to_live_s(Some(UnixMillis(at)), beginning_of_2037);
        assert_eq!(until(last.0), 0);
        assert_eq!(until(last.0 + 1_000), 0);
        let in_time = until(last.0 - 2 * 24 * 3_600_000);
        assert!(beginning_of_2037.0 / 1_000 + in_time as u64 <= last.0 / 1_000 - 24 * 3_600, "{in_time}");
        assert!(in_time > 360 * 24 * 3_600);
        assert_eq!(time_to_live_s(Some(last.plus(Duration::from_secs(60))), last), 0);
        assert_eq!(time_to_live_s(Some(UnixMillis(0)), last), 0);
    }

    #[test]
    fn the_stored_form_of_an_empty_partition_key_is_not_empty() {
        assert!(!stored_partition(b"").is_empty());
        for key in [&b""[..], b"\0", b"k"] {
            assert_eq!(partition_of(Table::Objects, &stored_partition(key)).unwrap(), key);
        }
    }
}
