//! Deletes resources. A container is deleted with its contents: one write of its head makes all of
//! it unreachable. A recorded job, which any server can resume, then deletes the contents one by
//! one.

use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use heads::children::Children;
use heads::chores::{Chore, Then};
use heads::claim::Holder;
use heads::containment::{Container, Parent};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{self, Body, Head, HeadRow, ObjectState};
use heads::keys;
use heads::path::ResourcePath;
use heads::queue::{WorkEntry, WorkRecord};
use heads::queues::Queue;
use heads::retries::Tries;
use heads::retries::changes_all_the_time;
use heads::revision::RevisionId;
use heads::rules::Rule;
use heads::switch::{Switch, Switched};
use serde::{Deserialize, Serialize};
use store::{Class, Stored, Strength, Table, ValueKind, boxed};

use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::read::{End, Located};
use crate::resource::Resource;

/// Children of a deleted container that are deleted at the same time.
const DELETED_AT_ONCE: usize = 64;
/// Children that are read in one batch.
const BATCH_CHILDREN: usize = 512;

/// A container that is being deleted.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DeletionJob {
    path: String,
    incarnation: RevisionId,
}

impl Stored for DeletionJob {
    const KIND: ValueKind = ValueKind::DeletionWork;
}

/// The progress of deleting a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildEnd {
    /// It is deleted, and will never be created again under this incarnation.
    Over,
    /// It is a container that is being deleted.
    Begun,
}

impl Repository {
    /// Deletes a resource; a container with its contents. One write makes all of it unreachable.
    /// This returns when all of it is deleted. An interrupted call leaves a record, and
    /// [`Repository::resume_deletions`] continues. If this fails after that write, the error is
    /// [`ResourceError::Deleting`].
    ///
    /// Fails with [`ResourceError::Moved`] if another writer changed the resource since it was
    /// read. Then nothing is changed.
    #[boxed]
    pub async fn delete(&self, resource: &Resource) -> ResourceResult<()> {
        match self.transaction {
            Some(id) => self.stage_deletion(id, resource).await,
            None => {
                self.refuse_in_held(resource.group_around()).await?;
                self.delete_as(resource, Holder::Nobody).await
            }
        }
    }

    /// The same, in the name of a holder.
    pub(crate) async fn delete_as(&self, resource: &Resource, holder: Holder) -> ResourceResult<()> {
        let path = &resource.path;
        let above = Container::At(path.parent().ok_or(ResourceError::Root)?);
        let base = resource.row.clone();
        let incarnation = resource.incarnation();
        let revision = self.heads.revisions().mint_above(base.head.revision.max(base.head.floor));
        let is_container = resource.body.container().is_some();
        let sort = keys::container_job(revision, incarnation);
        let head = match is_container {
            false => deleted(&base.head, revision),
            true => Head { state: ObjectState::Deleting, revision, ..base.head.clone() },
        };
        let job = head::seal(&DeletionJob { path: path.to_string(), incarnation })?;
        let running = self.inner.running_jobs.begin(&sort);
        if !self.heads.keeps(Rule::ScanAfter)
            && let Some(parent) = Parent::of(&Container::At(path.clone()), &resource.row, self.heads.rules())
        {
            self.end_children(path, &parent, revision).await?;
        }
        let mut tries = Tries::default();
        let mut unsure = false;
        let record = loop {
            let queued = || self.heads.queued(Queue::Deleting, self.heads.now(), &sort, sort.clone(), job.clone());
            let record = is_container.then(queued);
            let recorded = record.iter().filter(|_| self.heads.keeps(Rule::JobFirst));
            let mut before: Vec<_> = recorded.map(WorkRecord::put).collect();
            before.extend(self.superseding(path, revision));
            let parent = match self.heads.retry_transient(|| self.heads.parent(&above)).await {
                Ok(parent) if parent.incarnation() == base.head.parent_incarnation => parent,
                Ok(_) | Err(ObjectsError::Gone(_)) if !unsure => return Err(ResourceError::Moved(path.clone())),
                Ok(_) => return Err(ObjectsError::Unknown(format!("what /{path} is in was deleted")).into()),
                Err(error) => return Err(error.if_unsure(unsure).into()),
            };
            let switch = parent.removal(path.name(), base.clone(), head.clone(), before);
            match self.heads.switch(Switch { unsure, holder, ..switch }).await? {
                Switched::Applied => break record,
                Switched::Moved | Switched::Fenced => return Err(ResourceError::Moved(path.clone())),
                Switched::Required { unsure: maybe } => unsure = maybe,
            }
            if !tries.again().await {
                return Err(changes_all_the_time(format!("/{path}"), unsure).into());
            }
        };
        let ended = match record {
            Some(record) => self.finish_recorded(path, incarnation, &record).await,
            None => Ok(()),
        };
        drop(running);
        // Nobody reaches it any more, and the record says what is left to do.
        ended.map_err(|error| {
            tracing::warn!(%path, %error, "a deletion that was made is finished later");
            ResourceError::Deleting { path: path.clone(), why: error.to_string() }
        })
    }

