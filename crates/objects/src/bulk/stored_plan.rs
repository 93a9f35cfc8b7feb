//! Plans as selections store them.

use std::sync::Arc;

use bytes::Bytes;
use hathi::VolumeId;
use pack::{Archive, Group, GroupPages, Layout, Level, Member, PageMember, Sums};
use serde::{Deserialize, Serialize};
use store::{Table, UnixMillis};

use super::errors::Missing;
use super::plan::{BulkPlan, PlannedVolume};
use super::request::OnDamage;
use super::selection::SelectionInfo;
use crate::error::{ObjectsError, ObjectsResult};

/// A plan as it is stored. Everything that the bytes of the archive depend on is in it, `ERROR.err` word by word.
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
    /// A plan's bytes as they are stored.
    pub(super) fn encode(plan: &BulkPlan) -> ObjectsResult<Vec<u8>> {
        let archive = &plan.archive;
        let stored = Self {
            layout: archive.layout,
            level: archive.level,
            groups: archive.groups.iter().map(StoredGroup::from).collect(),
            volumes: plan.volumes.to_vec(),
            missing: plan.missing.clone(),
            errors: archive.errors.clone(),
        };
        postcard::to_stdvec(&stored).map_err(|error| ObjectsError::Internal(format!("encoding a plan: {error}")))
    }

    /// What was encoded.
    pub(super) fn decode(encoded: &[u8]) -> ObjectsResult<Self> {
        postcard::from_bytes(encoded).map_err(|error| ObjectsError::corrupt(Table::Selections, &error.to_string()))
    }

    /// The volumes it names.
    pub(super) fn volumes(&self) -> Vec<VolumeId> {
        self.groups.iter().filter_map(|group| VolumeId::from_cleaned(&group.name).ok()).collect()
    }

    /// The plan again, read at `started`.
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
