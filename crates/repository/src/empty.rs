//! Drops what deleted containers leave: the marks of their children and of their past members. If
//! past members are kept, these stay too; the container's head log says where they are.

use bytes::Bytes;
use heads::chores::{Chore, Then};
use heads::container_body::ContainerBody;
use heads::containment::Container;
use heads::error::ObjectsResult;
use heads::head::{self, Head};
use heads::keep::Keep;
use heads::keys;
use heads::keys::stored_path;
use heads::path::ResourcePath;
use heads::queue::WorkEntry;
use heads::queues::Queue;
use heads::revision::RevisionId;
use heads::rewrite::DROPPED_ROWS_MAX;
use serde::{Deserialize, Serialize};
use store::{Class, Direction, NewRow, Removal, Scan, Step, Stored, Table, UnixMillis, ValueKind, boxed, envelope};

use crate::handle::Repository;

/// The progress is noted after so many partitions, so that a later call skips partitions that are
/// empty already.
const NOTED_PARTITIONS: u64 = 1_000;

/// The marks of a deleted container's children, to be dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Emptying {
    path: String,
    incarnation: RevisionId,
    children: ContainerBody,
}

impl Stored for Emptying {
    const KIND: ValueKind = ValueKind::EmptyingWork;
}

impl Repository {
    /// The record that a container, deleted by `revision`, has marks to drop; `None` if they are
    /// kept.
    pub(super) fn to_be_emptied(
        &self,
        path: &ResourcePath,
        head: &Head,
        revision: RevisionId,
    ) -> ObjectsResult<Option<Step>> {
        let Some(children) = head.body.container().filter(|_| !self.heads.options().kept_at(path).keeps_members())
        else {
            return Ok(None);
        };
        let (incarnation, children) = (head.incarnation, children.clone());
        let emptying = head::seal(&Emptying { path: path.to_string(), incarnation, children })?;
        let sort = keys::container_job(revision, incarnation);
        let due = self.may_be_emptied(path, revision);
        Ok(Some(self.heads.queued(Queue::Emptying, due, &sort, sort.clone(), emptying).put()))
    }

    /// Drops the marks of children of deleted containers. The deletion must be at least a grace
    /// ago, because no page of a listing takes that long, and longer ago than past members are
    /// kept. Returns for how many containers. A container with very many marks is left half empty,
    /// and a later call continues.
    #[boxed]
    pub async fn empty_deleted_containers(&self) -> ObjectsResult<u64> {
        let mut emptied = 0;
        if !self.heads.is_home() {
            return Ok(emptied);
        }
        let mut tally = self.heads.tally(Chore::Emptying);
        let mut rows_left = DROPPED_ROWS_MAX;
        let mut pass = self.heads.pass(Queue::Emptying).await?;
        while let Some(entries) = self.heads.next_due(&mut pass, &mut tally).await? {
            for entry in &entries {
                let done = self.empty_if_due(entry, &mut rows_left).await;
                let record = (std::slice::from_ref(entry), &entry.sort()[..]);
                emptied += u64::from(self.heads.dealt_with(&mut tally, record, done).await?.unwrap_or(false));
                if rows_left == 0 {
                    self.heads.leave_pass(pass).await?;
                    return Ok(emptied);
                }
            }
        }
        self.heads.end_pass(pass).await?;
        Ok(emptied)
    }

    /// The time from which the marks of a container that `deleted` deleted may be dropped.
    fn may_be_emptied(&self, path: &ResourcePath, deleted: RevisionId) -> UnixMillis {
        let options = &self.heads.options();
        let kept = match options.kept_at(path) {
            Keep::For(time) => time.max(options.grace),
            _ => options.grace,
        };
        deleted.time().plus(kept)
    }

    async fn empty_if_due(&self, record: &WorkEntry, rows_left: &mut u64) -> ObjectsResult<(bool, Then)> {
        let emptying: Emptying = head::open(Table::Work, &record.value)?;
        let path = stored_path(&emptying.path)?;
        let due = self.may_be_emptied(&path, keys::container_job_since(record.sort()).unwrap_or(RevisionId::ZERO));
        if self.heads.now() < due {
            return Ok((false, Then::Later(due)));
        }
        let is_empty = self.empty(record, path, emptying, rows_left).await?;
        Ok((is_empty, self.heads.finished_if(is_empty)))
    }

    /// Drops what a record names; returns false if something is left for a later call.
    async fn empty(
        &self,
        record: &WorkEntry,
        path: ResourcePath,
        emptying: Emptying,
        rows_left: &mut u64,
    ) -> ObjectsResult<bool> {
        let Emptying { incarnation, children, .. } = emptying;
        // The options at the deletion did not keep the marks; if the present options do, they stay.
        if !self.heads.options().kept_at(&path).keeps_members() {
            let container = Container::At(path);
            let so_far = self.emptied_so_far(record.sort()).await?;
            for (place, (shard, epoch)) in (0..).zip(children.all_places()).skip(so_far) {
                let partition = container.children_partition(incarnation, shard, epoch);
                let is_empty = self.heads.remove_all(Table::Children, &partition, rows_left).await?;
                if !is_empty || (place + 1) % NOTED_PARTITIONS == 0 {
                    self.note_emptied(record.sort(), if is_empty { place + 1 } else { place }).await?;
                }
                if !is_empty {
                    return Ok(false);
                }
            }
            if !self.forget_past(&container, incarnation, rows_left).await? {
                return Ok(false);
            }
        }
        let (partition, rows) = (keys::emptied_partition(record.sort()), Removal::Range(Bytes::new(), None));
        let notes = Step::Remove { table: Table::Work, partition, rows };
        self.heads.put_acknowledged(Class::Description, vec![notes]).await?;
        Ok(true)
    }

    /// Removes the past members of a container.
    async fn forget_past(
        &self,
        container: &Container,
        incarnation: RevisionId,
        rows_left: &mut u64,
    ) -> ObjectsResult<bool> {
        loop {
            let (partitions, _) = self.heads.past_partitions(container, incarnation, None).await?;
            if partitions.is_empty() {
                return Ok(true);
            }
            for (entry, partition) in partitions {
                if !self.heads.remove_all(Table::Children, &partition, rows_left).await? {
                    return Ok(false);
                }
                let index = container.past_index_partition(incarnation);
                let listed =
                    Step::Remove { table: Table::Children, partition: index, rows: Removal::Rows(vec![entry]) };
                self.heads.put_acknowledged(Class::Description, vec![listed]).await?;
            }
        }
    }

    /// How many of a container's partitions are noted as empty.
    async fn emptied_so_far(&self, record: &Bytes) -> ObjectsResult<usize> {
        let scan = Scan { direction: Direction::Backward, ..Scan::prefix(Bytes::new(), 1) };
        let newest = self.heads.first_rows(Table::Work, &keys::emptied_partition(record), scan).await?;
        let so_far = newest.first().and_then(|row| keys::emptied_of(&row.sort)).unwrap_or(0);
        Ok(usize::try_from(so_far).unwrap_or(usize::MAX))
    }

    async fn note_emptied(&self, record: &Bytes, partitions: u64) -> ObjectsResult<()> {
        let rows = vec![NewRow::new(keys::emptied(partitions), envelope::seal(ValueKind::Emptied, &[]))];
        let note = Step::Put { table: Table::Work, partition: keys::emptied_partition(record), rows };
        self.heads.put_removing(vec![note]).await
    }
}
