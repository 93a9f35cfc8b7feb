//! A part of a keyspace that looks like a store of its own. A node needs a second to create a
//! keyspace, and tests that try every fault at every step of a protocol need hundreds of stores.
//!
//! A part knows the partitions that were ever written through it, and asks the node for no other
//! ones where it walks or scans. The engine's walk would read the rows of all parts, and a pass over
//! a queue scans thousands of partitions that were never written. The engine's own tests have
//! walks, and scans that find nothing.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use parking_lot::Mutex;
use store::{
    Call, ContentId, ContentStream, Direction, Outcome, Row, RowPage, Rows, Scan, Step, Store, StoreError, StoreResult,
    Table, WalkPage, Wrapper,
};

/// Partitions at which a walk looks at the same time.
const LOOKED_AT_ONCE: usize = 16;

/// A partition in the order of walks. As in the engine, that is not the order of keys.
type Place = (Table, u64, Bytes);

fn place(table: Table, partition: &Bytes) -> Place {
    let mut hasher = DefaultHasher::new();
    partition.hash(&mut hasher);
    (table, hasher.finish(), partition.clone())
}

/// A store whose partitions have a prefix in the inner store, and which knows only its own
/// contents.
///
/// It never sweeps: by its clock, the inner store would delete rows that others still use.
pub(super) struct Apart {
    inner: Arc<dyn Store>,
    prefix: Bytes,
    /// The partitions that were ever written, and the contents that were ever begun.
    written: Mutex<BTreeSet<Place>>,
}

impl Apart {
    /// The part of `inner` that has this prefix. No prefix may begin with another one, and no other
    /// part may have had the same one.
    pub(super) fn new(inner: Arc<dyn Store>, prefix: impl Into<Bytes>) -> Self {
        Self { inner, prefix: prefix.into(), written: Mutex::default() }
    }

    /// Notes what steps write. This comes before they run, because they may be carried out although
    /// their outcome is unknown.
    fn note(&self, steps: &[Step]) {
        let written = steps.iter().filter_map(|step| match step {
            Step::Put { table, partition, .. }
            | Step::CompareAndWrite { table, partition, .. }
            | Step::Replace { table, partition, .. } => Some(place(*table, partition)),
            Step::Require { .. } | Step::Remove { .. } => None,
        });
        self.written.lock().extend(written);
    }

    fn was_written(&self, table: Table, partition: &Bytes) -> bool {
        self.written.lock().contains(&place(table, partition))
    }

    /// The partitions of a table that were ever written, after one of them.
    fn written_after(&self, table: Table, from: Option<&Bytes>) -> Vec<Bytes> {
        let after = match from {
            Some(from) => Bound::Excluded(place(table, from)),
            None => Bound::Included((table, 0, Bytes::new())),
        };
        let written = self.written.lock();
        let of_table = written.range((after, Bound::Unbounded)).take_while(|(of, _, _)| *of == table);
        of_table.map(|(_, _, partition)| partition.clone()).collect()
    }

    /// Whether a partition holds rows now; of a content, whether there is one.
    async fn holds_rows(&self, call: Call, table: Table, partition: &Bytes) -> StoreResult<bool> {
        let found = match (table, <[u8; 16]>::try_from(&partition[..])) {
            (Table::Contents, Ok(id)) => {
                self.inner.content_header(call, ContentId(id)).await.map(|header| header.is_some())
            }
            _ => {
                let any = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 };
                let page = self.inner.scan(call, table, &self.below(partition), any).await;
                page.map(|page| !page.rows.is_empty())
            }
        };
        match found {
            // A row that cannot be read is one too.
            Err(StoreError::Corrupt { .. }) => Ok(true),
            found => found,
        }
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
        check_deadline(call)?;
        match self.was_written(table, partition) {
            true => self.inner.scan(call, table, &self.below(partition), scan).await,
            false => Ok(Rows::default()),
        }
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        check_deadline(call)?;
        let mut pages: Vec<Rows> = scans.iter().map(|_| Rows::default()).collect();
        let (mut indexes, mut asked) = (Vec::new(), Vec::new());
        for (index, (table, partition, scan)) in scans.into_iter().enumerate() {
            if self.was_written(table, &partition) {
                indexes.push(index);
                asked.push((table, self.below(&partition), scan));
            }
        }
        for (index, page) in indexes.into_iter().zip(self.inner.scan_many(call, asked).await?) {
            pages[index] = page;
        }
        Ok(pages)
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        self.note(&steps);
        self.inner.run(call, steps.into_iter().map(|step| self.moved(step)).collect()).await
    }

    /// `from` and `next` are the last partition of a page.
    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        check_deadline(call)?;
        let mut rest = self.written_after(table, from.as_ref()).into_iter();
        let mut page = WalkPage::default();
        while page.partitions.len() < max {
            let room = max - page.partitions.len();
            let looked_at: Vec<Bytes> = rest.by_ref().take(room.min(LOOKED_AT_ONCE)).collect();
            let Some(last) = looked_at.last() else { break };
            page.next = Some(last.clone());
            let looks = looked_at.iter().map(|partition| self.holds_rows(call, table, partition));
            let holds_rows = try_join_all(looks).await?;
            let found = looked_at.into_iter().zip(holds_rows);
            page.partitions.extend(found.filter_map(|(partition, holds)| holds.then_some(partition)));
        }
        page.next = page.next.filter(|_| !rest.as_slice().is_empty());
        Ok(page)
    }

    /// As by default over the walk here, whatever the bytes of the rows.
    async fn walk_rows(
        &self,
        call: Call,
        table: Table,
        from: Option<Bytes>,
        max: usize,
        _max_bytes: usize,
    ) -> StoreResult<RowPage> {
        let page = Wrapper::walk(self, call, table, from, max).await?;
        let keys = page.partitions.iter().map(|partition| (partition.clone(), Bytes::new())).collect();
        let rows = Wrapper::get_many(self, call, table, keys).await?;
        let found = page.partitions.into_iter().zip(rows);
        let rows = found.filter_map(|(partition, row)| Some((partition, row?))).collect();
        Ok(RowPage { rows, next: page.next })
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        self.written.lock().insert(place(Table::Contents, &Bytes::copy_from_slice(&id.0)));
        self.inner.put_content_as(call, id, owner, content).await
    }

    async fn sweep(&self, _: Call) -> StoreResult<u64> {
        Ok(0)
    }
}

/// As the engine does before it asks a node.
fn check_deadline(call: Call) -> StoreResult<()> {
    match call.deadline.passed() {
        true => Err(StoreError::DeadlinePassed),
        false => Ok(()),
    }
}
