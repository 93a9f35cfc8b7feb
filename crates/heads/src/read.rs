//! Reads heads, and the first rows of a range.

use bytes::Bytes;
use store::{Call, Class, Row, Scan, Strength, Table, boxed};

use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::head::HeadRow;
use crate::keys;

impl Heads {
    /// Heads of many objects, in the given order; `None` if an object never existed. An unreadable
    /// head is an error of its own and does not affect others.
    #[boxed]
    pub async fn heads_at(
        &self,
        partitions: &[Bytes],
        strength: Strength,
    ) -> ObjectsResult<Vec<ObjectsResult<Option<HeadRow>>>> {
        let keys = partitions.iter().map(|partition| (partition.clone(), keys::head())).collect();
        let call = Call { strength, ..self.call(Class::Description) };
        let rows = match self.inner.store.get_many(call, Table::Objects, keys).await {
            Ok(rows) => rows,
            Err(store::StoreError::Corrupt { .. }) => return self.heads_one_by_one(partitions).await,
            Err(error) => return Err(error.into()),
        };
        let mut heads = Vec::with_capacity(partitions.len());
        for (partition, row) in partitions.iter().zip(rows) {
            heads.push(match row.as_ref().map(HeadRow::open).transpose() {
                Err(error) if error.is_damage() => self.head_at(partition).await,
                head => head,
            });
        }
        Ok(heads)
    }

    async fn heads_one_by_one(&self, partitions: &[Bytes]) -> ObjectsResult<Vec<ObjectsResult<Option<HeadRow>>>> {
        let mut heads = Vec::with_capacity(partitions.len());
        for partition in partitions {
            heads.push(match self.head_at(partition).await {
                Err(error) if !error.is_damage() => return Err(error),
                head => head,
            });
        }
        Ok(heads)
    }

    /// The head of any object, read strongly.
    #[boxed]
    pub async fn head_at(&self, partition: &Bytes) -> ObjectsResult<Option<HeadRow>> {
        let call = self.call(Class::Description).strong();
        let row = self.inner.store.get(call, Table::Objects, partition, &keys::head()).await?;
        row.as_ref().map(HeadRow::open).transpose()
    }

    /// The same, read serially: after every change of it that was decided, also if its outcome was
    /// unknown to the process that made it.
    #[boxed]
    pub async fn decided_head_at(&self, partition: &Bytes) -> ObjectsResult<Option<HeadRow>> {
        let call = self.call(Class::Description).serial();
        let row = self.inner.store.get(call, Table::Objects, partition, &keys::head()).await?;
        row.as_ref().map(HeadRow::open).transpose()
    }

    /// The first page of a range.
    #[boxed]
    pub async fn first_rows(&self, table: Table, partition: &Bytes, scan: Scan) -> ObjectsResult<Vec<Row>> {
        let read = || async {
            let call = self.call(Class::Description).strong();
            Ok(self.inner.store.scan(call, table, partition, scan.clone()).await?.rows)
        };
        self.retry_transient(read).await
    }
}
