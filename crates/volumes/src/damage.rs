//! Damage marks on members of volumes: one row per member, counted in the head, so that a plan
//! reads marks only if there are some.
//!
//! Marks have a table of their own ([`Table::Damage`]): one broken block of an engine damages rows
//! of several kinds, and a mark must be readable although the volume's other rows are not. Some
//! marks cannot be stored there. An unreadable head itself shows that its volume is damaged.
//! Unreadable marks count as a mark on the whole volume. If a mark cannot be written (a full disk,
//! a store that refuses writes), this process remembers it until it is written or the member is
//! found sound, so that its next plan does not repeat a promise that it could not keep.
//!
//! A new import heals a volume: its rows have keys of their own, and the damaged rows are not read
//! any more. An unreadable head cannot be healed in place. Only the head recorded its own stamp,
//! the incarnation in the container, and what is condemned. So an import, a deletion and a
//! verification of that volume all report damage. Such a volume has to be imported into a new
//! store.

use std::collections::BTreeSet;

use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Body, Head, HeadRow};
use heads::keys;
use heads::retries::Tries;
use heads::revision::RevisionId;
use heads::volume_body::VolumeBody;
use store::{Class, NewRow, Removal, Scan, Step, Table, ValueKind, boxed, envelope};

use crate::generations::listing;
use crate::handle::Volumes;
use crate::read::Volume;
use crate::versions::Then;

/// The member number of a mark on the whole volume: its directory is damaged, so it cannot be read.
pub const WHOLE_VOLUME: u32 = u32::MAX;

/// Marks that are put or cleared in one step. A step has a limited number of rows, and a volume may
/// have more damaged pages than that.
const MARKS_OF_STEP: usize = 4_096;

/// Bytes of one page of a scan over marks.
const SCAN_BYTES: usize = 256 << 10;

impl Volumes {
    /// Marks a member of a volume's revision as damaged. `member` is the index of a page in
    /// METS order, the number of pages for METS, one more for the record, or [`WHOLE_VOLUME`]. Does
    /// nothing if the revision is neither current nor kept any more. `detail`, how the damage was
    /// noticed, is logged.
    ///
    /// If the mark cannot be written, this process remembers it. Away from the heads' home nothing
    /// is marked, because heads are not changed there. The damage is counted in each case.
    #[boxed]
    pub async fn mark_damaged(
        &self,
        id: &VolumeId,
        revision: RevisionId,
        member: u32,
        detail: &str,
    ) -> ObjectsResult<()> {
        if !self.heads.is_home() {
            self.heads.note_damage();
            tracing::warn!(volume = %id, %revision, member, detail, "damaged; servers at the heads' home mark it");
            return Ok(());
        }
        let marked = self.change_damage(id, revision, &[(member, detail.to_owned())], |_| false).await;
        if marked.is_err() {
            self.heads.note_damage();
            self.inner.unwritten_marks.add(id, revision, member);
        }
        marked
    }

    /// The marked members of a revision, ascending.
    pub async fn damaged_members(&self, id: &VolumeId, revision: RevisionId) -> ObjectsResult<Vec<u32>> {
        let mut members = self.written_marks(id, revision).await?;
        members.extend(self.inner.unwritten_marks.of(id, revision));
        Ok(members.into_iter().collect())
    }

    /// The damaged members of a volume that was just read, ascending. Reads its marks only if its
    /// head counts some.
    pub(crate) async fn known_damage(&self, volume: &Volume) -> ObjectsResult<Vec<u32>> {
        if volume.body.damaged > 0 {
            return self.damaged_members(&volume.id, volume.revision).await;
        }
        Ok(self.inner.unwritten_marks.of(&volume.id, volume.revision).into_iter().collect())
    }

    /// The members whose marks are in the store.
    async fn written_marks(&self, id: &VolumeId, revision: RevisionId) -> ObjectsResult<BTreeSet<u32>> {
        let partition = marks_partition(id, revision);
        let mut members = BTreeSet::new();
        let mut scan = Some(Scan::prefix(keys::damage_prefix(revision), SCAN_BYTES));
        while let Some(range) = scan {
            let call = self.heads.call(Class::Description).strong();
            let page = self.heads.store().scan(call, Table::Damage, &partition, range.clone()).await;
            let page = page.map_err(|error| ObjectsError::from(error).of_volume(id))?;
            members.extend(page.rows.iter().filter_map(|row| keys::number_of(&row.sort)));
            scan = range.resumed(page.next);
        }
        Ok(members)
    }

