//! The description of an archive: groups of pages in a layout, at a level.

use crate::layout::Entries;
use crate::{Layout, Sums};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Highest sequence number of a page in an archive, because names have eight digits.
pub const MAX_SEQ: u32 = 99_999_999;

/// A stored page or METS document, as an archive's directory describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Length of the text in bytes, at most [`MAX_TEXT_BYTES`](crate::frame::MAX_TEXT_BYTES).
    pub size: u32,
    /// Length of the frame in bytes.
    pub frame_len: u32,
    /// CRC-32 of the text.
    pub crc32: u32,
}

/// A page of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageMember {
    /// Sequence number, 1 to [`MAX_SEQ`]; it names the page's entry.
    pub seq: u32,
    /// The page.
    pub member: Member,
}

/// How the texts are compressed. All entries with content have method 8 (DEFLATE), whatever the
/// level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Level {
    /// The stored frames, unchanged. The length is known.
    Frames,
    /// DEFLATE stored blocks (level 0), without compression. The length is known.
    Stored,
    /// Compressed again at this level, 1 to 9. The length is not known beforehand.
    Recompressed(u8),
}

/// One volume of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name that its entries begin with (a cleaned volume id).
    pub name: Box<str>,
    /// Its pages.
    pub pages: GroupPages,
    /// The METS document that follows the pages, if requested.
    pub mets: Option<Member>,
}

/// Which pages of a volume are in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupPages {
    /// All of them, in METS order. The source is asked for single members only where they are
    /// needed.
    All {
        /// Sums over all pages.
        sums: Sums,
        /// CRC-32 of all pages joined.
        crc32: u32,
    },
    /// Some of them, in the requested order.
    Some(Box<[PageMember]>),
}

/// An archive to send. It is small and cheap to keep, because it holds no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// How pages become entries.
    pub layout: Layout,
    /// How texts are compressed.
    pub level: Level,
    /// The volumes, in the order of their entries.
    pub groups: Vec<Group>,
    /// The text of the last entry, `ERROR.err`.
    pub errors: Option<Bytes>,
    /// Report mode: entries have data descriptors, so pages can be left out while streaming. The
    /// length is not known.
    pub descriptors: bool,
}

impl Level {
    /// The level of a number from 0 (stored blocks) to 9; `None` for more.
    pub fn of_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Stored),
            1..=9 => Some(Self::Recompressed(number)),
            _ => None,
        }
    }
}

impl GroupPages {
    /// Sums over the pages.
    pub fn sums(&self) -> Sums {
        match self {
            Self::All { sums, .. } => *sums,
            Self::Some(pages) => pages.iter().map(|page| &page.member).collect(),
        }
    }

    /// CRC-32 of all the pages joined.
    pub fn crc32(&self) -> u32 {
        match self {
            Self::All { crc32, .. } => *crc32,
            Self::Some(pages) => pages
                .iter()
                .fold(0, |crc32, page| crate::crc32_combine(crc32, page.member.crc32, u64::from(page.member.size))),
        }
    }
}

impl Archive {
    /// Number of entries, including directories and `ERROR.err`. In report mode the number includes
    /// entries that are left out while streaming, and does not include an `ERROR.err` that exists
    /// only because of them.
    pub fn entry_count(&self) -> u64 {
        let of_groups = match self.layout.entries() {
            Entries::OfGroups(names) => self.groups.iter().map(|group| names(group).count(group)).sum(),
            Entries::One(_) => u64::from(!self.groups.is_empty()),
        };
        of_groups + u64::from(self.errors.is_some())
    }
}
