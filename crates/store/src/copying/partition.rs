//! Makes a partition of the target like that of the source.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::patience::{Patience, call};
use super::{Copier, CopyError};
use crate::{
    Condition, Direction, Expect, Guard, NewRow, Outcome, Removal, Row, Scan, Step, Store, StoreError, StoreResult,
    Table,
};

/// Bytes of a page of rows.
const PAGE_BYTES: usize = 512 << 10;

/// Bytes of a first page that is read together with those of other partitions.
const FIRST_PAGE_BYTES: usize = 16 << 10;

/// Bytes of rows that are put in one step.
const PUT_BYTES: usize = 1 << 20;

/// Rows that are put or removed in one step.
const ROWS_AT_ONCE: usize = 1024;

/// How often an object is copied again because its head changed meanwhile. After that it is left to
/// the next pass.
const TRIES: usize = 3;

/// How closely a partition of objects is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Compares its packs only if one of its small rows differs: small rows are put after all packs
    /// and removed before them. A small row that arrives late can be there without them.
    Quick,
    /// Compares all of it.
    Whole,
}

/// The rows of a partition from one key to before another.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    pub(super) from: Bytes,
    /// `None`: to the end of the partition.
    pub(super) to: Option<Bytes>,
}

/// The rows of a partition, one after the other.
pub(super) struct Rows<'a> {
    patience: Patience,
    store: &'a dyn Store,
    pub(super) table: Table,
    pub(super) partition: &'a Bytes,
    page: VecDeque<Row>,
    rest: Option<Scan>,
}

impl<'a> Rows<'a> {
    pub(super) fn of(patience: Patience, store: &'a dyn Store, table: Table, partition: &'a Bytes) -> Self {
        Self::within(patience, store, table, partition, Window::default())
    }

    fn within(
        patience: Patience,
        store: &'a dyn Store,
        table: Table,
        partition: &'a Bytes,
        Window { from, to }: Window,
    ) -> Self {
        let all = Scan { from, to, direction: Direction::Forward, max_bytes: PAGE_BYTES };
        Self { patience, store, table, partition, page: VecDeque::new(), rest: Some(all) }
    }

    /// The rows of each partition. Their first pages are read in one call. If that fails, each
    /// partition is read by calls of its own, so that none fails or runs out of time for another.
    async fn of_each(patience: Patience, store: &'a dyn Store, table: Table, partitions: &'a [Bytes]) -> Vec<Self> {
        let first = Scan::prefix(Bytes::new(), FIRST_PAGE_BYTES);
        let scans = partitions.iter().map(|partition| (table, partition.clone(), first.clone())).collect();
        let all = partitions.iter().map(|partition| Self::of(patience, store, table, partition));
        let Ok(pages) = store.scan_many(call(), scans).await else { return all.collect() };
        let begun = all.zip(pages).map(|(all, page)| {
            let rest = all.rest.as_ref().and_then(|scan| scan.resumed(page.next));
            Self { page: page.rows.into(), rest, ..all }
        });
        begun.collect()
    }

    async fn peek(&mut self) -> StoreResult<Option<&Row>> {
        while self.page.is_empty()
            && let Some(scan) = self.rest.take()
        {
            let page = self.patience.with(|| self.store.scan(call(), self.table, self.partition, scan.clone())).await?;
            self.rest = scan.resumed(page.next);
            self.page.extend(page.rows);
        }
        Ok(self.page.front())
    }

    pub(super) async fn next(&mut self) -> StoreResult<Option<Row>> {
        self.peek().await?;
        Ok(self.page.pop_front())
    }
}

/// The rows of a partition in both stores, one key after the other.
pub(super) struct Pairs<'a> {
    pub(super) source: Rows<'a>,
    pub(super) target: Rows<'a>,
}

impl Pairs<'_> {
    /// Whether all of its rows are in memory.
    pub(super) fn are_read(&self) -> bool {
        self.source.rest.is_none() && self.target.rest.is_none()
    }

    /// The next row of the source, of the target, or of both; `None`: that was all.
    async fn next(&mut self) -> StoreResult<Option<(Option<Row>, Option<Row>)>> {
        let order = match (self.source.peek().await?, self.target.peek().await?) {
            (None, None) => return Ok(None),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(wanted), Some(there)) => wanted.sort.cmp(&there.sort),
        };
        let wanted = if order.is_le() { self.source.next().await? } else { None };
        let there = if order.is_ge() { self.target.next().await? } else { None };
        Ok(Some((wanted, there)))
    }
}

