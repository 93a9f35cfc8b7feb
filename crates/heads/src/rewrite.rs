//! Rewrites a shard without its past members, whose marks must not be deleted while the partition
//! is read.
//!
//! The head first names both epochs. Then the old one is scanned, and each child that is not
//! certainly gone is copied, all its marks in one step. Past members that are kept go to a
//! partition of their own (`past.rs`). Then the head names only the new epoch. Marks that required
//! the old head are in the old partition before the scan begins; all others go to the new one. So
//! no mark is lost that matters: what a late sweeper still puts into the old partition (confirmed,
//! removed) only repeats what heads say. Any server continues what another has begun, and copying
//! twice changes nothing. The old partition is dropped once no page of a listing can still be
//! reading it.

use std::collections::BTreeMap;

use bytes::Bytes;
use store::{Class, NewRow, Removal, Scan, Step, Strength, Table, ValueKind, boxed, envelope};

use crate::children::{Children, Marked};
use crate::container_body::{ContainerBody, ShardEpochs, shard_of};
use crate::containment::{Parent, change_row};
use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::head::Head;
use crate::keys;
use crate::past::{self, Kept};
use crate::rules::Rule;

/// A shard is rewritten when at least one of so many of its rows belongs to a past member.
const DEAD_SHARE: u64 = 4;

/// The approximate number of rows copied at a time.
const COPY_ROWS: usize = 1_000;

/// The approximate number of bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// The most rows of replaced shards that one call removes; the next call continues.
pub const DROPPED_ROWS_MAX: u64 = 1_000_000;

/// Bytes of one page of a scan over records.
const SCAN_BYTES: usize = 64 << 10;

/// The marks in a shard.
pub struct Counted {
    /// All marks.
    pub rows: u64,
    /// Marks of past members.
    pub dead: u64,
}

/// A shard at an epoch whose members are copied, and their destination.
pub struct Copied<'a> {
    /// The container.
    pub parent: &'a Parent,
    /// The shard.
    pub shard: u16,
    /// The epoch that is copied.
    pub epoch: u32,
    /// The number of shards of the destination: the present number, or a multiple of it.
    pub shards: u16,
    /// The epoch of the destination.
    pub next: u32,
}

/// Rows that are put together, by partition.
#[derive(Default)]
struct Batch {
    rows: BTreeMap<Bytes, Vec<NewRow>>,
    count: usize,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, partition: Bytes, rows: impl IntoIterator<Item = NewRow>) {
        let of_partition = self.rows.entry(partition).or_default();
        for row in rows {
            self.count += 1;
            self.bytes += row.sort.len() + row.value.len();
            of_partition.push(row);
        }
    }

    fn is_full(&self) -> bool {
        self.count >= COPY_ROWS || self.bytes >= COPY_BYTES
    }

    fn take(&mut self) -> Vec<Step> {
        let rows = std::mem::take(self).rows.into_iter().filter(|(_, rows)| !rows.is_empty());
        rows.map(|(partition, rows)| Step::Put { table: Table::Children, partition, rows }).collect()
    }
}

impl Heads {
    /// Visits a shard: continues a rewrite that was begun, drops what an earlier one left, or
    /// begins a rewrite if that is worthwhile. Returns whether the shard was rewritten.
    #[boxed]
    pub async fn tend_shard(&self, parent: &Parent, shard: u16) -> ObjectsResult<bool> {
        if parent.body().growing.is_some() {
            return Ok(false);
        }
        let epochs = parent.epochs(shard);
        if epochs.next.is_some() {
            return self.copy_shard(parent, epochs).await;
        }
        if let Some(earlier) = epochs.current.checked_sub(1).filter(|earlier| *earlier >= parent.body().first_epoch)
            && !self.drop_epoch(&parent.partition(shard, earlier), &mut { DROPPED_ROWS_MAX }).await?
        {
            return Ok(false);
        }
        if !self.is_worth_rewriting(parent, shard).await? {
            return Ok(false);
        }
        let begun = ShardEpochs { next: Some(epochs.current + 1), ..epochs };
        if self.keeps(Rule::TwoEpochs) && !self.name_epochs(parent, epochs, begun).await? {
            return Ok(false);
        }
        self.copy_shard(parent, begun).await
    }

