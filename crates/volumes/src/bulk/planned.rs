//! A plan: what an archive holds, and where the bytes are.

use std::sync::Arc;

use area::{Area, OutsideArea};
use audit::AuditedVolume;
use budget::Share;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::revision::RevisionId;
use heads::volume_body::FramePlace;
use pack::{Archive, Group, GroupPages, PageMember};
use serde::{Deserialize, Serialize};
use store::UnixMillis;

use super::errors::Missing;
use super::request::OnDamage;

/// The contents of an archive, with their revisions.
#[derive(Debug)]
pub struct BulkPlan {
    /// What `pack` makes the archive from. Its groups are the volumes, in order.
    pub archive: Arc<Archive>,
    /// Where the bytes of each group are.
    pub volumes: Arc<[PlannedVolume]>,
    /// The archive's length in bytes; `None` if it is unknown in advance (recompressed, or
    /// [`OnDamage::Report`]).
    pub len_bytes: Option<u64>,
    /// The strong entity tag (RFC 9110, section 8.8.3), without its quotation marks; `None` if
    /// there is no length.
    pub etag: Option<String>,
    /// What was requested and is not in the archive; `ERROR.err` lists it.
    pub missing: Vec<Missing>,
    /// Entries in the archive.
    pub entries: u64,
    /// When planning began (before heads were read). The plan's life counts from here.
    pub started: UnixMillis,
    /// What a stream does on damage.
    pub on_damage: OnDamage,
    /// The plan's shares of `limits.memory`.
    pub memory: Option<PlanShares>,
}

/// The shares of memory of a plan.
#[derive(Debug)]
pub struct PlanShares {
    /// That of the archive and the volumes, which equal plans hold together.
    pub(super) _contents: Arc<Share>,
    /// That of what is missing, which each plan holds by itself.
    pub(super) _missing: Share,
}

impl BulkPlan {
    /// Whether all volumes that it has, or says that it lacks, are within an area; otherwise one
    /// that is not.
    pub fn check_within(&self, area: &Area) -> ObjectsResult<Result<(), OutsideArea>> {
        if !area.is_limited() {
            return Ok(Ok(()));
        }
        for group in 0..self.archive.groups.len() {
            if let Err(outside) = area.check_volume(&self.volume_id(group)?) {
                return Ok(Err(outside));
            }
        }
        Ok(self.missing.iter().try_for_each(|missing| area.check_volume(&missing.volume)))
    }

    /// The id of the volume that a group of the archive holds.
    pub fn volume_id(&self, group: usize) -> ObjectsResult<VolumeId> {
        volume_id(&self.archive, group)
    }

    /// Returns what the audit records about some groups.
    pub(super) fn audited(archive: &Archive, groups: std::ops::Range<usize>) -> ObjectsResult<Vec<AuditedVolume>> {
        groups
            .map(|group| {
                let pages = match &archive.groups[group].pages {
                    GroupPages::All { .. } => None,
                    GroupPages::Some(pages) => Some(pages.iter().map(|page| page.seq).collect()),
                };
                Ok(AuditedVolume { volume: volume_id(archive, group)?, pages })
            })
            .collect()
    }

    /// Returns what the audit records about a request for it: what it has, and what it lacks, which
    /// was requested too. The missing pages of a volume are one entry.
    pub(super) fn asked(&self) -> ObjectsResult<Vec<AuditedVolume>> {
        let mut asked = Self::audited(&self.archive, 0..self.archive.groups.len())?;
        let are_pages = |one: &Missing, next: &Missing| {
            one.page_seq().is_some() && next.page_seq().is_some() && one.volume == next.volume
        };
        asked.extend(self.missing.chunk_by(are_pages).map(|some| AuditedVolume {
            volume: some[0].volume.clone(),
            pages: some.iter().map(Missing::page_seq).collect(),
        }));
        Ok(asked)
    }
}

/// The id that a group's name is the cleaned form of. Cleaning can be reversed, so plans do not
/// also store ids.
pub(super) fn volume_id(archive: &Archive, group: usize) -> ObjectsResult<VolumeId> {
    VolumeId::from_cleaned(&archive.groups[group].name)
        .map_err(|error| ObjectsError::Internal(format!("a group's name is no cleaned id: {error}")))
}

/// Approximate bytes in memory of the groups of an archive and their volumes, without an
/// allocator's rounding.
pub(super) fn contents_bytes(groups: &[Group], volumes: &[PlannedVolume]) -> usize {
    let pages: usize = volumes.iter().map(|volume| volume.pages.len()).sum();
    let names: usize = groups.iter().map(|group| group.name.len()).sum();
    size_of_val(groups) + size_of_val(volumes) + pages * (size_of::<PageMember>() + size_of::<PlannedPage>()) + names
}

/// Where the bytes of a planned volume are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedVolume {
    /// The revision that was current.
    pub revision: RevisionId,
    /// The generation that its rows are keyed by.
    pub generation: RevisionId,
    /// Where its METS is.
    pub mets: FramePlace,
    /// Where its pages are, in the order of the archive, if only some are wanted
    /// ([`GroupPages::Some`]).
    pub pages: Box<[PlannedPage]>,
}

/// Where one page of a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedPage {
    /// Its index in METS order.
    pub index: u32,
    /// Its frame.
    pub place: FramePlace,
}
