//! Copies everything from one store into another, whatever their engines, while the source is in
//! use.
//!
//! Rows are copied unchanged, with their keys, values, stamps and expiries. Entity tags, selections
//! and audit entries therefore hold in the target as they did in the source. The rows of a
//! partition are copied in the order in which a writer writes them: packs first, then other
//! immutable rows, then a head, and a head only if the source still has it. What a head names in
//! other partitions (directories and packs, versions, large contents) may arrive before it or after
//! it. Nobody reads the target until a pass finds nothing more.
//!
//! [`Copier::pass`] makes the target equal to the source and reports how much it had to change.
//! Passes are repeated until one finds nothing. Then the source is made read-only
//! ([`crate::read_only`]), passes are repeated once more, and [`Copier::verify`] reads both stores
//! whole and compares digests. A large content that is damaged in the source is left out and
//! reported. A copy may be interrupted at any time and begun again: it recognises what it has
//! copied already.
//!
//! How to read it: this file has the passes; `partition.rs` makes one partition like another;
//! `contents.rs` copies large contents; `digest.rs` compares; `following.rs` copies what is named, for a
//! follower.

mod contents;
mod digest;
mod following;
mod partition;
mod patience;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, future, stream};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use digest::Verified;
pub use following::{Followed, followed, recognise};
use partition::{Depth, Pairs};
pub use patience::Patience;
use patience::call;

use crate::{ContentId, NewRow, Outcome, Removal, Scan, Step, Store, StoreError, StoreResult, Table, boxed, read_only};

/// Partitions of [`Table::Work`] whose keys begin with this are about one store (what of it was
/// checked, say). They are not copied.
pub const LOCAL_PREFIX: &[u8] = b"local/";

/// Partitions that are copied at the same time, and batches of small ones.
const AT_ONCE: usize = 8;

/// Partitions of a batch: one call reads their first pages. A call for each takes most of the time
/// of a copy from a running server, where most partitions have one small row.
const BATCH: usize = 32;

/// Partitions of one page of a walk.
const WALKED_AT_ONCE: usize = 256;

/// Tables in the order in which they are copied: rows that name others come after the rows they
/// name.
const ORDER: [Table; Table::ALL.len()] = [
    Table::Contents,
    Table::Objects,
    Table::Packs,
    Table::Damage,
    Table::Children,
    Table::Pins,
    Table::Selections,
    Table::Work,
    Table::Tokens,
    Table::Audit,
    Table::Records,
];

// Each table is in it: a copy may leave out none.
const _: () = {
    let mut seen = [false; Table::ALL.len()];
    let mut at = 0;
    while at < ORDER.len() {
        assert!(!seen[ORDER[at] as usize]);
        seen[ORDER[at] as usize] = true;
        at += 1;
    }
};

/// The partition of [`Table::Work`] in the target that records how far the first pass has come.
static POSITION_PARTITION: Bytes = Bytes::from_static(b"copying");

static POSITION: Bytes = Bytes::from_static(b"position");

/// The row of the same partition that names the source once everything is copied. A copy that is
/// interrupted at that moment learns from it that it has finished.
static FINISHED: Bytes = Bytes::from_static(b"finished");

/// Why a copy failed. It can be begun again, unless the error says otherwise.
#[derive(Debug, Error)]
pub enum CopyError {
    /// One of the stores failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The target holds data that is not of this copy.
    #[error("the target is not empty, and what is in it is not an unfinished copy of {origin}")]
    NotVacant {
        /// The store to be copied.
        origin: String,
    },
    /// There was nothing left to do.
    #[error("the target is a finished copy of {origin} already; to copy that again, name an empty target")]
    Finished {
        /// The store to be copied.
        origin: String,
    },
    /// The target still differs from the source after it was made equal: somebody else writes to
    /// one of them.
    #[error("{table}, partition {partition}: the copy differs from its source, although nothing should change it")]
    Differs {
        /// The table.
        table: Table,
        /// The partition, as text.
        partition: String,
    },
}

/// How far a copy has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Partitions and contents that were compared.
    pub seen: AtomicU64,
    /// Those that had to be changed.
    pub changed: AtomicU64,
    /// Bytes of keys, values and contents that were written.
    pub bytes: AtomicU64,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Partitions and contents that had to be changed.
    pub changed: u64,
    /// Those of them that belong to the audit, which changes whenever the source serves something.
    pub changed_of_audit: u64,
    /// Whether it began at the beginning, and not where an interrupted one had stopped.
    pub is_whole: bool,
}