    async fn is_worth_rewriting(&self, parent: &Parent, shard: u16) -> ObjectsResult<bool> {
        let Counted { rows, dead } = self.count_rows(parent, shard).await?;
        Ok(dead >= self.inner.options.rewrite_dead_rows_min.max(1) && dead * DEAD_SHARE >= rows)
    }

    /// The number of marks in a shard, and of those that belong to past members.
    pub async fn count_rows(&self, parent: &Parent, shard: u16) -> ObjectsResult<Counted> {
        let mut children = Children::new(parent.partitions(shard), Bytes::new(), Strength::Usual);
        let (mut rows, mut dead) = (0, 0);
        while let Some(child) = children.next(self).await? {
            let of_child = child.marked.marks.iter().count() as u64;
            rows += of_child;
            dead += if child.marked.marks.removed() { of_child } else { 0 };
        }
        Ok(Counted { rows, dead })
    }

    /// Copies a shard's old partition, then makes the head name only the new one.
    async fn copy_shard(&self, parent: &Parent, epochs: ShardEpochs) -> ObjectsResult<bool> {
        let (shard, epoch, next) = (epochs.shard, epochs.current, epochs.target());
        self.copy_members(Copied { parent, shard, epoch, shards: parent.shards(), next }).await?;
        let done = ShardEpochs { current: next, next: None, ..epochs };
        let named = if self.keeps(Rule::TwoEpochs) { epochs } else { ShardEpochs { next: None, ..epochs } };
        self.name_epochs(parent, named, done).await
    }

    /// Copies the members of a shard's partition that are not certainly gone, all marks of each in
    /// one step, and past members to a partition of their own if they are kept. Repeating it
    /// changes nothing.
    pub async fn copy_members(&self, copied: Copied<'_>) -> ObjectsResult<()> {
        let Copied { parent, shard, epoch, shards, next } = copied;
        let old = parent.partition(shard, epoch);
        let mut batch = Batch::default();
        // The shard's number is also that of one of the shards that it becomes.
        batch.add(parent.partition(shard, next), self.newest_change(vec![old.clone()]).await?.map(change_row));
        let mut has_past = false;
        let mut children = Children::new(std::iter::once(old), Bytes::new(), Strength::Strong);
        while let Some(child) = children.next(self).await? {
            let Marked { incarnation, marks, note, .. } = &child.marked;
            if !marks.removed() {
                let partition = parent.partition(shard_of(&child.name, shards), next);
                let sample = self.sampling().row(&child.name, *incarnation, note);
                batch.add(partition, child.rows(None).into_iter().chain(sample));
            } else if let Some(kept) = self.keeps_past(parent.container(), &child.name, &child.marked).await? {
                if !std::mem::replace(&mut has_past, true) {
                    let index = parent.container().past_index_partition(parent.incarnation());
                    batch.add(index, [past::index_row(shard, epoch, parent.shards())]);
                }
                let expires_at = match kept {
                    Kept::ForEver => None,
                    Kept::Until(until) => Some(until),
                };
                batch.add(parent.past_partition(shard, epoch), child.rows(expires_at));
            }
            if batch.is_full() {
                self.put_copies(batch.take()).await?;
            }
        }
        match batch.take() {
            steps if steps.is_empty() => Ok(()),
            steps => self.put_copies(steps).await,
        }
    }

