//! An engine that stores nothing and returns constants at once. Benchmarks use it to measure the
//! doors and the protocol alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    Call, Capabilities, ContentHeader, ContentId, ContentState, ContentStream, Direction, Health, Outcome, Row, Rows,
    Scan, Step, Store, StoreResult, Table, UnixMillis, WalkPage,
};

/// Returns the same whatever was written: every partition of a table holds the same rows. Writes
/// are acknowledged and forgotten, whatever durability they want.
#[derive(Clone, Debug, Default)]
pub struct NullStore {
    rows: BTreeMap<Table, BTreeMap<Bytes, Row>>,
    partitions: BTreeMap<Table, BTreeSet<Bytes>>,
    content: Bytes,
}

impl NullStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the rows that every partition of `table` holds, for example rows read from another
    /// store.
    pub fn with_rows(mut self, table: Table, rows: Vec<Row>) -> Self {
        self.rows.insert(table, rows.into_iter().map(|row| (row.sort.clone(), row)).collect());
        self
    }

    /// Sets the partitions that a walk of `table` finds.
    pub fn with_partitions(mut self, table: Table, partitions: Vec<Bytes>) -> Self {
        self.partitions.insert(table, partitions.into_iter().collect());
        self
    }

    /// Sets the bytes of every content.
    pub fn with_content(mut self, content: Bytes) -> Self {
        self.content = content;
        self
    }

    fn row(&self, table: Table, sort: &Bytes) -> Option<Row> {
        self.rows.get(&table)?.get(sort).cloned()
    }
}

#[async_trait]
impl Store for NullStore {
    async fn get(&self, _: Call, table: Table, _: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        Ok(self.row(table, sort))
    }

    async fn get_many(&self, _: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        Ok(keys.iter().map(|(_, sort)| self.row(table, sort)).collect())
    }

    async fn scan(&self, _: Call, table: Table, _: &Bytes, scan: Scan) -> StoreResult<Rows> {
        let (Some(rows), false) = (self.rows.get(&table), scan.to.as_ref().is_some_and(|to| *to <= scan.from)) else {
            return Ok(Rows::default());
        };
        let to = scan.to.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let range = rows.range((Bound::Included(scan.from.clone()), to)).map(|(_, row)| row);
        Ok(match scan.direction {
            Direction::Forward => page(range, &scan),
            Direction::Backward => page(range.rev(), &scan),
        })
    }

    async fn run(&self, _: Call, _: Vec<Step>) -> StoreResult<Outcome> {
        Ok(Outcome::Applied)
    }

    async fn walk(&self, _: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        let Some(partitions) = self.partitions.get(&table) else { return Ok(WalkPage::default()) };
        let after = from.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = partitions.range((after, Bound::Unbounded));
        let partitions: Vec<Bytes> = rest.by_ref().take(max.max(1)).cloned().collect();
        let next = rest.next().and(partitions.last().cloned());
        Ok(WalkPage { partitions, next })
    }

    async fn put_content_as(&self, _: Call, _: ContentId, _: Bytes, content: ContentStream) -> StoreResult<()> {
        content.try_for_each(|_| async { Ok(()) }).await
    }

    async fn content_header(&self, _: Call, _: ContentId) -> StoreResult<Option<ContentHeader>> {
        Ok(Some(ContentHeader {
            state: ContentState::Sealed,
            owner: Bytes::new(),
            len: self.content.len() as u64,
            lease_until: UnixMillis::default(),
        }))
    }

    async fn read_content(&self, _: Call, _: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        let clip = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.content.len());
        let (from, to) = (clip(range.start), clip(range.end));
        let piece = self.content.slice(from..to.max(from));
        Ok(Some(stream::iter([Ok(piece)]).boxed()))
    }

    async fn condemn_content(&self, _: Call, _: ContentId) -> StoreResult<bool> {
        Ok(true)
    }

    async fn delete_content(&self, _: Call, _: ContentId) -> StoreResult<bool> {
        Ok(true)
    }

    async fn health(&self) -> Health {
        Health::default()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: false, has_atomic_lists: false, delays_syncs: false, folder: None }
    }
}

fn page<'a>(mut rows: impl Iterator<Item = &'a Row>, scan: &Scan) -> Rows {
    let mut page = Rows::default();
    let mut bytes = 0;
    for row in rows.by_ref() {
        bytes += row.sort.len() + row.value.len();
        page.rows.push(row.clone());
        if bytes >= scan.max_bytes {
            break;
        }
    }
    page.next = rows.next().and_then(|next| match scan.direction {
        Direction::Forward => Some(next.sort.clone()),
        Direction::Backward => page.rows.last().map(|last| last.sort.clone()),
    });
    page
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::{Class, Deadline};

    fn call() -> Call {
        Call::new(Class::Description, Deadline::within(Duration::from_secs(30)))
    }

    fn filled() -> NullStore {
        let rows =
            ["a", "b", "c"].map(|sort| Row { sort: sort.into(), value: "v".into(), guard: None, expires_at: None });
        NullStore::new()
            .with_rows(Table::Objects, rows.to_vec())
            .with_partitions(Table::Objects, vec!["p".into(), "q".into()])
    }

    #[tokio::test]
    async fn every_partition_holds_the_constant_rows_page_by_page() {
        for direction in [Direction::Forward, Direction::Backward] {
            let (mut sorts, mut rest) = (Vec::new(), Some(Scan { direction, ..Scan::prefix("", 1) }));
            while let Some(scan) = rest {
                let page = filled().scan(call(), Table::Objects, &"any".into(), scan.clone()).await.unwrap();
                assert_eq!(page.rows.len(), 1);
                sorts.extend(page.rows.into_iter().map(|row| row.sort));
                rest = scan.resumed(page.next);
            }
            if direction == Direction::Backward {
                sorts.reverse();
            }
            assert_eq!(sorts, ["a", "b", "c"]);
        }
        assert!(filled().get(call(), Table::Objects, &"any".into(), &"b".into()).await.unwrap().is_some());
        assert!(filled().get(call(), Table::Work, &"any".into(), &"b".into()).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_walk_finds_the_constant_partitions() {
        let first = filled().walk(call(), Table::Objects, None, 1).await.unwrap();
        assert_eq!(first.partitions, ["p"]);
        let second = filled().walk(call(), Table::Objects, first.next, 1).await.unwrap();
        assert_eq!((second.partitions, second.next), (vec!["q".into()], None));
    }

    #[tokio::test]
    async fn a_range_of_the_constant_content_is_clipped() {
        let store = NullStore::new().with_content("content".into());
        let read = store.read_content(call(), ContentId::default(), 3..u64::MAX).await.unwrap().unwrap();
        assert_eq!(read.try_collect::<Vec<Bytes>>().await.unwrap().concat(), b"tent");
    }
}