/// What is left to do after the rows of a partition are compared and the missing ones are put.
#[derive(Default)]
struct Rest {
    /// Heads that differ, and what is stored in their place in the target.
    heads: Vec<(Row, Guard, Expect)>,
    /// Rows that the source no longer has.
    surplus: Vec<Bytes>,
    /// Whether rows were put.
    has_put: bool,
}

impl Rest {
    fn is_nothing(&self) -> bool {
        self.heads.is_empty() && self.surplus.is_empty() && !self.has_put
    }
}

impl Copier {
    /// Makes a partition of objects like that of the source: its packs first, then its rows, then
    /// its head, if the source still has that head. Returns whether there was anything to do.
    ///
    /// It puts only rows that were there before it read the packs. So where the rows are, all packs
    /// are, and the next pass can compare the rows alone.
    pub(super) async fn copy_object(&self, partition: &Bytes, depth: Depth) -> Result<bool, CopyError> {
        for _ in 0..TRIES {
            let differing = self.differing(Table::Objects, partition).await?;
            if differing.is_empty() && depth == Depth::Quick {
                return Ok(false);
            }
            let all = Window::default;
            let packs = self.put_missing(self.pairs(Table::Packs, partition, all()), |_| true).await?;
            let objects = self.pairs(Table::Objects, partition, all());
            let objects = self.put_missing(objects, |sort| differing.contains(sort)).await?;
            if self.still_stand(Table::Objects, partition, &objects).await? {
                self.finish(Table::Objects, partition, &objects).await?;
                self.finish(Table::Packs, partition, &packs).await?;
                return Ok(!objects.is_nothing() || !packs.is_nothing());
            }
        }
        Ok(true)
    }

    /// Makes a partition like that of the source. Returns whether there was anything to do.
    pub(super) async fn copy_partition(&self, table: Table, partition: &Bytes) -> Result<bool, CopyError> {
        self.copy_window(table, partition, Window::default()).await
    }

    /// Makes some rows of a partition like those of the source. Returns whether there was anything
    /// to do.
    pub(super) async fn copy_window(&self, table: Table, partition: &Bytes, window: Window) -> Result<bool, CopyError> {
        self.copy_pairs(self.pairs(table, partition, window)).await
    }

    /// Makes the target's rows of a partition like those of the source. Returns whether there was
    /// anything to do.
    pub(super) async fn copy_pairs(&self, pairs: Pairs<'_>) -> Result<bool, CopyError> {
        let (table, partition) = (pairs.source.table, pairs.source.partition);
        let rest = self.put_missing(pairs, |_| true).await?;
        self.finish(table, partition, &rest).await?;
        Ok(!rest.is_nothing())
    }

    /// Writes a guarded row of the source, unless the target has it. Returns whether it had to.
    pub(super) async fn copy_guarded(&self, table: Table, partition: &Bytes, head: &Row) -> Result<bool, CopyError> {
        let Some(guard) = &head.guard else {
            return Err(StoreError::Invalid("a row without a guard is none of a head".to_owned()).into());
        };
        let there = self.patience.with(|| self.target.get(call(), table, partition, &head.sort)).await?;
        if there.as_ref() == Some(head) {
            return Ok(false);
        }
        let expect = there.and_then(|there| there.guard).map_or(Expect::Absent, |guard| Expect::Stamp(guard.stamp));
        self.write_head(table, partition, head, guard, expect).await?;
        Ok(true)
    }

    fn pairs<'a>(&'a self, table: Table, partition: &'a Bytes, window: Window) -> Pairs<'a> {
        let rows = |store| Rows::within(self.patience, store, table, partition, window.clone());
        Pairs { source: rows(self.source.as_ref()), target: rows(self.target.as_ref()) }
    }

    /// The rows of each partition. Their first pages are read in one call of each store.
    pub(super) async fn pairs_of_each<'a>(&'a self, table: Table, partitions: &'a [Bytes]) -> Vec<Pairs<'a>> {
        let source = Rows::of_each(self.patience, self.source.as_ref(), table, partitions);
        let target = Rows::of_each(self.patience, self.target.as_ref(), table, partitions);
        let (source, target) = futures::join!(source, target);
        source.into_iter().zip(target).map(|(source, target)| Pairs { source, target }).collect()
    }

    /// The keys of a partition at which the stores differ.
    async fn differing(&self, table: Table, partition: &Bytes) -> Result<BTreeSet<Bytes>, CopyError> {
        let (mut pairs, mut differing) = (self.pairs(table, partition, Window::default()), BTreeSet::new());
        while let Some((wanted, there)) = pairs.next().await? {
            if wanted != there {
                differing.extend(wanted.or(there).map(|row| row.sort));
            }
        }
        Ok(differing)
    }