impl Pass {
    /// Whether it compared everything and had nothing to do, except for the audit, which grows while
    /// the source serves.
    pub fn found_nothing(&self) -> bool {
        self.is_whole && self.changed == self.changed_of_audit
    }
}

/// Why a store refuses changes while it is an unfinished copy: the text before and after the name
/// of the source.
const UNFINISHED: (&str, &str) = ("a copy of ", " into it is not finished");

/// Why a store refuses changes while it is an unfinished copy of `origin`.
fn unfinished_reason(origin: &str) -> String {
    format!("{}{origin}{}", UNFINISHED.0, UNFINISHED.1)
}

/// The name of the source if the store is an unfinished copy. Such a store holds only a part of a
/// library and must not be shown as a whole one.
#[boxed]
pub async fn unfinished(store: &dyn Store) -> StoreResult<Option<String>> {
    let reason = read_only::reason(store).await?;
    let origin = reason.as_deref().and_then(|reason| reason.strip_prefix(UNFINISHED.0)?.strip_suffix(UNFINISHED.1));
    Ok(origin.map(str::to_owned))
}

/// A copy of one store into another.
pub struct Copier {
    source: Arc<dyn Store>,
    target: Arc<dyn Store>,
    origin: String,
    patience: Patience,
    progress: Arc<Progress>,
    /// Contents that are damaged in the source.
    damaged: Mutex<BTreeSet<ContentId>>,
    /// Whether the pass that runs is to begin again at the beginning.
    begins_anew: AtomicBool,
    /// The turns of partitions that are read page by page.
    turns: Semaphore,
}

/// Where the first pass is: the table's index in [`ORDER`], and where its walk continues.
type Position = (usize, Option<Bytes>);

impl Copier {
    /// Begins a copy or resumes one. The target must be empty, or hold an unfinished copy of
    /// `origin`, which is the source's name. [`recognise`] changes the name that a followed target
    /// keeps. The target is read-only for everybody else until [`Copier::end`]. Neither store may be
    /// behind a gate of this process, because a copy writes rows that the gate refuses.
    #[boxed]
    pub async fn begin(
        source: Arc<dyn Store>,
        target: Arc<dyn Store>,
        origin: &str,
        patience: Patience,
    ) -> Result<Self, CopyError> {
        let (from, to) = (source.level(), target.level());
        if from > to {
            let why =
                format!("the source is at level {from} and the target at {to}: run `penates upgrade` on the target");
            return Err(StoreError::Invalid(why).into());
        }
        let unfinished = unfinished_reason(origin);
        match patience.with(|| read_only::reason(target.as_ref())).await? {
            Some(reason) if reason == unfinished => {}
            None if is_vacant(patience, target.as_ref()).await? => {}
            None if finished(patience, target.as_ref()).await?.as_deref() == Some(origin.as_bytes()) => {
                return Err(CopyError::Finished { origin: origin.to_owned() });
            }
            _ => return Err(CopyError::NotVacant { origin: origin.to_owned() }),
        }
        // Also if it is stored already: what an earlier run wrote to end the copy may still arrive.
        patience.with(|| read_only::set(target.as_ref(), Some(&unfinished))).await?;
        Ok(Self {
            source,
            target,
            origin: origin.to_owned(),
            patience,
            progress: Arc::default(),
            damaged: Mutex::default(),
            begins_anew: AtomicBool::new(false),
            turns: Semaphore::new(AT_ONCE),
        })
    }

    /// How far it has come.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Counts the partitions of objects in the source, so that progress can be shown as a share.
    #[boxed]
    pub async fn count_objects(&self) -> Result<u64, CopyError> {
        let (mut count, mut from) = (0, None);
        loop {
            let page = walk(self.patience, self.source.as_ref(), Table::Objects, from).await?;
            count += page.partitions.len() as u64;
            from = page.next;
            if from.is_none() {
                return Ok(count);
            }
        }
    }

    /// Makes the target equal to the source. A first pass that was interrupted resumes where it
    /// stopped.
    #[boxed]
    pub async fn pass(&self) -> Result<Pass, CopyError> {
        self.pass_with(async || Ok(())).await
    }

