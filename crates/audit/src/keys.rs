//! Partitions and keys of audit records.
//!
//! A partition holds the records of one hour and one writer. The writer begins a further part
//! before a partition becomes too large. Rows are in the order of their ids.

use bytes::Bytes;
use heads::revision::RevisionId;
use store::UnixMillis;

/// Bytes of keys and values in one part. The writer counts them.
pub const PART_BYTES: usize = 32 << 20;

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    /// Hours since the Unix epoch.
    pub hour: u32,
    /// Distinguishes the writer's ids from those of others.
    pub writer: [u8; 8],
    /// The number of the writer's part in that hour: ids rise from one part to the next.
    pub number: u32,
}

impl Part {
    /// The first part of the writer that minted an id, in the hour of the id.
    pub fn first(id: RevisionId) -> Self {
        let mut writer = [0; 8];
        writer.copy_from_slice(&id.0[8..]);
        Self { hour: hour_of(id.time()), writer, number: 0 }
    }

    /// The key of the partition.
    pub fn partition(&self) -> Bytes {
        Bytes::from([b"h/", &self.hour.to_be_bytes()[..], &self.writer, &self.number.to_be_bytes()].concat())
    }

    /// The part that a partition key names.
    pub fn of_partition(partition: &[u8]) -> Option<Self> {
        let (hour, rest) = partition.strip_prefix(b"h/")?.split_first_chunk()?;
        let (writer, number) = rest.split_first_chunk()?;
        let number = u32::from_be_bytes(number.try_into().ok()?);
        Some(Self { hour: u32::from_be_bytes(*hour), writer: *writer, number })
    }
}

/// Hours since the Unix epoch.
pub(super) fn hour_of(time: UnixMillis) -> u32 {
    u32::try_from(time.0 / 3_600_000).unwrap_or(u32::MAX)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_part_reads_back_from_its_key_whose_bytes_are_these() {
        let part = Part { hour: 486_111, writer: *b"a writer", number: 7 };
        assert_eq!(part.partition(), &b"h/\0\x07\x6a\xdfa writer\0\0\0\x07"[..]);
        assert_eq!(Part::of_partition(&part.partition()), Some(part));
        assert_eq!(Part::of_partition(b"h/\0\x07\x6a\xdf"), None);
    }
}
