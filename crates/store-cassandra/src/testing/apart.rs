//! A part of a keyspace that looks like a store of its own. A node needs a second to create a
//! keyspace, and tests that try every fault at every step of a protocol need hundreds of stores.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use store::{
    Call, ContentId, ContentStream, Outcome, Row, RowPage, Rows, Scan, Step, Store, StoreResult, Table, WalkPage,
    Wrapper,
};

/// A store whose partitions have a prefix in the inner store, and which knows only its own
/// contents.
///
/// It never sweeps: by its clock, the inner store would delete rows that others still use.
pub(super) struct Apart {
    inner: Arc<dyn Store>,
    prefix: Bytes,
    contents: Mutex<BTreeSet<ContentId>>,
}

impl Apart {
    /// The part of `inner` that has this prefix. No prefix may begin with another one.
    pub(super) fn new(inner: Arc<dyn Store>, prefix: impl Into<Bytes>) -> Self {
        Self { inner, prefix: prefix.into(), contents: Mutex::default() }
    }

    fn below(&self, partition: &[u8]) -> Bytes {
        [&self.prefix, partition].concat().into()
    }

    fn moved(&self, mut step: Step) -> Step {
        match &mut step {
            Step::Put { partition, .. }
            | Step::Require { partition, .. }
            | Step::CompareAndWrite { partition, .. }
            | Step::Replace { partition, .. }
            | Step::Remove { partition, .. } => *partition = self.below(partition),
        }
        step
    }

    /// The name here of a partition of the inner store; `None`: it belongs to another part.
    fn above(&self, table: Table, partition: &Bytes) -> Option<Bytes> {
        match table {
            Table::Contents => {
                let id = ContentId(partition[..].try_into().ok()?);
                self.contents.lock().contains(&id).then(|| partition.clone())
            }
            _ => partition.starts_with(&self.prefix).then(|| partition.slice(self.prefix.len()..)),
        }
    }
}

impl Wrapper for Apart {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.inner.get(call, table, &self.below(partition), sort).await
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let keys = keys.into_iter().map(|(partition, sort)| (self.below(&partition), sort)).collect();
        self.inner.get_many(call, table, keys).await
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.inner.scan(call, table, &self.below(partition), scan).await
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let moved = scans.into_iter().map(|(table, partition, scan)| (table, self.below(&partition), scan));
        self.inner.scan_many(call, moved.collect()).await
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        self.inner.run(call, steps.into_iter().map(|step| self.moved(step)).collect()).await
    }

    /// `from` and `next` are positions in the inner store.
    async fn walk(&self, call: Call, table: Table, mut from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        let mut partitions = Vec::new();
        loop {
            let page = self.inner.walk(call, table, from, max - partitions.len()).await?;
            partitions.extend(page.partitions.iter().filter_map(|partition| self.above(table, partition)));
            if partitions.len() == max || page.next.is_none() {
                return Ok(WalkPage { partitions, next: page.next });
            }
            from = page.next;
        }
    }

    /// A page holds only those of the inner page's rows that belong to this part.
    async fn walk_rows(
        &self,
        call: Call,
        table: Table,
        from: Option<Bytes>,
        max: usize,
        max_bytes: usize,
    ) -> StoreResult<RowPage> {
        let page = self.inner.walk_rows(call, table, from, max, max_bytes).await?;
        let own = page.rows.into_iter().filter_map(|(partition, row)| Some((self.above(table, &partition)?, row)));
        Ok(RowPage { rows: own.collect(), next: page.next })
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        self.contents.lock().insert(id);
        self.inner.put_content_as(call, id, owner, content).await
    }

    async fn sweep(&self, _: Call) -> StoreResult<u64> {
        Ok(0)
    }
}
