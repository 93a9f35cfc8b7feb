//! Where records live: a partition an hour, rows in the order of their ids.

use bytes::Bytes;
use store::UnixMillis;

/// Hours since the Unix epoch.
pub(super) fn hour_of(time: UnixMillis) -> u32 {
    u32::try_from(time.0 / 3_600_000).unwrap_or(u32::MAX)
}

/// The partition of an hour.
pub(super) fn partition(hour: u32) -> Bytes {
    Bytes::from([b"h/".as_slice(), &hour.to_be_bytes()].concat())
}

/// The hour of a partition.
pub(super) fn hour_of_partition(partition: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(partition.strip_prefix(b"h/")?.try_into().ok()?))
}

/// When the record of a sort key was written.
pub(super) fn time_of(sort: &[u8]) -> UnixMillis {
    let millis = sort.iter().take(6).fold(0, |millis, byte| millis << 8 | u64::from(*byte));
    UnixMillis(millis)
}

/// The smallest id that can be minted at `time`: its six bytes of milliseconds.
pub(super) fn sort_from(time: UnixMillis) -> Bytes {
    Bytes::copy_from_slice(&time.0.min((1 << 48) - 1).to_be_bytes()[2..])
}