    /// Compares rows of a partition one by one and puts the missing rows whose keys `may_put` accepts.
    async fn put_missing(&self, mut pairs: Pairs<'_>, may_put: impl Fn(&Bytes) -> bool) -> Result<Rest, CopyError> {
        let (table, partition) = (pairs.source.table, pairs.source.partition);
        let (mut rest, mut puts) = (Rest::default(), Puts::default());
        while let Some((wanted, there)) = pairs.next().await? {
            match (wanted, there) {
                // It is newer than the packs that were read. The next pass copies it.
                (Some(wanted), _) if !may_put(&wanted.sort) => {}
                (Some(wanted), there) if there.as_ref() != Some(&wanted) => {
                    match wanted.guard.clone() {
                        Some(guard) => {
                            let current = there.and_then(|there| there.guard);
                            let expect = current.map_or(Expect::Absent, |guard| Expect::Stamp(guard.stamp));
                            rest.heads.push((wanted, guard, expect));
                        }
                        None => puts.add(wanted, there.is_some()),
                    }
                    if puts.is_full() {
                        rest.has_put = true;
                        self.put(table, partition, std::mem::take(&mut puts)).await?;
                    }
                }
                (None, Some(there)) => rest.surplus.push(there.sort),
                _ => {}
            }
        }
        if !puts.rows.is_empty() {
            rest.has_put = true;
            self.put(table, partition, puts).await?;
        }
        Ok(rest)
    }

    async fn put(&self, table: Table, partition: &Bytes, puts: Puts) -> Result<(), CopyError> {
        let mut steps = Vec::with_capacity(2);
        if !puts.replaced.is_empty() {
            let rows = Removal::Rows(puts.replaced);
            steps.push(Step::Remove { table, partition: partition.clone(), rows });
        }
        steps.push(Step::Put { table, partition: partition.clone(), rows: puts.rows });
        self.apply(steps).await?;
        self.progress.bytes.fetch_add(puts.bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the source still has the heads that are to be written.
    async fn still_stand(&self, table: Table, partition: &Bytes, rest: &Rest) -> Result<bool, CopyError> {
        for (head, _, _) in &rest.heads {
            let now = self.patience.with(|| self.source.get(call(), table, partition, &head.sort)).await?;
            if now.and_then(|now| now.guard) != head.guard {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes heads and removes the rows that the source no longer has.
    async fn finish(&self, table: Table, partition: &Bytes, rest: &Rest) -> Result<(), CopyError> {
        for (head, guard, expect) in &rest.heads {
            self.write_head(table, partition, head, guard, *expect).await?;
        }
        for sorts in rest.surplus.chunks(ROWS_AT_ONCE) {
            let rows = Removal::Rows(sorts.to_vec());
            self.apply(vec![Step::Remove { table, partition: partition.clone(), rows }]).await?;
        }
        Ok(())
    }

    async fn write_head(
        &self,
        table: Table,
        partition: &Bytes,
        head: &Row,
        guard: &Guard,
        expect: Expect,
    ) -> Result<(), CopyError> {
        let step = Step::CompareAndWrite {
            table,
            partition: partition.clone(),
            sort: head.sort.clone(),
            expect,
            guard: guard.clone(),
            value: head.value.clone(),
        };
        let written = self.patience.with(|| async {
            match self.target.run(call(), vec![step.clone()]).await? {
                Outcome::Applied => Ok(true),
                // An earlier try may have been applied without an answer.
                Outcome::Refused { current, .. } => Ok(Condition::Stamp(guard.stamp).holds(current.as_ref())),
                Outcome::Unknown { reason } => Err(StoreError::Unavailable(reason)),
            }
        });
        if !written.await? {
            return Err(CopyError::Differs { table, partition: partition.escape_ascii().to_string() });
        }
        self.progress.bytes.fetch_add((head.sort.len() + head.value.len()) as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Rows that are to be put.
#[derive(Default)]
struct Puts {
    rows: Vec<NewRow>,
    bytes: usize,
    /// Keys at which the target has another row.
    replaced: Vec<Bytes>,
}

impl Puts {
    fn add(&mut self, Row { sort, value, expires_at, .. }: Row, is_replacing: bool) {
        self.bytes += sort.len() + value.len();
        if is_replacing {
            self.replaced.push(sort.clone());
        }
        self.rows.push(NewRow { sort, value, expires_at });
    }

    fn is_full(&self) -> bool {
        self.bytes >= PUT_BYTES || self.rows.len() >= ROWS_AT_ONCE
    }
}