    /// Deletes the contents of a container that is being deleted, then the container and the record.
    async fn finish_recorded(
        &self,
        path: &ResourcePath,
        incarnation: RevisionId,
        record: &WorkRecord,
    ) -> ObjectsResult<()> {
        if !self.heads.keeps(Rule::JobFinish) {
            self.heads.put_acknowledged(Class::Description, vec![record.done()]).await?;
        }
        self.finish_deletion(path, incarnation).await?;
        self.heads.put_acknowledged(Class::Description, vec![record.done()]).await
    }

    /// Records again that a container is being deleted, for a store whose records may be lost.
    #[boxed]
    pub async fn record_deletion(&self, path: &ResourcePath, deleting: &Head) -> ObjectsResult<()> {
        let sort = keys::container_job(deleting.revision, deleting.incarnation);
        let job = DeletionJob { path: path.to_string(), incarnation: deleting.incarnation };
        let record = self.heads.queued(Queue::Deleting, self.heads.now(), &sort, sort.clone(), head::seal(&job)?);
        self.heads.put_acknowledged(Class::Description, vec![record.put()]).await
    }

    /// Continues deletions that began at least `age_min` ago and do not run in this process.
    /// Returns how many were finished.
    #[boxed]
    pub async fn resume_deletions(&self, age_min: Duration) -> ObjectsResult<u64> {
        let mut finished = 0;
        if !self.heads.is_home() {
            return Ok(finished);
        }
        let mut tally = self.heads.tally(Chore::Resuming);
        let mut pass = self.heads.pass(Queue::Deleting).await?;
        while let Some(entries) = self.heads.next_due(&mut pass, &mut tally).await? {
            for entry in &entries {
                let running = self.inner.running_jobs.begin(entry.sort());
                let resumed = match &running {
                    Some(_) => self.resume_deletion(entry, age_min).await,
                    None => Ok((false, self.heads.finished_if(false))),
                };
                let record = (std::slice::from_ref(entry), &entry.sort()[..]);
                finished += u64::from(self.heads.dealt_with(&mut tally, record, resumed).await?.unwrap_or(false));
            }
        }
        self.heads.end_pass(pass).await?;
        Ok(finished)
    }

    /// Continues a deletion that was recorded at least `age_min` ago. Returns whether there was one
    /// to finish.
    async fn resume_deletion(&self, record: &WorkEntry, age_min: Duration) -> ObjectsResult<(bool, Then)> {
        let since = keys::container_job_since(record.sort()).unwrap_or(RevisionId::ZERO);
        if self.heads.now().since(since.time()) < age_min {
            return Ok((false, self.heads.finished_if(false)));
        }
        let job: DeletionJob = head::open(Table::Work, &record.value)?;
        let path = keys::stored_path(&job.path)?;
        let object = keys::resource_partition(&path);
        let current = self.heads.retry_transient(|| self.heads.head_at(&object)).await?;
        let is_live = |row: &HeadRow| row.head.state == ObjectState::Live && row.head.incarnation == job.incarnation;
        if current.is_some_and(|row| is_live(&row)) {
            // The recorder may still be about to begin.
            return Ok((false, self.heads.finished_if(self.heads.requests_passed(since.time()))));
        }
        if !self.heads.keeps(Rule::JobFinish) {
            self.heads.finish(std::slice::from_ref(record)).await?;
        }
        self.finish_deletion(&path, job.incarnation).await?;
        Ok((true, Then::Finished))
    }

