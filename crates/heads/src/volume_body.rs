//! The contents of a volume's head.

use pack::{Member, Sums};
use serde::{Deserialize, Serialize};

use crate::revision::RevisionId;

/// A volume: sums for plans, and the places of its METS and record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeBody {
    /// The revision that wrote its directory, fixity and packs. They are keyed by it.
    pub generation: RevisionId,
    /// Sums over its pages (METS and record are not pages).
    pub pages: Sums,
    /// CRC-32 of all pages joined.
    pub pages_crc32: u32,
    /// Its METS.
    pub mets: Entry,
    /// Its metadata record, if the source had one.
    pub record: Option<Entry>,
    /// How many members carry a damage mark.
    pub damaged: u32,
    /// SHA-256 over (sequence, size, CRC-32) of the source ZIP's pages.
    pub members_digest: [u8; 32],
    /// SHA-256 of the METS.
    pub mets_sha256: [u8; 32],
    /// SHA-256 of the record.
    pub record_sha256: Option<[u8; 32]>,
    /// `rightsAttributes` of the record.
    pub rights: Option<String>,
    /// `accessProfile` of the record.
    pub access_profile: Option<String>,
    /// `title` of the record, at most 1,000 characters.
    pub title: Option<String>,
    /// `pubDate` of the record.
    pub pub_date: Option<String>,
    /// `language` of the record.
    pub language: Option<String>,
}

/// Where a frame begins: the pack of its generation, and the byte in that pack's payload. A frame
/// that is longer than the rest of the pack continues in the following packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FramePlace {
    /// The pack.
    pub pack: u32,
    /// The byte.
    pub offset: u32,
}

/// A member of a volume: a page, its METS or its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The page's sequence; 0 for METS and record.
    pub seq: u32,
    /// Size, frame length, CRC-32.
    pub member: Member,
    /// Where its frame is.
    pub place: FramePlace,
}