    /// The same, and runs `between` after every few partitions, so that a follower does not fall
    /// behind while a pass reads everything. `between` may call [`Copier::begin_pass_anew`].
    pub async fn pass_with<E: From<CopyError>>(
        &self,
        mut between: impl AsyncFnMut() -> Result<(), E>,
    ) -> Result<Pass, E> {
        self.begins_anew.store(false, Ordering::Relaxed);
        let position = self.position().await?;
        let mut pass = Pass { is_whole: position.is_none(), ..Pass::default() };
        let (mut at, mut from) = position.unwrap_or((0, None));
        while let Some(table) = ORDER.get(at).copied() {
            let page = walk(self.patience, self.source.as_ref(), table, from).await.map_err(CopyError::from)?;
            let mut changed = self.copy_all(table, page.partitions).await?;
            from = page.next;
            if from.is_none() {
                // Before the position says that the table is done.
                changed += self.clear_what_is_gone(table).await?;
            }
            pass.changed += changed;
            pass.changed_of_audit += if table == Table::Audit { changed } else { 0 };
            self.set_position(Some((at, from.clone()))).await?;
            at += usize::from(from.is_none());
            between().await?;
            if self.begins_anew.swap(false, Ordering::Relaxed) {
                (at, from) = (0, None);
                pass.is_whole = true;
            }
        }
        self.set_position(None).await?;
        Ok(pass)
    }

