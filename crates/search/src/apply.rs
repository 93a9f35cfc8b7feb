//! Writes changes to a generation of the index.
//!
//! The order of writes: entries, then the document that they are of, then the entries of earlier
//! documents are removed, then these. So a reader never misses a result whose document it finds,
//! and a writer that dies half way leaves only rows that do not count. The earlier documents that
//! are still there say what is left to remove.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use heads::head::seal;
use heads::sampling::row_bytes;
use heads::{Heads, ObjectsResult, RevisionId};
use store::{Class, NewRow, Removal, Row, Scan, Step, Table, boxed, stored};

use crate::describe::Change;
use crate::document::{Indexed, Listed};
use crate::keys::{self, List};
use crate::state::Generation;

/// Changes that are written together: each touches at most 14 partitions twice, and a list has at
/// most 1,024 steps.
const TOGETHER: usize = 32;

/// Groups of changes that are written at the same time.
const GROUPS_AT_ONCE: usize = 8;

/// How long the sync of a group may wait, where nobody wants it earlier.
const SYNC_DELAY: Duration = Duration::from_secs(1);

/// Steps of a group that run at the same time, if the store does not apply lists as one.
const STEPS_AT_ONCE: usize = 16;

/// What changes have added to a generation, and removed from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grown {
    resources: i64,
    bytes: [i64; List::ALL.len()],
}

impl Grown {
    fn add(&mut self, other: Self) {
        self.resources += other.resources;
        self.bytes.iter_mut().zip(other.bytes).for_each(|(bytes, other)| *bytes += other);
    }

    fn count(&mut self, list: List, sort: &Bytes, value: usize, is_added: bool) {
        let bytes = i64::try_from(row_bytes(sort, value)).unwrap_or(i64::MAX);
        self.bytes[list as usize] += if is_added { bytes } else { -bytes };
    }
}

impl Generation {
    /// Notes what was added and removed.
    pub(crate) fn grow(&mut self, grown: Grown) {
        self.resources = self.resources.saturating_add_signed(grown.resources);
        for (bytes, grown) in self.bytes.iter_mut().zip(grown.bytes) {
            *bytes = bytes.saturating_add_signed(grown);
        }
    }
}

/// Rows to put and to remove, by partition.
#[derive(Default)]
struct Writes {
    entries: BTreeMap<Bytes, Vec<NewRow>>,
    documents: BTreeMap<Bytes, Vec<NewRow>>,
    old_entries: BTreeMap<Bytes, Vec<Bytes>>,
    old_documents: BTreeMap<Bytes, Vec<Bytes>>,
    grown: Grown,
}

/// Writes changes. Each path is at most once among them.
#[boxed]
pub async fn apply(heads: &Heads, generation: Generation, changes: &[Change]) -> ObjectsResult<Grown> {
    let groups = changes.chunks(TOGETHER).map(|group| apply_group(heads, generation, group).boxed());
    let groups: Vec<BoxFuture<'_, ObjectsResult<Grown>>> = groups.collect();
    let grown: Vec<_> = stream::iter(groups).buffer_unordered(GROUPS_AT_ONCE).try_collect().await?;
    let mut sum = Grown::default();
    grown.into_iter().for_each(|grown| sum.add(grown));
    Ok(sum)
}

async fn apply_group(heads: &Heads, generation: Generation, changes: &[Change]) -> ObjectsResult<Grown> {
    let mut writes = Writes::default();
    for (change, rows) in changes.iter().zip(present(heads, generation, changes).await?) {
        writes.add(generation, change, &rows)?;
    }
    writes.run(heads).await
}

/// The documents of the paths of changes, as they are now.
///
/// Of a path without an earlier revision there is at most the document of this one: a single row,
/// which an engine finds sooner than it reads a range. (Another server may have written that of a
/// later revision. Beside it searches ignore what is written now, which stays until the next change
/// of the path, and is counted as one more resource.)
async fn present(heads: &Heads, generation: Generation, changes: &[Change]) -> ObjectsResult<Vec<Vec<Row>>> {
    let (first, later): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|change| change.is_first);
    let mut of_first = own_documents(heads, generation, &first).await?.into_iter();
    let mut of_later = all_documents(heads, generation, &later).await?.into_iter();
    let rows = |change: &Change| match change.is_first {
        true => of_first.next().flatten().into_iter().collect(),
        false => of_later.next().unwrap_or_default(),
    };
    Ok(changes.iter().map(rows).collect())
}

/// The partition with the documents of the path of a change.
fn documents_partition(generation: Generation, change: &Change) -> Bytes {
    let shard = keys::shard_of(change.path.as_str(), generation.shards);
    keys::partition(generation.number, List::Documents, shard)
}

/// The documents of the revisions of changes.
async fn own_documents(heads: &Heads, generation: Generation, changes: &[&Change]) -> ObjectsResult<Vec<Option<Row>>> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let key = |change: &&Change| {
        let sort = keys::document(change.path.as_str(), change.revision);
        (documents_partition(generation, change), sort)
    };
    let wanted: Vec<(Bytes, Bytes)> = changes.iter().map(key).collect();
    let read = async || {
        let call = heads.call(Class::Description).strong();
        Ok(heads.store().get_many(call, Table::Work, wanted.clone()).await?)
    };
    heads.retry_transient(read).await
}

