//! Generations of volumes: the rows that one import wrote for a volume, in partitions of their own.
//!
//! The volume's own partition lists the generations that may have rows. A writer lists a generation
//! before it puts rows, and a collector removes the entry after the rows. So the collector also
//! finds the rows of unfinished imports.

use std::collections::BTreeSet;

use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::keys;
use heads::revision::RevisionId;
use heads::sampling::row_bytes;
use store::{Class, Limits, NewRow, Removal, Scan, Step, Table, ValueKind, envelope};

use crate::directory::{ENTRY_BYTES, SEGMENT_PAGES};
use crate::handle::Volumes;
use crate::read::PACK_BYTES;

/// The most generations of one volume in the list: those that are kept, and those that wait to be
/// collected. It bounds the partition of the list.
pub const GENERATIONS_MAX: usize = 1 << 16;

/// Bytes of the directory of a volume with the most pages.
pub fn directory_bytes_max() -> u64 {
    let segments = (hathi::mets::MAX_PAGES as u64).div_ceil(u64::from(SEGMENT_PAGES));
    segments * row_bytes(&keys::directory(RevisionId::ZERO, 0), SEGMENT_PAGES as usize * ENTRY_BYTES)
}

/// The most bytes of a part of the packs and fixity of a generation.
pub fn part_bytes_max() -> u64 {
    let (nothing, value) = (RevisionId::ZERO, Limits::default().value_bytes);
    let packs = u64::from(keys::PART_PACKS) * row_bytes(&keys::pack(nothing, 0), PACK_BYTES);
    let fixity = u64::from(keys::PART_FIXITY_SEGMENTS) * row_bytes(&keys::fixity(nothing, 0), value);
    packs + fixity + directory_bytes_max()
}

/// Bytes of one page of a scan over the list.
const SCAN_BYTES: usize = 64 << 10;

/// Rows of a generation that are removed in one list, as a range of numbers.
const ROWS_REMOVED: u32 = 256;

/// A scan of the whole list.
pub(crate) fn list() -> Scan {
    Scan::prefix(keys::generation_prefix(), SCAN_BYTES)
}

/// The step that adds a generation to the list.
pub fn listing(volume: &Bytes, generation: RevisionId) -> Step {
    let rows = vec![NewRow::new(keys::generation(generation), envelope::seal(ValueKind::Generation, &[]))];
    Step::Put { table: Table::Objects, partition: volume.clone(), rows }
}

impl Volumes {
    /// Some generations in the list of a volume, and the rest of the list.
    pub(crate) async fn listed_generations(
        &self,
        volume: &Bytes,
        window: Scan,
    ) -> ObjectsResult<(BTreeSet<RevisionId>, Option<Scan>)> {
        let call = self.heads.call(Class::Description).strong();
        let page = self.heads.store().scan(call, Table::Objects, volume, window.clone()).await?;
        let generations = page.rows.iter().filter_map(|row| keys::revision_of(&row.sort)).collect();
        Ok((generations, window.resumed(page.next)))
    }

    /// Refuses another generation of a volume with [`ObjectsError::OverLimit`] if the list is full.
    pub(crate) async fn check_generations(&self, id: &VolumeId) -> ObjectsResult<()> {
        let partition = keys::volume_partition(id);
        let mut count = 0;
        let mut scan = Some(list());
        while let Some(window) = scan {
            let (generations, rest) =
                self.heads.retry_transient(|| self.listed_generations(&partition, window.clone())).await?;
            count += generations.len();
            if count >= GENERATIONS_MAX {
                return Err(ObjectsError::OverLimit(format!(
                    "{GENERATIONS_MAX} versions of {id} are stored; versions that history.volumes does not keep are removed \
                     store.grace after they were replaced"
                )));
            }
            scan = rest;
        }
        Ok(())
    }

    /// Removes all rows of a generation, and last its entry in the list. The directory goes first:
    /// a copy of the store relies on all packs being present where there is a directory. Parts go
    /// from the last to the first, because they are found from the first on. So a call after a
    /// crash finds all that are left.
    pub(crate) async fn remove_generation(&self, volume: &Bytes, generation: RevisionId) -> ObjectsResult<()> {
        let part = |part| keys::part(volume, generation, part);
        self.remove_part(Table::Objects, &part(0), generation).await?;
        let mut parts = 0;
        while !self.heads.first_rows(Table::Packs, &part(parts), Scan::prefix(Bytes::new(), 1)).await?.is_empty() {
            parts += 1;
        }
        for number in (0..parts).rev() {
            self.remove_part(Table::Packs, &part(number), generation).await?;
        }
        self.remove_part(Table::Damage, &part(0), generation).await?;
        let rows = Removal::Rows(vec![keys::generation(generation)]);
        let unlist = Step::Remove { table: Table::Objects, partition: volume.clone(), rows };
        self.heads.put_acknowledged(Class::Description, vec![unlist]).await
    }

    async fn remove_part(&self, table: Table, partition: &Bytes, generation: RevisionId) -> ObjectsResult<()> {
        for kind in keys::generation_kinds(table) {
            self.remove_rows(table, partition, &kind, generation).await?;
        }
        Ok(())
    }

    /// Removes the rows of one kind in a part of a generation, some at a time, however many there
    /// are.
    async fn remove_rows(
        &self,
        table: Table,
        partition: &Bytes,
        kind: &Bytes,
        generation: RevisionId,
    ) -> ObjectsResult<()> {
        let mut scan = Scan::prefix(keys::generation_rows(kind, generation), 1);
        while let Some(first) = self.heads.first_rows(table, partition, scan.clone()).await?.into_iter().next() {
            let number = keys::number_of(&first.sort).and_then(|number| number.checked_add(ROWS_REMOVED));
            let to = number.map(|number| keys::generation_row(kind, generation, number)).or_else(|| scan.to.clone());
            let rows = Removal::Range(first.sort, to.clone());
            let remove = Step::Remove { table, partition: partition.clone(), rows };
            self.heads.put_acknowledged(Class::Content, vec![remove]).await?;
            match to {
                Some(to) if Some(&to) != scan.to.as_ref() => scan.from = to,
                _ => break,
            }
        }
        Ok(())
    }
}
