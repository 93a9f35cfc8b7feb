//! Rewriting a shard without its past members, whose marks nobody may take away while the partition is read.
//!
//! The head names both epochs; then the old one is scanned, and each child that is not surely gone is copied, all its marks in
//! one step; then the head names the new one alone. Marks that were required to find the old head are in the old partition before
//! the scan begins, all others go to the new one, so that none is lost that matters: what a late sweeper still puts into the old
//! partition (confirmed, removed) only repeats what heads say. Any server goes on with what another has begun; copying twice
//! changes nothing. The old partition is dropped once no page of a listing can still be reading it.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use store::{Class, NewRow, Removal, Row, Scan, Step, Strength, Table, envelope};

use crate::children::{Children, Marked, Name};
use crate::containment::{Container, Mark, Parent, change_row, mark_row};
use crate::error::ObjectsResult;
use crate::head::{ContainerBody, Head, ShardEpochs};
use crate::keys;
use crate::library::Library;

/// A shard is rewritten when one of so many of its rows is of a past member.
const DEAD_SHARE: u64 = 4;

/// Rows that are copied in one step, about.
pub(crate) const COPY_ROWS: usize = 1_000;

/// Bytes of one page of a scan over records.
const SCAN_BYTES: usize = 64 << 10;

/// The marks in a shard.
pub(crate) struct Counted {
    pub rows: u64,
    /// Those of past members.
    pub dead: u64,
}

impl Library {
    /// Looks at the shard of volumes whose turn it is: goes on with a rewriting that was begun, drops what an earlier one left, or rewrites
    /// it if that is worth it. Answers whether it was rewritten. [`Library::collect_once`] does this too.
    pub async fn tend_next_shard(&self) -> ObjectsResult<bool> {
        if !self.is_home() {
            return Ok(false);
        }
        let parent = self.patiently(|| self.parent(&Container::Volumes)).await?;
        let shard = self.inner.shard_in_turn.fetch_add(1, Ordering::Relaxed) % parent.shards().max(1);
        self.tend_shard(&parent, shard).await
    }

    /// The same for one shard of any container.
    pub(crate) async fn tend_shard(&self, parent: &Parent, shard: u16) -> ObjectsResult<bool> {
        if parent.body().growing.is_some() {
            return Ok(false);
        }
        let epochs = parent.epochs(shard);
        if epochs.next.is_some() {
            return self.copy_shard(parent, epochs).await;
        }
        if let Some(earlier) = epochs.current.checked_sub(1).filter(|earlier| *earlier >= parent.body().first_epoch)
            && !self.drop_epoch(&parent.partition(shard, earlier)).await?
        {
            return Ok(false);
        }
        if !self.is_worth_rewriting(parent, shard).await? {
            return Ok(false);
        }
        let begun = ShardEpochs { next: Some(epochs.current + 1), ..epochs };
        if !self.name_epochs(parent, epochs, begun).await? {
            return Ok(false);
        }
        self.copy_shard(parent, begun).await
    }

    async fn is_worth_rewriting(&self, parent: &Parent, shard: u16) -> ObjectsResult<bool> {
        let Counted { rows, dead } = self.count_rows(parent, shard).await?;
        Ok(dead >= self.inner.options.rewrite_dead_rows_min.max(1) && dead * DEAD_SHARE >= rows)
    }

    /// How many marks there are in a shard, and how many of them are of past members.
    pub(crate) async fn count_rows(&self, parent: &Parent, shard: u16) -> ObjectsResult<Counted> {
        let mut children = Children::new(parent.partitions(shard), Bytes::new(), Strength::Usual);
        let (mut rows, mut dead) = (0, 0);
        while let Some(name) = children.next(self).await? {
            for marked in &name.incarnations {
                let of_child = marked.marks.iter().count() as u64;
                rows += of_child;
                dead += if marked.marks.removed() { of_child } else { 0 };
            }
        }
        Ok(Counted { rows, dead })
    }

    /// Copies what a shard's old partition holds of members that are not surely gone, then names the new partition alone.
    async fn copy_shard(&self, parent: &Parent, epochs: ShardEpochs) -> ObjectsResult<bool> {
        let old = std::iter::once(parent.partition(epochs.shard, epochs.current));
        let mut children = Children::new(old, Bytes::new(), Strength::Strong);
        let new = parent.partition(epochs.shard, epochs.target());
        let newest = self.newest_change(std::iter::once(parent.partition(epochs.shard, epochs.current))).await?;
        let mut rows: Vec<_> = newest.map(change_row).into_iter().collect();
        while let Some(name) = children.next(self).await? {
            rows.extend(self.copies(&name));
            if rows.len() >= COPY_ROWS {
                self.put_copies(&new, std::mem::take(&mut rows)).await?;
            }
        }
        self.put_copies(&new, rows).await?;
        let done = ShardEpochs { current: epochs.target(), next: None, ..epochs };
        self.name_epochs(parent, epochs, done).await
    }