/// All documents of the paths of changes.
async fn all_documents(heads: &Heads, generation: Generation, changes: &[&Change]) -> ObjectsResult<Vec<Vec<Row>>> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let scan = |change: &&Change| {
        let path = change.path.as_str();
        let (from, to) = (keys::documents_of(path), Some(keys::after_documents_of(path)));
        let scan = Scan { from, to, ..Scan::prefix(Bytes::new(), Scan::FEW_BYTES) };
        (Table::Work, documents_partition(generation, change), scan)
    };
    let scans: Vec<_> = changes.iter().map(scan).collect();
    let read = async || {
        let call = heads.call(Class::Description).strong();
        Ok(heads.store().scan_many(call, scans.clone()).await?)
    };
    let pages = heads.retry_transient(read).await?;
    let mut all = Vec::with_capacity(pages.len());
    for (page, (table, partition, scan)) in pages.into_iter().zip(&scans) {
        let (mut rows, mut rest) = (page.rows, scan.resumed(page.next));
        // More than one or two are only there if writers died.
        while let Some(scan) = rest {
            let read = async || {
                let call = heads.call(Class::Description).strong();
                Ok(heads.store().scan(call, *table, partition, scan.clone()).await?)
            };
            let page = heads.retry_transient(read).await?;
            rows.extend(page.rows);
            rest = scan.resumed(page.next);
        }
        all.push(rows);
    }
    Ok(all)
}

impl Writes {
    /// Adds what a change needs, if these documents are there.
    fn add(&mut self, generation: Generation, change: &Change, rows: &[Row]) -> ObjectsResult<()> {
        let Change { path, revision, document, .. } = change;
        let shard = keys::shard_of(path.as_str(), generation.shards);
        let partition = |list| keys::partition(generation.number, list, shard);
        let present: Vec<(RevisionId, &Row)> =
            rows.iter().filter_map(|row| Some((keys::document_of(&row.sort)?.1, row))).collect();
        let newest = present.iter().map(|(revision, _)| *revision).max();
        if newest.is_some_and(|newest| newest > *revision) {
            return Ok(());
        }
        let indexed = document.clone().map_or(Indexed::Deleted, Indexed::Live);
        let listed = seal(&Listed)?;
        if newest != Some(*revision) {
            for (list, sort) in document.iter().flat_map(|document| document.entries(path, *revision)) {
                self.grown.count(list, &sort, listed.len(), true);
                self.entries.entry(partition(list)).or_default().push(NewRow::new(sort, listed.clone()));
            }
            let (sort, value) = (keys::document(path.as_str(), *revision), seal(&indexed)?);
            self.grown.count(List::Documents, &sort, value.len(), true);
            self.grown.resources += i64::from(document.is_some());
            self.documents.entry(partition(List::Documents)).or_default().push(NewRow::new(sort, value));
        }
        for (earlier, row) in present.into_iter().filter(|(earlier, _)| earlier < revision) {
            // Entries of a damaged document stay until the index is rebuilt; they do not count.
            if let Ok(Indexed::Live(document)) = stored::open(&row.value) {
                self.grown.resources -= 1;
                for (list, sort) in document.entries(path, earlier) {
                    self.grown.count(list, &sort, listed.len(), false);
                    self.old_entries.entry(partition(list)).or_default().push(sort);
                }
            }
            self.grown.count(List::Documents, &row.sort, row.value.len(), false);
            self.old_documents.entry(partition(List::Documents)).or_default().push(row.sort.clone());
        }
        Ok(())
    }

    /// Writes all of it, in order.
    async fn run(self, heads: &Heads) -> ObjectsResult<Grown> {
        let table = Table::Work;
        // What a power failure undoes is written again: how far the index is, is saved later, in the
        // same lane. Entries and documents are of a revision that the index did not have.
        let call = || heads.call(Class::Description).synced_within(SYNC_DELAY).having_read();
        let put = |(partition, rows)| Step::Put { table, partition, rows };
        let remove = |(partition, rows)| Step::Remove { table, partition, rows: Removal::Rows(rows) };
        let phases: [Vec<Step>; 4] = [
            self.entries.into_iter().map(put).collect(),
            self.documents.into_iter().map(put).collect(),
            self.old_entries.into_iter().map(remove).collect(),
            self.old_documents.into_iter().map(remove).collect(),
        ];
        if heads.store().capabilities().has_atomic_lists {
            let steps: Vec<_> = phases.into_iter().flatten().collect();
            if !steps.is_empty() {
                heads.run_acknowledged(call(), steps).await?;
            }
            return Ok(self.grown);
        }
        for phase in phases {
            let run = |step: Step| heads.run_acknowledged(call(), vec![step]).boxed();
            let running: Vec<BoxFuture<'_, ObjectsResult<()>>> = phase.into_iter().map(run).collect();
            stream::iter(running).buffer_unordered(STEPS_AT_ONCE).try_collect::<Vec<()>>().await?;
        }
        Ok(self.grown)
    }
}