    async fn put_copies(&self, steps: Vec<Step>) -> ObjectsResult<()> {
        if self.keeps(Rule::CopyOne) {
            return self.put_acknowledged(Class::Description, steps).await;
        }
        for step in steps {
            let Step::Put { table, partition, rows } = step else { continue };
            for row in rows {
                let put = Step::Put { table, partition: partition.clone(), rows: vec![row] };
                self.put_acknowledged(Class::Description, vec![put]).await?;
            }
        }
        Ok(())
    }

    /// Makes the container's head name the epochs `to` for a shard, if it still names `from`.
    /// Returns whether it names `to` now.
    async fn name_epochs(&self, parent: &Parent, from: ShardEpochs, to: ShardEpochs) -> ObjectsResult<bool> {
        let change = |head: Option<&Head>| {
            let head = head.filter(|head| head.incarnation == parent.incarnation())?;
            let is_unchanged =
                |container: &&ContainerBody| container.growing.is_none() && container.epochs(from.shard) == from;
            let container = head.live_container().filter(is_unchanged)?;
            let mut head = head.clone();
            let epochs = container.with_epochs(to);
            head.body.container_mut().map(|container| *container = epochs)?;
            Some(head)
        };
        let row = self.amend(&parent.container().partition(), &change).await?;
        let container = row.as_ref().and_then(|row| row.head.live_container());
        Ok(container.is_some_and(|container| container.epochs(to.shard) == to))
    }

    /// Drops a partition that the head does not name any more, a grace after that was noticed: no
    /// page of a listing takes that long. Removes at most `rows_left` rows. Returns true if nothing
    /// is left.
    pub async fn drop_epoch(&self, children: &Bytes, rows_left: &mut u64) -> ObjectsResult<bool> {
        let records = keys::dropping_partition(children);
        let found = self.first_rows(Table::Work, &records, Scan::prefix(Bytes::new(), SCAN_BYTES)).await?;
        if !self.first_rows(Table::Children, children, Scan::prefix(Bytes::new(), 1)).await?.is_empty() {
            let since = found.iter().filter_map(|row| keys::dropping_since(&row.sort)).min();
            let Some(since) = since else {
                let row = NewRow::new(
                    keys::dropping(self.inner.surroundings.clock.now()),
                    envelope::seal(ValueKind::DroppingWork, &[]),
                );
                let record = Step::Put { table: Table::Work, partition: records, rows: vec![row] };
                self.put_removing(vec![record]).await?;
                return Ok(false);
            };
            if !self.grace_passed(since) || !self.remove_all(Table::Children, children, rows_left).await? {
                return Ok(false);
            }
        }
        if !found.is_empty() {
            let rows = Removal::Rows(found.into_iter().map(|row| row.sort).collect());
            let done = Step::Remove { table: Table::Work, partition: records, rows };
            self.put_acknowledged(Class::Description, vec![done]).await?;
        }
        Ok(true)
    }

    /// Removes all rows of a partition, one page at a time. Removes at most `rows_left` rows, and
    /// subtracts them from it. Returns true if nothing is left. Removed rows stay removed, so a
    /// later call begins with the rest.
    #[boxed]
    pub async fn remove_all(&self, table: Table, partition: &Bytes, rows_left: &mut u64) -> ObjectsResult<bool> {
        let mut scan = Some(Scan::prefix(Bytes::new(), SCAN_BYTES));
        while let Some(range) = scan {
            if *rows_left == 0 {
                return Ok(false);
            }
            let read = || async {
                let call = self.call(Class::Description).strong();
                Ok(self.inner.store.scan(call, table, partition, range.clone()).await?)
            };
            let page = self.retry_transient(read).await?;
            if page.rows.is_empty() {
                break;
            }
            let rows = Removal::Range(range.from.clone(), page.next.clone());
            let remove = Step::Remove { table, partition: partition.clone(), rows };
            self.put_acknowledged(Class::Description, vec![remove]).await?;
            *rows_left = rows_left.saturating_sub(page.rows.len() as u64);
            scan = range.resumed(page.next);
        }
        Ok(true)
    }
}
