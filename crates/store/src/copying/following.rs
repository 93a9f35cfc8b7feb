//! Copies parts of a store by name, for a follower that learns elsewhere what has changed, and
//! records how far the follower has come.
//!
//! Between two passes a follower copies only objects that are named to it. The target stays an unfinished
//! copy all the time: nobody else reads or changes it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::partition::{Depth, Window};
use super::patience::call;
use super::{Copier, CopyError, POSITION_PARTITION, unfinished, unfinished_reason};
use crate::{
    ContentId, NewRow, Removal, Row, Rows, Scan, Step, Store, StoreError, StoreResult, Table, UnixMillis, boxed,
    read_only,
};

/// The row beside the position of a pass that holds a [`Followed`].
pub(super) static FOLLOWED: Bytes = Bytes::from_static(b"followed");

/// The form in which a [`Followed`] is stored.
const FORM: u8 = 1;

/// How far a follower has come. It is stored in the target alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// Identifies the source, whatever its address: a follower never mixes two stores.
    pub lineage: String,
    /// The cursor in the source's change feed behind which changes are still to be copied.
    pub cursor: String,
    /// When the last whole pass began, by this machine's clock; `None`: the first has not ended.
    pub whole: Option<UnixMillis>,
    /// All changes until this time, by the source's clock, are in the target; `None`: not known.
    pub until: Option<UnixMillis>,
}

impl Copier {
    /// How far a follower of the source has come; `None`: the copy was never followed.
    #[boxed]
    pub async fn followed(&self) -> StoreResult<Option<Followed>> {
        self.patience.with(|| followed(self.target.as_ref())).await
    }

    /// Records how far the follower has come.
    #[boxed]
    pub async fn set_followed(&self, followed: &Followed) -> Result<(), CopyError> {
        let value = encode(followed)?;
        let (table, partition) = (Table::Work, POSITION_PARTITION.clone());
        let rows = vec![NewRow::new(FOLLOWED.clone(), value)];
        let before = Removal::Rows(vec![FOLLOWED.clone()]);
        let steps = vec![
            Step::Remove { table, partition: partition.clone(), rows: before },
            Step::Put { table, partition, rows },
        ];
        self.apply(steps).await
    }

    /// A row of the source.
    #[boxed]
    pub async fn row(&self, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.patience.with(|| self.source.get(call(), table, partition, sort)).await
    }

    /// A row of the target.
    #[boxed]
    pub async fn copied_row(&self, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.patience.with(|| self.target.get(call(), table, partition, sort)).await
    }

    /// A page of rows of the source.
    #[boxed]
    pub async fn rows(&self, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.patience.with(|| self.source.scan(call(), table, partition, scan.clone())).await
    }

    /// A page of rows of the target.
    #[boxed]
    pub async fn copied_rows(&self, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.patience.with(|| self.target.scan(call(), table, partition, scan.clone())).await
    }

    /// Makes the rows of a partition from one key to before another like those of the source.
    /// Returns whether there was anything to do.
    #[boxed]
    pub async fn copy_rows(
        &self,
        table: Table,
        partition: &Bytes,
        from: Bytes,
        to: Option<Bytes>,
    ) -> Result<bool, CopyError> {
        let changed = self.copy_window(table, partition, Window { from, to }).await?;
        Ok(self.count(changed))
    }

    /// Makes a partition like that of the source, as a pass does: one of [`Table::Objects`] with
    /// the packs beside it.
    #[boxed]
    pub async fn copy_named(&self, table: Table, partition: &Bytes) -> Result<bool, CopyError> {
        let changed = match table {
            Table::Objects => self.copy_object(partition, Depth::Quick).await?,
            _ => self.copy_partition(table, partition).await?,
        };
        Ok(self.count(changed))
    }

    /// Writes a guarded row that was read from the source.
    #[boxed]
    pub async fn copy_head(&self, table: Table, partition: &Bytes, head: &Row) -> Result<bool, CopyError> {
        let changed = self.copy_guarded(table, partition, head).await?;
        Ok(self.count(changed))
    }

    /// Copies a large content, if the source has it.
    #[boxed]
    pub async fn copy_content_named(&self, id: ContentId) -> Result<bool, CopyError> {
        let changed = self.copy_content(&Bytes::copy_from_slice(&id.0)).await?;
        Ok(self.count(changed))
    }

    fn count(&self, changed: bool) -> bool {
        self.progress.changed.fetch_add(u64::from(changed), std::sync::atomic::Ordering::Relaxed);
        changed
    }
}

/// How far a follower has come whose target this store is; `None`: it is no such target.
#[boxed]
pub async fn followed(target: &dyn Store) -> StoreResult<Option<Followed>> {
    let row = target.get(call(), Table::Work, &POSITION_PARTITION, &FOLLOWED).await?;
    row.map(|row| decode(&row.value)).transpose()
}

/// Recognises the source of a copy that was followed, whatever its name was then. The target keeps
/// `origin`, its present name, so that [`Copier::begin`] takes it. `lineage` is
/// [`Followed::lineage`] of the source; `None`: it has none. Returns `false` if the target follows a
/// store of another lineage. A target that was never followed stays as it is.
#[boxed]
pub async fn recognise(target: &dyn Store, lineage: Option<&str>, origin: &str) -> StoreResult<bool> {
    let Some(followed) = followed(target).await? else { return Ok(true) };
    if lineage != Some(followed.lineage.as_str()) {
        return Ok(false);
    }
    if unfinished(target).await?.is_some_and(|name| name != origin) {
        read_only::set(target, Some(&unfinished_reason(origin))).await?;
    }
    Ok(true)
}

fn encode(followed: &Followed) -> StoreResult<Bytes> {
    Ok(Bytes::from([&[FORM], &crate::wire::encode(followed)?[..]].concat()))
}

fn decode(value: &Bytes) -> StoreResult<Followed> {
    let corrupt = |detail: String| StoreError::Corrupt { table: Table::Work, detail };
    match value.split_first() {
        Some((&FORM, followed)) => crate::wire::decode(followed).map_err(|error| corrupt(error.to_string())),
        _ => Err(corrupt("the place of a follower has an unknown form".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_place_of_a_follower_has_these_bytes() {
        let followed =
            Followed { lineage: "01".to_owned(), cursor: "02".to_owned(), whole: Some(UnixMillis(3)), until: None };
        let bytes = b"\x01\x0201\x0202\x01\x03\x00";
        assert_eq!(encode(&followed).unwrap(), &bytes[..]);
        assert_eq!(decode(&Bytes::from_static(bytes)).unwrap(), followed);
        for broken in [&bytes[..4], b"", b"\x02"] {
            decode(&Bytes::copy_from_slice(broken)).unwrap_err();
        }
    }
}