    /// Deletes the contents of a container that is being deleted, then the container.
    async fn finish_deletion(&self, path: &ResourcePath, incarnation: RevisionId) -> ObjectsResult<()> {
        self.end_container(path, incarnation).await?;
        let end = self
            .heads
            .retry_transient(|| async { self.heads.end_of(&keys::resource_partition(path), incarnation).await })
            .await?;
        if let (Some(above), Some(end)) = (path.parent(), end) {
            // Its parent records the removal, if the parent still exists. This may be lost: the
            // present marks make each listing read the head.
            if let Ok(parent) = self.heads.parent(&Container::At(above)).await
                && parent.held(&end)
            {
                let change = self.heads.revisions().mint_above(end.revision);
                let removed = parent.removed(path.name(), incarnation, Some(end.revision), change);
                self.heads.put_removing(vec![removed]).await?;
            }
        }
        Ok(())
    }

    /// Deletes a container whose head says that it is being deleted, after its contents.
    fn end_container<'a>(
        &'a self,
        path: &'a ResourcePath,
        incarnation: RevisionId,
    ) -> BoxFuture<'a, ObjectsResult<()>> {
        async move {
            let partition = keys::resource_partition(path);
            let mut tries = Tries::default();
            loop {
                let row = self.heads.retry_transient(|| self.heads.head_at(&partition)).await?;
                let is_it =
                    |row: &HeadRow| row.head.state == ObjectState::Deleting && row.head.incarnation == incarnation;
                let Some(row) = row.filter(is_it) else { return Ok(()) };
                let Some(parent) = Parent::standing(&Container::At(path.clone()), &row, self.heads.rules()) else {
                    return Ok(());
                };
                if self.heads.keeps(Rule::ScanAfter) {
                    self.end_children(path, &parent, row.head.revision).await?;
                }
                let revision = self.heads.revisions().mint_above(row.head.revision.max(row.head.floor));
                let emptying = self.to_be_emptied(path, &row.head, revision)?;
                // The record of the beginning of the deletion can be dealt with by now: the head still
                // named its parts.
                let superseding = self.superseding(path, revision);
                let switch = Switch {
                    partition: partition.clone(),
                    before: emptying.into_iter().chain(superseding).collect(),
                    head: deleted(&row.head, revision),
                    base: Some(row),
                    after: Vec::new(),
                    unsure: false,
                    holder: Holder::Above,
                };
                match self.heads.switch(switch).await? {
                    Switched::Applied => return Ok(()),
                    // Another process works on the same job.
                    Switched::Moved | Switched::Fenced | Switched::Required { .. } => {}
                }
                if !tries.again().await {
                    return Err(changes_all_the_time(format!("/{path}"), false));
                }
            }
        }
        .boxed()
    }

    /// Deletes all children of a container that can get no new ones. `by` is the revision by which
    /// it was deleted. If some are damaged, it fails once all others are deleted.
    async fn end_children(&self, path: &ResourcePath, parent: &Parent, by: RevisionId) -> ObjectsResult<()> {
        let mut damage = None;
        for shard in 0..parent.shards() {
            let mut children = Children::new(parent.partitions(shard), Bytes::new(), Strength::Strong);
            loop {
                let names = children.take(&self.heads, BATCH_CHILDREN).await?;
                if names.is_empty() {
                    break;
                }
                let mut ends = Vec::new();
                for name in &names {
                    let child = path.child(&name.name).map_err(|error| ObjectsError::Internal(error.to_string()))?;
                    let marked = name.incarnations.iter().filter(|marked| !marked.marks.removed());
                    ends.extend(marked.map(|marked| (child.clone(), marked.incarnation)));
                }
                let nested: Vec<_> = stream::iter(ends)
                    .map(|(child, incarnation)| async move {
                        let end = unless_damaged(self.end_child(&child, incarnation, by).await, &child)?;
                        Ok::<_, ObjectsError>((end, child, incarnation))
                    })
                    .buffer_unordered(DELETED_AT_ONCE)
                    .try_filter(|(end, ..)| std::future::ready(!matches!(end, Ok(ChildEnd::Over))))
                    .try_collect()
                    .await?;
                // One after the other, so that the number of deletions at once does not grow with
                // the depth of a tree.
                for (end, child, incarnation) in nested {
                    let ended = match end {
                        Ok(_) => unless_damaged(self.end_container(&child, incarnation).await, &child)?,
                        Err(damaged) => Err(damaged),
                    };
                    damage = damage.or(ended.err());
                }
            }
        }
        damage.map_or(Ok(()), Err)
    }

    /// Makes sure that one incarnation of a child is deleted and can never be created. For a
    /// container, makes sure that its deletion has begun.
    async fn end_child(&self, path: &ResourcePath, incarnation: RevisionId, by: RevisionId) -> ObjectsResult<ChildEnd> {
        let partition = keys::resource_partition(path);
        let mut tries = Tries::default();
        loop {
            let row = self.heads.retry_transient(|| self.heads.head_at(&partition)).await?;
            match row {
                Some(row) if row.head.incarnation == incarnation => match row.head.state {
                    ObjectState::Live => self.begin_end(path, row, by).await?,
                    ObjectState::Deleting => return Ok(ChildEnd::Begun),
                    ObjectState::Deleted | ObjectState::Free => return Ok(ChildEnd::Over),
                },
                Some(row) if row.head.state == ObjectState::Live || row.head.floor >= incarnation => {
                    return Ok(ChildEnd::Over);
                }
                _ if !self.heads.keeps(Rule::Fence) => return Ok(ChildEnd::Over),
                _ => _ = self.heads.fence(&partition, incarnation).await?,
            }
            if !tries.again().await {
                return Err(changes_all_the_time(format!("/{path}"), false));
            }
        }
    }

    /// Takes one step towards deleting a live child: a container is then being deleted, any other
    /// resource is deleted. This is later than the deletion of its container, whichever server does
    /// it: so the container's last members are those that it had just before.
    async fn begin_end(&self, path: &ResourcePath, row: HeadRow, by: RevisionId) -> ObjectsResult<()> {
        let revision = self.heads.revisions().mint_above(row.head.revision.max(row.head.floor).max(by));
        let head = match row.head.body.container() {
            Some(_) => Head { state: ObjectState::Deleting, revision, ..row.head.clone() },
            None => deleted(&row.head, revision),
        };
        let (partition, base) = (keys::resource_partition(path), Some(row));
        let before = self.superseding(path, revision).into_iter().collect();
        let holder = Holder::Above;
        let switch = Switch { partition, base, head, before, after: Vec::new(), unsure: false, holder };
        self.heads.switch(switch).await.map(|_| ())
    }

    /// Removes the tombstone at a path, so that its name can be used again.
    ///
    /// Fails with [`ResourceError::Absent`] if nothing was deleted there, [`ResourceError::Exists`]
    /// if there is a resource, [`ResourceError::Gone`] if a container above it was deleted.
    #[boxed]
    pub async fn remove_tombstone(&self, path: &ResourcePath) -> ResourceResult<()> {
        if self.transaction.is_some() {
            return Err(ResourceError::NotInTransaction("tombstones are not removed"));
        }
        if path.is_root() {
            return Err(ResourceError::Exists(path.clone()));
        }
        let located = self.locate(path).await?;
        let group = located.group(path);
        let Located { live, end, at_end } = located;
        let at = path.chain().nth(live.len());
        match end {
            End::There => return Err(ResourceError::Exists(path.clone())),
            End::Vacant => return Err(ResourceError::Absent(path.clone())),
            End::Gone => {}
        }
        match at {
            Some(tombstone) if tombstone != *path => return Err(ResourceError::Gone { tombstone }),
            _ => {}
        }
        // A container that is still being deleted has no tombstone yet.
        let moved = || ResourceError::Moved(path.clone());
        let deleted = at_end.filter(|row| row.head.state == ObjectState::Deleted).ok_or_else(moved)?;
        self.refuse_in_held(group.as_ref()).await?;
        let freed = self.heads.free(&keys::resource_partition(path), deleted.head.revision).await?;
        freed.map(|_| ()).ok_or_else(moved)
    }
}

/// How the deletion of a child ended. Damage is no error here, so that it does not end the deletion
/// of the other children.
fn unless_damaged<T>(ended: ObjectsResult<T>, path: &ResourcePath) -> ObjectsResult<ObjectsResult<T>> {
    match ended {
        Err(error) if error.is_damage() => {
            tracing::warn!(%path, %error, "it cannot be deleted, because something of it is damaged");
            Ok(Err(error))
        }
        ended => ended.map(Ok),
    }
}

/// The head of a deleted resource.
fn deleted(head: &Head, revision: RevisionId) -> Head {
    Head { state: ObjectState::Deleted, revision, body: Body::Nothing, is_group: false, ..head.clone() }
}