    /// Lets the next pass begin at the beginning, also if one was interrupted. A pass that runs
    /// begins there again: what it has compared already may have changed unnoticed.
    #[boxed]
    pub async fn begin_pass_anew(&self) -> Result<(), CopyError> {
        self.set_position(None).await?;
        self.begins_anew.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a small table of the target like that of the source.
    #[boxed]
    pub async fn copy_table(&self, table: Table) -> Result<(), CopyError> {
        let mut from = None;
        loop {
            let page = walk(self.patience, self.source.as_ref(), table, from).await?;
            self.copy_all(table, page.partitions).await?;
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        self.clear_what_is_gone(table).await?;
        Ok(())
    }

    /// Makes each partition of a table in the target like that of the source. Returns how many had
    /// to be changed.
    async fn copy_all(&self, table: Table, mut partitions: Vec<Bytes>) -> Result<u64, CopyError> {
        partitions.retain(|partition| is_copied(table, partition));
        let copied = stream::iter(batches(table, partitions))
            .map(|batch| async move { self.copy_batch(table, &batch).await }.boxed())
            .buffer_unordered(AT_ONCE);
        let changed = copied.try_fold(0, async |sum, changed| Ok(sum + changed)).await?;
        self.progress.changed.fetch_add(changed, Ordering::Relaxed);
        Ok(changed)
    }

    /// Does that with the partitions of a batch at the same time: the target syncs many writes
    /// together.
    async fn copy_batch(&self, table: Table, batch: &[Bytes]) -> Result<u64, CopyError> {
        if let [partition] = batch {
            let changed = self.copy(table, partition, Depth::Quick).await?;
            self.progress.seen.fetch_add(1, Ordering::Relaxed);
            return Ok(u64::from(changed));
        }
        let copied = self.pairs_of_each(table, batch).await.into_iter().map(async |pairs| {
            let _turn = self.turn(&pairs).await;
            let changed = self.copy_pairs(pairs).await?;
            self.progress.seen.fetch_add(1, Ordering::Relaxed);
            Ok::<_, CopyError>(u64::from(changed))
        });
        Ok(future::try_join_all(copied).await?.into_iter().sum())
    }

    /// Waits for the turn of a partition that is not in memory yet. Of these at most [`AT_ONCE`]
    /// are read at the same time, over all batches.
    async fn turn(&self, pairs: &Pairs<'_>) -> Option<SemaphorePermit<'_>> {
        match pairs.are_read() {
            true => None,
            // Nobody closes it.
            false => self.turns.acquire().await.ok(),
        }
    }

    async fn copy(&self, table: Table, partition: &Bytes, depth: Depth) -> Result<bool, CopyError> {
        match table {
            Table::Contents => self.copy_content(partition).await,
            Table::Objects => self.copy_object(partition, depth).await,
            // Packs beside small rows were copied with these. The others belong to imports that
            // have not ended yet, or are the further parts of volumes with tens of MB of packs.
            Table::Packs if depth == Depth::Quick && self.has_object(partition).await? => Ok(false),
            _ => self.copy_partition(table, partition).await,
        }
    }

    async fn has_object(&self, partition: &Bytes) -> Result<bool, CopyError> {
        Ok(!is_empty(self.patience, self.source.as_ref(), Table::Objects, partition).await?)
    }

    /// Deletes what a table of the target has in partitions that the source no longer has.
    async fn clear_what_is_gone(&self, table: Table) -> Result<u64, CopyError> {
        let (mut changed, mut from) = (0, None);
        loop {
            let (gone, next) = self.gone(table, from).await?;
            changed += self.copy_all(table, gone).await?;
            from = next;
            if from.is_none() {
                return Ok(changed);
            }
        }
    }

    /// Partitions of a page of the target's walk that the source no longer has, and where the walk
    /// continues.
    async fn gone(&self, table: Table, from: Option<Bytes>) -> Result<(Vec<Bytes>, Option<Bytes>), CopyError> {
        let page = walk(self.patience, self.target.as_ref(), table, from).await?;
        let gone = stream::iter(batches(table, page.partitions))
            .map(|batch| async move { self.gone_of(table, &batch).await }.boxed())
            .buffer_unordered(AT_ONCE);
        Ok((gone.try_concat().await?, page.next))
    }

    /// Those of the partitions that the source no longer has.
    async fn gone_of(&self, table: Table, batch: &[Bytes]) -> Result<Vec<Bytes>, CopyError> {
        let scans = batch.iter().map(|partition| (table, partition.clone(), Scan::prefix(Bytes::new(), 1))).collect();
        if let Ok(found) = self.source.scan_many(call(), scans).await {
            let gone = batch.iter().zip(found).filter(|(_, found)| found.rows.is_empty());
            return Ok(gone.map(|(partition, _)| partition.clone()).collect());
        }
        // None fails or runs out of time for another.
        let mut gone = Vec::new();
        for partition in batch {
            if is_empty(self.patience, self.source.as_ref(), table, partition).await? {
                gone.push(partition.clone());
            }
        }
        Ok(gone)
    }

    async fn position(&self) -> Result<Option<Position>, CopyError> {
        let row = self.patience.with(|| self.target.get(call(), Table::Work, &POSITION_PARTITION, &POSITION)).await?;
        Ok(row.and_then(|row| decode_position(&row.value)))
    }

    async fn set_position(&self, position: Option<Position>) -> Result<(), CopyError> {
        let (table, partition) = (Table::Work, POSITION_PARTITION.clone());
        let remove = Step::Remove { table, partition: partition.clone(), rows: Removal::Rows(vec![POSITION.clone()]) };
        let put = position.map(|position| {
            let rows = vec![NewRow::new(POSITION.clone(), encode_position(&position))];
            Step::Put { table, partition, rows }
        });
        self.apply(std::iter::once(remove).chain(put).collect()).await
    }

    /// Runs unconditional steps on the target until they are acknowledged.
    async fn apply(&self, steps: Vec<Step>) -> Result<(), CopyError> {
        self.patience
            .with(|| async {
                match self.target.run(call(), steps.clone()).await? {
                    Outcome::Applied => Ok(()),
                    Outcome::Unknown { reason } => Err(StoreError::Unavailable(reason)),
                    Outcome::Refused { .. } => Err(StoreError::Invalid("unconditional steps were refused".to_owned())),
                }
            })
            .await
            .map_err(CopyError::from)
    }

    /// Ends the copy: from now on the target takes changes. No further pass may follow. After an
    /// error it may take changes too: see [`Copier::keep_unfinished`].
    #[boxed]
    pub async fn end(&self) -> Result<(), CopyError> {
        Ok(self.patience.with(|| end_without_source(self.target.as_ref(), &self.origin)).await?)
    }

    /// After [`Copier::end`] has failed: makes sure that the target takes no changes, even if a part
    /// of that arrives late. Returns `false` if it takes changes already.
    ///
    /// Errors: those of the target. Then nobody knows whether it takes changes.
    #[boxed]
    pub async fn keep_unfinished(&self) -> StoreResult<bool> {
        let (target, unfinished) = (self.target.as_ref(), unfinished_reason(&self.origin));
        if self.patience.with(|| read_only::reason(target)).await?.as_ref() != Some(&unfinished) {
            return Ok(false);
        }
        // What arrives late does not count over what is written after it was sent.
        self.patience.with(|| read_only::set(target, Some(&unfinished))).await?;
        Ok(true)
    }
}

/// Ends a copy of `origin` as it is: from now on the target takes changes.
#[boxed]
pub async fn end_without_source(target: &dyn Store, origin: &str) -> StoreResult<()> {
    let rows = vec![NewRow::new(FINISHED.clone(), Bytes::copy_from_slice(origin.as_bytes()))];
    let (table, partition) = (Table::Work, POSITION_PARTITION.clone());
    let followed = Removal::Rows(vec![following::FOLLOWED.clone()]);
    let ended = Step::Put { table, partition: partition.clone(), rows };
    match target.run(call(), vec![ended, Step::Remove { table, partition, rows: followed }]).await? {
        Outcome::Applied => read_only::set(target, None).await,
        Outcome::Unknown { reason } => Err(StoreError::Unavailable(reason)),
        Outcome::Refused { .. } => Err(StoreError::Invalid("unconditional steps were refused".to_owned())),
    }
}

/// Whether the rows of a partition are the state of a copy. They have no envelope.
pub fn is_state(table: Table, partition: &[u8]) -> bool {
    table == Table::Work && *partition == POSITION_PARTITION
}

/// Whether a partition holds copied data. The state of the copy itself, and what is about one store
/// alone, is not copied.
fn is_copied(table: Table, partition: &Bytes) -> bool {
    let is_of_copy = *partition == read_only::PARTITION || *partition == POSITION_PARTITION;
    table != Table::Work || !(is_of_copy || partition.starts_with(LOCAL_PREFIX))
}

/// Partitions of a table in batches. Those with large rows are copied one by one.
fn batches(table: Table, mut partitions: Vec<Bytes>) -> Vec<Vec<Bytes>> {
    let of_batch = match table {
        Table::Contents | Table::Objects | Table::Packs => 1,
        _ => BATCH,
    };
    let mut batches = Vec::with_capacity(partitions.len().div_ceil(of_batch));
    while !partitions.is_empty() {
        let rest = partitions.split_off(partitions.len().min(of_batch));
        batches.push(std::mem::replace(&mut partitions, rest));
    }
    batches
}

async fn walk(
    patience: Patience,
    store: &dyn Store,
    table: Table,
    from: Option<Bytes>,
) -> StoreResult<crate::WalkPage> {
    patience.with(|| store.walk(call(), table, from.clone(), WALKED_AT_ONCE)).await
}

async fn is_empty(patience: Patience, store: &dyn Store, table: Table, partition: &Bytes) -> StoreResult<bool> {
    let first = patience.with(|| store.scan(call(), table, partition, Scan::prefix(Bytes::new(), 1))).await?;
    Ok(first.rows.is_empty())
}

/// Whether a store holds nothing, except perhaps a row that says that it takes changes.
async fn is_vacant(patience: Patience, store: &dyn Store) -> StoreResult<bool> {
    for table in Table::ALL {
        let says = |partition: &Bytes| table == Table::Work && *partition == read_only::PARTITION;
        let mut from = None;
        loop {
            let page = walk(patience, store, table, from).await?;
            if !page.partitions.iter().all(says) {
                return Ok(false);
            }
            from = page.next;
            if from.is_none() {
                break;
            }
        }
    }
    Ok(true)
}

/// The source of which a store is a finished copy, if it is one.
async fn finished(patience: Patience, store: &dyn Store) -> StoreResult<Option<Bytes>> {
    let row = patience.with(|| store.get(call(), Table::Work, &POSITION_PARTITION, &FINISHED)).await?;
    Ok(row.map(|row| row.value))
}

fn encode_position((table, next): &Position) -> Bytes {
    let mut encoded = vec![u8::try_from(*table).unwrap_or(0), u8::from(next.is_some())];
    encoded.extend(next.iter().flatten());
    encoded.into()
}

/// Returns `None` if it cannot be decoded; the pass then starts from the beginning.
fn decode_position(encoded: &Bytes) -> Option<Position> {
    let table = usize::from(*encoded.first()?);
    match encoded.get(1)? {
        // The walk of this table had ended.
        0 => Some((table + 1, None)),
        _ => Some((table, Some(encoded.slice(2..)))),
    }
}