    /// Marks what was found, clears the marks of sound members, and sets the head's count to the
    /// remaining marks. Rows change before the head. A crash in between leaves a count that is too
    /// high, which costs a read, or marks that are not counted yet. Those were not acknowledged,
    /// and the next reader that finds the damage counts them.
    pub(crate) async fn change_damage(
        &self,
        id: &VolumeId,
        revision: RevisionId,
        found: &[(u32, String)],
        is_sound: impl Fn(u32) -> bool,
    ) -> ObjectsResult<()> {
        let mut tries = Tries::default();
        let found_members: BTreeSet<u32> = found.iter().map(|(member, _)| *member).collect();
        loop {
            let row = self.heads.retry_transient(|| self.head(id)).await?;
            let Some((row, body)) = row.as_ref().and_then(|row| current_volume(row, revision)) else {
                return self.mark_earlier(id, row, revision, found).await;
            };
            let marked = self.marks_to_change(id, revision, body, found).await?;
            let new: Vec<_> = found.iter().filter(|(member, _)| !marked.contains(member)).collect();
            let cleared: Vec<u32> = marked.iter().copied().filter(|member| is_sound(*member)).collect();
            let left = marked.len() - cleared.len() + new.len();
            let damaged = u32::try_from(left).unwrap_or(u32::MAX);
            if !new.is_empty() || !cleared.is_empty() || damaged != body.damaged {
                let head = Head { body: Body::Volume(VolumeBody { damaged, ..body.clone() }), ..row.head.clone() };
                let new_members: Vec<u32> = new.iter().map(|(member, _)| *member).collect();
                let mut before = putting(id, revision, &new_members);
                before.extend(clearing(id, revision, &cleared));
                let partition = keys::volume_partition(id);
                if self.heads.try_amend(&partition, Some(row), head, before).await?.is_none() {
                    if tries.again().await {
                        continue;
                    }
                    return Err(ObjectsError::Overloaded(format!("damage of {id} could not be marked")));
                }
            }
            for (member, detail) in new {
                self.heads.note_damage();
                tracing::warn!(volume = %id, %revision, member, detail, "marked as damaged");
            }
            self.inner.unwritten_marks.forget(id, |member| is_sound(member) || found_members.contains(&member));
            return Ok(());
        }
    }

    /// Marks what was found of an earlier version, if it is kept. No head counts these marks:
    /// a reader of an earlier version reads its marks.
    async fn mark_earlier(
        &self,
        id: &VolumeId,
        row: Option<HeadRow>,
        revision: RevisionId,
        found: &[(u32, String)],
    ) -> ObjectsResult<()> {
        let members: Vec<u32> = found.iter().map(|(member, _)| *member).collect();
        let Some(row) = row else { return Ok(()) };
        if members.is_empty() || !self.keeps_versions() {
            return Ok(());
        }
        if !matches!(self.versions_before(id, row).await?.version(revision).await?, Then::Version(_)) {
            return Ok(());
        }
        // The entry in the list lets a collector find the marks, even if it has just removed the
        // generation.
        let mut steps = vec![listing(&keys::volume_partition(id), revision)];
        steps.extend(putting(id, revision, &members));
        self.heads.put_acknowledged(Class::Description, steps).await?;
        for (member, detail) in found {
            self.heads.note_damage();
            tracing::warn!(volume = %id, %revision, member, detail, "an earlier version is marked as damaged");
        }
        Ok(())
    }

    /// The marks from which a change starts. If they cannot be read, a change that adds marks
    /// starts from none. The present marks stay, and the head's count makes plans read them and
    /// find that they are unreadable.
    async fn marks_to_change(
        &self,
        id: &VolumeId,
        revision: RevisionId,
        body: &VolumeBody,
        found: &[(u32, String)],
    ) -> ObjectsResult<BTreeSet<u32>> {
        match self.heads.retry_transient(|| self.written_marks(id, revision)).await {
            Err(error) if error.is_damage() && (!found.is_empty() || body.damaged == 0) => Ok(BTreeSet::new()),
            marked => marked,
        }
    }
}

fn current_volume(row: &HeadRow, revision: RevisionId) -> Option<(&HeadRow, &VolumeBody)> {
    let body = row.head.live_volume().filter(|_| row.head.revision == revision)?;
    Some((row, body))
}

/// The partition of the marks on a revision. The marks are removed with the revision's generation.
fn marks_partition(id: &VolumeId, revision: RevisionId) -> Bytes {
    keys::part(&keys::volume_partition(id), revision, 0)
}

/// The steps that put marks. A mark consists of its key alone, so that all writers of a mark put the
/// same row.
fn putting(id: &VolumeId, revision: RevisionId, members: &[u32]) -> Vec<Step> {
    let (table, partition) = (Table::Damage, marks_partition(id, revision));
    let mark = |member: &u32| NewRow::new(keys::damage(revision, *member), envelope::seal(ValueKind::DamageMark, &[]));
    let step = |members: &[u32]| {
        let rows = members.iter().map(mark).collect();
        Step::Put { table, partition: partition.clone(), rows }
    };
    members.chunks(MARKS_OF_STEP).map(step).collect()
}

fn clearing(id: &VolumeId, revision: RevisionId, members: &[u32]) -> Vec<Step> {
    let (table, partition) = (Table::Damage, marks_partition(id, revision));
    let step = |members: &[u32]| {
        let sorts = members.iter().map(|member| keys::damage(revision, *member)).collect();
        Step::Remove { table, partition: partition.clone(), rows: Removal::Rows(sorts) }
    };
    members.chunks(MARKS_OF_STEP).map(step).collect()
}
