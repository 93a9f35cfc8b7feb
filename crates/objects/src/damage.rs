//! Marks on what is stored but is not what came in: one row a member, counted in the head, so that a plan looks for them only
//! where there are some.

use std::collections::BTreeSet;

use hathi::VolumeId;
use serde::{Deserialize, Serialize};
use store::{Class, NewRow, Removal, Scan, Step, Table, UnixMillis};

use crate::error::{ObjectsError, ObjectsResult};
use crate::head::{self, Body, Head, HeadRow, VolumeBody};
use crate::keys;
use crate::library::Library;
use crate::revision::RevisionId;
use crate::switch::Tries;

/// The member number of a mark that says that the whole volume cannot be read: its directory is damaged.
pub const WHOLE_VOLUME: u32 = u32::MAX;

/// Characters of an explanation that are kept.
const DETAIL_CHARS_MAX: usize = 500;

/// Bytes of one page of a scan over marks.
const SCAN_BYTES: usize = 256 << 10;

/// The value of a mark.
#[derive(Serialize, Deserialize)]
struct Damage {
    detail: String,
    found_at: UnixMillis,
}

impl Library {
    /// Marks a member of a volume's current revision as damaged: the index of a page in METS order, the number of pages for
    /// METS, one more for the record, [`WHOLE_VOLUME`]. Of a revision that is no longer current nothing is marked.
    pub async fn mark_damaged(
        &self,
        id: &VolumeId,
        revision: RevisionId,
        member: u32,
        detail: &str,
    ) -> ObjectsResult<()> {
        self.change_damage(id, revision, &[(member, detail.to_owned())], |_| false).await
    }

    /// The members of a revision that carry a mark, ascending.
    pub async fn damaged_members(&self, id: &VolumeId, revision: RevisionId) -> ObjectsResult<Vec<u32>> {
        let partition = keys::volume_partition(id);
        let mut members = Vec::new();
        let mut scan = Some(Scan::prefix(keys::damage_prefix(revision), SCAN_BYTES));
        while let Some(range) = scan {
            let call = self.call(Class::Description).strong();
            let page = self.inner.store.scan(call, Table::Objects, &partition, range.clone()).await?;
            members.extend(page.rows.iter().filter_map(|row| keys::number_of(&row.sort)));
            scan = range.resumed(page.next);
        }
        Ok(members)
    }

    /// Marks what was found and clears the marks of what is sound, and sets the head's count to what is left. Rows to be cleared
    /// go first: a crash in between leaves a count that is too high, which costs a look, never one that is too low.
    pub(crate) async fn change_damage(
        &self,
        id: &VolumeId,
        revision: RevisionId,
        found: &[(u32, String)],
        is_sound: impl Fn(u32) -> bool,
    ) -> ObjectsResult<()> {
        let partition = keys::volume_partition(id);
        let mut tries = Tries::new();
        loop {
            let row = self.patiently(|| self.head(id)).await?;
            let Some((row, body)) = row.as_ref().and_then(|row| current_volume(row, revision)) else { return Ok(()) };
            let marked: BTreeSet<u32> =
                self.patiently(|| self.damaged_members(id, revision)).await?.into_iter().collect();
            let new: Vec<_> = found.iter().filter(|(member, _)| !marked.contains(member)).collect();
            let cleared: Vec<u32> = marked.iter().copied().filter(|member| is_sound(*member)).collect();
            let left = marked.len() - cleared.len() + new.len();
            let damaged = u32::try_from(left).unwrap_or(u32::MAX);
            if new.is_empty() && cleared.is_empty() && damaged == body.damaged {
                return Ok(());
            }
            let head = Head { body: Body::Volume(VolumeBody { damaged, ..body.clone() }), ..row.head.clone() };
            let rows = new.iter().map(|(member, detail)| self.damage_row(revision, *member, detail));
            let rows = rows.collect::<ObjectsResult<Vec<_>>>()?;
            let before = clearing(&partition, revision, &cleared);
            if self.try_amend(&partition, Some(row), head, rows, before).await?.is_some() {
                return Ok(());
            }
            if !tries.again().await {
                return Err(ObjectsError::Overloaded(format!("damage of {id} could not be marked")));
            }
        }
    }

    fn damage_row(&self, revision: RevisionId, member: u32, detail: &str) -> ObjectsResult<NewRow> {
        let detail = detail.chars().take(DETAIL_CHARS_MAX).collect();
        let damage = Damage { detail, found_at: self.inner.clock.now() };
        Ok(NewRow::new(keys::damage(revision, member), head::seal(&damage)?))
    }
}

fn current_volume(row: &HeadRow, revision: RevisionId) -> Option<(&HeadRow, &VolumeBody)> {
    let body = row.head.live_volume().filter(|_| row.head.revision == revision)?;
    Some((row, body))
}

fn clearing(partition: &bytes::Bytes, revision: RevisionId, members: &[u32]) -> Vec<Step> {
    if members.is_empty() {
        return Vec::new();
    }
    let rows = members.iter().map(|member| keys::damage(revision, *member)).collect();
    vec![Step::Remove { table: Table::Objects, partition: partition.clone(), rows: Removal::Rows(rows) }]
}
