//! Past members of containers.
//!
//! Present listings should read as few past members as possible. When a shard is rewritten or a
//! container gets new shards, past members move to partitions of their own: one for each shard and
//! epoch left behind, so that no partition is larger than that shard was. A further partition of
//! the container lists them. Together with the shards they hold all members that the container ever
//! had, each with the revision that created it and the one that removed it. To find what a
//! container held at some time, a reader reads its head first, then the list, then the partitions.
//!
//! [`crate::History`] determines for each kind of member whether past members are kept. If it is a
//! number of versions, a past member is kept as long as one of its heads is among that many newest
//! heads of its name.

use bytes::Bytes;
use store::{Class, NewRow, Scan, Table, UnixMillis, ValueKind, boxed, envelope};

use crate::children::Marked;
use crate::containment::Container;
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::keep::Keep;
use crate::keys;
use crate::revision::RevisionId;

/// Bytes of one page of the list of partitions.
const SCAN_BYTES: usize = 16 << 10;

/// How long a past member is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// For ever.
    ForEver,
    /// Until this time.
    Until(UnixMillis),
}

impl Keep {
    /// How long a member is kept that was removed by this revision; `None` if it is not kept.
    fn member(self, removed_by: RevisionId, now: UnixMillis) -> Option<Kept> {
        match self {
            Self::For(time) => Some(removed_by.time().plus(time)).filter(|until| now < *until).map(Kept::Until),
            _ => self.keeps_members().then_some(Kept::ForEver),
        }
    }

    /// Whether past members are kept forever.
    pub fn keeps_members(self) -> bool {
        matches!(self, Self::All | Self::Newest(1..))
    }
}

impl Heads {
    /// Which past members of a container are kept.
    pub fn history_of(&self, container: &Container) -> Keep {
        match container {
            Container::Volumes => self.inner.options.history.volumes,
            Container::At(path) => self.inner.options.kept_at(path),
        }
    }

    /// Which versions of a member of a container are kept.
    fn history_of_child(&self, container: &Container, name: &str) -> Keep {
        let child = match container {
            Container::Volumes => None,
            Container::At(path) => path.child(name).ok(),
        };
        child.map_or_else(|| self.history_of(container), |child| self.inner.options.kept_at(&child))
    }

    /// How long a past member is kept; `None` if it is not kept, which includes members that were
    /// never created.
    pub async fn keeps_past(&self, container: &Container, name: &str, marked: &Marked) -> ObjectsResult<Option<Kept>> {
        let Some(removed_by) = marked.removed_by else { return Ok(None) };
        let keep = self.history_of(container);
        if matches!(keep, Keep::Newest(1..)) {
            let object = container.child_partition(name);
            let kept_from = async || match self.head_at(&object).await? {
                Some(row) => self.kept_from(&object, &row.head, self.history_of_child(container, name)).await,
                None => Ok(None),
            };
            match self.retry_transient(kept_from).await {
                Ok(Some(from)) if from <= removed_by => {}
                Ok(_) => return Ok(None),
                // The head is unreadable, so the member is kept.
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(keep.member(removed_by, self.inner.surroundings.clock.now()))
    }

    /// Some partitions of past members of a container, and where their list continues.
    #[boxed]
    pub async fn past_partitions(
        &self,
        container: &Container,
        incarnation: RevisionId,
        from: Option<Scan>,
    ) -> ObjectsResult<(Vec<(Bytes, Bytes)>, Option<Scan>)> {
        let scan = from.unwrap_or_else(|| Scan::prefix(Bytes::new(), SCAN_BYTES));
        let index = container.past_index_partition(incarnation);
        let read = || async {
            let call = self.call(Class::Description).strong();
            Ok(self.inner.store.scan(call, Table::Children, &index, scan.clone()).await?)
        };
        let page = self.retry_transient(read).await?;
        let partition = |sort: Bytes| {
            let (shard, epoch) = keys::past_index_of(&sort)
                .ok_or_else(|| ObjectsError::corrupt(Table::Children, "a strange key in a list of past members"))?;
            Ok((sort, container.past_partition(incarnation, shard, epoch)))
        };
        let partitions = page.rows.into_iter().map(|row| partition(row.sort)).collect::<ObjectsResult<_>>()?;
        Ok((partitions, scan.resumed(page.next)))
    }
}

/// The row that lists the past members of a shard at an epoch, when there were so many shards.
pub fn index_row(shard: u16, epoch: u32, shards: u16) -> NewRow {
    NewRow::new(keys::past_index(shard, epoch), envelope::seal(ValueKind::PastIndex, &shards.to_be_bytes()))
}