    /// The marks of a name, as they are copied: those of what is surely gone are left behind.
    pub(crate) fn copies(&self, name: &Name) -> Vec<NewRow> {
        let mut rows = Vec::new();
        for Marked { incarnation, marks, note } in name.incarnations.iter().filter(|marked| !marked.marks.removed()) {
            let note_of = |mark| if mark == Mark::Added { note.clone() } else { Bytes::new() };
            rows.extend(marks.iter().map(|mark| mark_row(&name.name, *incarnation, mark, &note_of(mark))));
            rows.extend(self.sampling().row(&name.name, *incarnation, note));
        }
        rows
    }

    async fn put_copies(&self, partition: &Bytes, rows: Vec<NewRow>) -> ObjectsResult<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let put = Step::Put { table: Table::Children, partition: partition.clone(), rows };
        self.put_acknowledged(Class::Description, vec![put]).await
    }

    /// Has the head of the container name other epochs of a shard, if it names `from` still; whether it names `to` now.
    async fn name_epochs(&self, parent: &Parent, from: ShardEpochs, to: ShardEpochs) -> ObjectsResult<bool> {
        let change = |head: Option<&Head>| {
            let head = head.filter(|head| head.incarnation == parent.incarnation())?;
            let stands =
                |container: &&ContainerBody| container.growing.is_none() && container.epochs(from.shard) == from;
            let container = head.live_container().filter(stands)?;
            let mut head = head.clone();
            let epochs = container.with_epochs(to);
            head.body.container_mut().map(|container| *container = epochs)?;
            Some(head)
        };
        let row = self.amend(&parent.container().partition(), change).await?;
        let container = row.as_ref().and_then(|row| row.head.live_container());
        Ok(container.is_some_and(|container| container.epochs(to.shard) == to))
    }

    /// Drops a partition that the head does not name any more, a grace after that was noticed: no page of a listing takes so
    /// long. True: nothing is left of it.
    pub(crate) async fn drop_epoch(&self, children: &Bytes) -> ObjectsResult<bool> {
        let records = keys::dropping_partition(children);
        let found = self.first_rows(Table::Work, &records, Scan::prefix(Bytes::new(), SCAN_BYTES)).await?;
        if self.first_rows(Table::Children, children, Scan::prefix(Bytes::new(), 1)).await?.is_empty() {
            if !found.is_empty() {
                let rows = Removal::Rows(found.into_iter().map(|row| row.sort).collect());
                let done = Step::Remove { table: Table::Work, partition: records, rows };
                self.put_acknowledged(Class::Description, vec![done]).await?;
            }
            return Ok(true);
        }
        let since = found.iter().filter_map(|row| keys::dropping_since(&row.sort)).min();
        let Some(since) = since else {
            let row = NewRow::new(keys::dropping(self.inner.surroundings.clock.now()), envelope::seal(&[]));
            let record = Step::Put { table: Table::Work, partition: records, rows: vec![row] };
            self.put_acknowledged(Class::Description, vec![record]).await?;
            return Ok(false);
        };
        if !self.grace_passed(since) {
            return Ok(false);
        }
        // The records go first: if only that is done, the partition is found again, and waits once more.
        let sorts = found.into_iter().map(|row| row.sort).collect();
        let steps = vec![
            Step::Remove { table: Table::Work, partition: records, rows: Removal::Rows(sorts) },
            Step::Remove {
                table: Table::Children,
                partition: children.clone(),
                rows: Removal::Range(Bytes::new(), None),
            },
        ];
        self.put_acknowledged(Class::Description, steps).await?;
        Ok(true)
    }

    /// The first page of a range.
    pub(crate) async fn first_rows(&self, table: Table, partition: &Bytes, scan: Scan) -> ObjectsResult<Vec<Row>> {
        let read = || async {
            let call = self.call(Class::Description).strong();
            Ok(self.inner.store.scan(call, table, partition, scan.clone()).await?.rows)
        };
        self.patiently(read).await
    }
}
