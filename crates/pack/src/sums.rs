//! Sums over members. From them the length of an archive is computed without looking at each
//! member.

use crate::{Member, stored_len};
use serde::{Deserialize, Serialize};

/// Sums over some members of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// How many members.
    pub count: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Bytes of their frames.
    pub frame_bytes: u64,
    /// Bytes of their texts as DEFLATE stored blocks, each member beginning a block
    /// ([`stored_len`]).
    pub stored_bytes: u64,
}

impl Sums {
    /// The sums of one member.
    pub fn of(member: &Member) -> Self {
        Self {
            count: 1,
            bytes: u64::from(member.size),
            frame_bytes: u64::from(member.frame_len),
            stored_bytes: stored_len(u64::from(member.size)),
        }
    }

    /// Adds other sums to these.
    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.frame_bytes += other.frame_bytes;
        self.stored_bytes += other.stored_bytes;
    }
}

impl<'a> FromIterator<&'a Member> for Sums {
    fn from_iter<I: IntoIterator<Item = &'a Member>>(members: I) -> Self {
        members.into_iter().fold(Self::default(), |mut sums, member| {
            sums.add(Self::of(member));
            sums
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_count_each_member_with_its_own_stored_blocks() {
        let members = [(0, 0), (1, 6), (65_535, 100), (65_536, 200)];
        let sums: Sums = members
            .iter()
            .map(|&(size, frame_len)| Member { size, frame_len, crc32: 0 })
            .collect::<Vec<_>>()
            .iter()
            .collect();
        assert_eq!(sums, Sums { count: 4, bytes: 131_072, frame_bytes: 306, stored_bytes: 131_072 + 4 * 5 });
    }
}
