//! The stored form of the plans of selections.

use std::sync::Arc;

use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use pack::{Archive, Group, GroupPages, Layout, Level, Member, PageMember, Sums};
use serde::{Deserialize, Serialize};
use store::{Table, UnixMillis};

use super::errors::{Missing, MissingReason};
use super::planned::{BulkPlan, PlannedVolume};
use super::request::OnDamage;
use super::selection_info::SelectionInfo;

/// A plan as it is stored. It contains everything that determines the bytes of the archive,
/// including the exact text of `ERROR.err`.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredPlan {
    layout: Layout,
    level: Level,
    groups: Vec<StoredGroup>,
    volumes: Vec<PlannedVolume>,
    missing: Vec<Missing>,
    errors: Option<Bytes>,
}

#[derive(Serialize, Deserialize)]
struct StoredGroup {
    name: Box<str>,
    pages: StoredPages,
    mets: Option<Member>,
}

#[derive(Serialize, Deserialize)]
enum StoredPages {
    All { sums: Sums, crc32: u32 },
    Some(Box<[PageMember]>),
}

impl StoredPlan {
    /// Encodes a plan for storage.
    pub(super) fn encode(plan: &BulkPlan) -> ObjectsResult<Vec<u8>> {
        let archive = &plan.archive;
        let stored = Self {
            layout: archive.layout,
            level: archive.level,
            groups: archive.groups.iter().map(StoredGroup::from).collect(),
            volumes: plan.volumes.to_vec(),
            missing: plan.missing.iter().map(stored_missing).collect(),
            errors: archive.errors.clone(),
        };
        postcard::to_stdvec(&stored).map_err(|error| ObjectsError::Internal(format!("encoding a plan: {error}")))
    }

    /// Decodes a stored plan.
    pub(super) fn decode(encoded: &[u8]) -> ObjectsResult<Self> {
        store::stored::decode(encoded).map_err(|error| ObjectsError::corrupt(Table::Selections, &error.to_string()))
    }

    /// Restores the plan, read at `started`.
    pub(super) fn into_plan(self, info: SelectionInfo, started: UnixMillis) -> BulkPlan {
        let groups = self.groups.into_iter().map(Group::from).collect();
        let Self { layout, level, errors, missing, .. } = self;
        BulkPlan {
            archive: Arc::new(Archive { layout, level, groups, errors, descriptors: false }),
            volumes: self.volumes.into(),
            len_bytes: Some(info.len_bytes),
            etag: Some(info.etag),
            missing,
            entries: info.entries,
            started,
            on_damage: OnDamage::Break,
            memory: None,
        }
    }
}

/// Reads the volumes that a stored plan names while its bytes arrive. Holds no more of them than
/// one volume takes.
#[derive(Default)]
pub(super) struct StoredVolumes {
    /// Bytes that have arrived and are not read yet.
    ahead: Vec<u8>,
    /// Groups that are still to be read; `None` if their number is unknown yet.
    left: Option<u64>,
}

impl StoredVolumes {
    /// Accepts more bytes and returns the volumes that are complete by now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> ObjectsResult<Vec<VolumeId>> {
        self.ahead.extend_from_slice(bytes);
        let mut volumes = Vec::new();
        let mut rest = &self.ahead[..];
        if self.left.is_none() {
            // The fields before the groups, and the number of groups.
            self.left = next::<(Layout, Level, u64)>(&mut rest)?.map(|(_, _, groups)| groups);
        }
        while let Some(left @ 1..) = self.left
            && let Some(group) = next::<StoredGroup>(&mut rest)?
        {
            self.left = Some(left - 1);
            volumes.extend(VolumeId::from_cleaned(&group.name).ok());
        }
        let read = self.ahead.len() - rest.len();
        self.ahead.drain(..read);
        Ok(volumes)
    }

    /// Whether all groups were read.
    pub(super) fn are_all_read(&self) -> bool {
        self.left == Some(0)
    }
}

/// Decodes the next value; `None` if it is incomplete.
fn next<T: serde::de::DeserializeOwned>(bytes: &mut &[u8]) -> ObjectsResult<Option<T>> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, rest)) => {
            *bytes = rest;
            Ok(Some(value))
        }
        Err(postcard::Error::DeserializeUnexpectedEnd) => Ok(None),
        Err(error) => Err(ObjectsError::corrupt(Table::Selections, &error.to_string())),
    }
}

/// What is missing, with a reason that every version of Penates can read. `errors` has the exact
/// one.
fn stored_missing(missing: &Missing) -> Missing {
    let reason = match missing.reason {
        MissingReason::NotKept => MissingReason::Absent,
        reason @ (MissingReason::Absent | MissingReason::Damaged | MissingReason::Unavailable) => reason,
    };
    Missing { reason, ..missing.clone() }
}

impl From<StoredGroup> for Group {
    fn from(stored: StoredGroup) -> Self {
        let pages = match stored.pages {
            StoredPages::All { sums, crc32 } => GroupPages::All { sums, crc32 },
            StoredPages::Some(pages) => GroupPages::Some(pages),
        };
        Self { name: stored.name, pages, mets: stored.mets }
    }
}

impl From<&Group> for StoredGroup {
    fn from(group: &Group) -> Self {
        let pages = match &group.pages {
            GroupPages::All { sums, crc32 } => StoredPages::All { sums: *sums, crc32: *crc32 },
            GroupPages::Some(pages) => StoredPages::Some(pages.clone()),
        };
        Self { name: group.name.clone(), pages, mets: group.mets }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn volumes_are_read_from_a_stored_plan_in_pieces_of_any_size() {
        let names: Vec<String> = (0..50).map(|n| format!("t.volume{n}")).collect();
        let group = |name: &String| StoredGroup {
            name: VolumeId::parse(name).unwrap().cleaned().to_string().into(),
            pages: StoredPages::All { sums: Sums::default(), crc32: 7 },
            mets: None,
        };
        let plan = StoredPlan {
            layout: Layout::Volumes,
            level: Level::Frames,
            groups: names.iter().map(group).collect(),
            volumes: Vec::new(),
            missing: Vec::new(),
            errors: Some(Bytes::from_static(b"what is missing")),
        };
        let encoded = postcard::to_stdvec(&plan).unwrap();
        for piece_bytes in [1, 7, 64, encoded.len()] {
            let (mut volumes, mut read) = (StoredVolumes::default(), Vec::new());
            for piece in encoded.chunks(piece_bytes) {
                read.extend(volumes.take(piece).unwrap());
            }
            assert!(volumes.are_all_read());
            assert_eq!(read.iter().map(VolumeId::as_str).collect::<Vec<_>>(), names, "pieces of {piece_bytes}");
        }
    }
}
