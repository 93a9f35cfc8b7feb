//! Repairs a salvaged store, or a copy that lost its source. A store that was copied row by row may
//! lack any rows. So containers are made to agree with the heads, and everything is verified: losses
//! are marked, and an import of the original heals them.
//!
//! Nothing else may use the store meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::FutureExt;
use futures::StreamExt;
use futures::future::BoxFuture;
use hathi::VolumeId;
use heads::children::Children;
use heads::containment::{Container, Parent};
use heads::error::ObjectsResult;
use heads::head::{Head, HeadRow, ObjectState};
use heads::keys;
use heads::mark::{Mark, Settled};
use heads::path::ResourcePath;
use repository::ResourceError;
use store::{Class, Scan, Step, Strength, Table};
use volumes::Verified;
use volumes::generations::listing;

use crate::library::Library;

/// Objects that are read in one call of the store.
const BATCH_OBJECTS: usize = 500;

/// Objects that are verified at the same time.
const VERIFIED_AT_ONCE: usize = 4;

/// The findings in a salvaged store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetRight {
    /// Existing volumes, including damaged ones.
    pub volumes: u64,
    /// Volumes that existed and have lost their heads. They can be imported as new ones.
    pub lost: BTreeSet<VolumeId>,
    /// Volumes with losses. The losses are marked, and an import of the original replaces them.
    pub damaged: Vec<Verified>,
    /// Existing resources of the repository, including damaged ones, and the containers that have
    /// heads.
    pub resources: u64,
    /// Resources that have lost their own head or that of their container. They and their contents
    /// are unreachable.
    pub lost_resources: BTreeSet<ResourcePath>,
    /// Resources that do not read back as they were written, with the reasons.
    pub damaged_resources: BTreeMap<ResourcePath, String>,
}

/// An object in a container.
struct Member {
    partition: Bytes,
    container: Container,
    name: String,
}

impl Member {
    /// The object of a partition; `None` if it is in no container, or if the partition is not that
    /// of an object.
    fn of(partition: Bytes) -> Option<Self> {
        if let Some(id) = keys::volume_of_partition(&partition) {
            return Some(Self { partition, container: Container::Volumes, name: id.as_str().to_owned() });
        }
        let path = keys::resource_of_partition(&partition)?;
        Some(Self { partition, container: Container::At(path.parent()?), name: path.name().to_owned() })
    }
}

impl Library {
    /// Repairs a salvaged store. `is_text_incomplete` means that rows of text are known to be lost:
    /// then a volume with rows but without a head and marks counts as lost, and otherwise as an
    /// unfinished import. `progress` gets the number of verified volumes and of all volumes.
    pub fn set_right<'a>(
        &'a self,
        is_text_incomplete: bool,
        progress: impl FnMut(u64, u64) + Send + 'a,
    ) -> BoxFuture<'a, ObjectsResult<SetRight>> {
        self.set_right_and_report(is_text_incomplete, Box::new(progress))
    }

    fn set_right_and_report<'a>(
        &'a self,
        is_text_incomplete: bool,
        mut progress: Box<dyn FnMut(u64, u64) + Send + 'a>,
    ) -> BoxFuture<'a, ObjectsResult<SetRight>> {
        async move {
            let mut found = self.agree(is_text_incomplete).await?;
            let total = found.volumes;
            let mut done = 0;
            let mut next: Option<Bytes> = None;
            loop {
                let (partitions, rest) = self.some_partitions(Table::Objects, next).await?;
                let ids: Vec<_> = partitions.iter().filter_map(keys::volume_of_partition).collect();
                let paths: Vec<_> = partitions.iter().filter_map(keys::resource_of_partition).collect();
                let volumes = futures::stream::iter(ids).map(async |id| match self.volumes.volume(&id).await {
                    Ok(_) => self.volumes.verify(&id).await.map(Some),
                    Err(error) if error.is_passing() => Err(error),
                    Err(_) => Ok(None),
                });
                let mut volumes = std::pin::pin!(volumes.buffer_unordered(VERIFIED_AT_ONCE));
                while let Some(verified) = volumes.next().await {
                    let Some(verified) = verified? else { continue };
                    done += 1;
                    progress(done, total);
                    found.damaged.extend(Some(verified).filter(|verified| !verified.damaged.is_empty()));
                }
                for path in paths {
                    let resource = match self.repository.resource(&path).await {
                        Ok(resource) => resource,
                        // Nothing is known of it, so it does not pass for sound.
                        Err(ResourceError::Objects(error)) if error.is_passing() => return Err(error),
                        Err(_) => continue,
                    };
                    found.resources += 1;
                    let verified = self.repository.verify(&resource).await?;
                    let why = verified.damaged.into_iter().map(|damaged| damaged.detail).collect::<Vec<_>>().join("; ");
                    found.damaged_resources.extend((!why.is_empty()).then_some((path, why)));
                }
                next = rest;
                if next.is_none() {
                    break;
                }
            }
            found.damaged.sort_unstable_by(|one, other| one.id.cmp(&other.id));
            Ok(found)
        }
        .boxed()
    }

    /// Makes containers agree with heads, and records again the work that heads imply. The findings
    /// have nothing of what only reading everything shows: the other fields than `volumes`, `lost`
    /// and `lost_resources` are empty.
    pub fn agree(&self, is_text_incomplete: bool) -> BoxFuture<'_, ObjectsResult<SetRight>> {
        async move {
            let mut found = SetRight::default();
            if is_text_incomplete {
                // Changes may be among what is lost. Earlier cursors are refused, so that no reader
                // misses one unnoticed.
                self.feed.forget().await?;
            }
            self.list_generations().await?;
            let headless = self.mark_as_heads_say(is_text_incomplete, &mut found).await?;
            self.remove_the_headless(&mut found).await?;
            self.record_removals().await?;
            for id in &headless {
                let leftover = self.volumes.work_record(self.heads.revisions().mint(), id).put();
                self.heads.put_acknowledged(Class::Description, vec![leftover]).await?;
            }
            if is_text_incomplete {
                found.lost.extend(headless);
            }
            Ok(found)
        }
        .boxed()
    }

    /// Lists the generations that have rows but no entry in the list of their volume, where the
    /// collector looks for them.
    async fn list_generations(&self) -> ObjectsResult<()> {
        for table in [Table::Objects, Table::Packs] {
            let mut next: Option<Bytes> = None;
            loop {
                let (partitions, rest) = self.some_partitions(table, next).await?;
                let entry = |part: &Bytes| {
                    let (generation, _) = keys::part_of(part)?;
                    Some((keys::object_of(part), generation))
                };
                let entries: Vec<_> = partitions.iter().filter_map(entry).collect();
                let keys: Vec<_> = entries
                    .iter()
                    .map(|(volume, generation)| (volume.clone(), keys::generation(*generation)))
                    .collect();
                let read = || async {
                    let call = self.heads.call(Class::Description).strong();
                    Ok(self.heads.store().get_many(call, Table::Objects, keys.clone()).await?)
                };
                let listed = self.heads.retry_transient(read).await?;
                let missing = entries.iter().zip(listed).filter(|(_, listed)| listed.is_none());
                let missing: Vec<_> = missing.map(|((volume, generation), _)| listing(volume, *generation)).collect();
                if !missing.is_empty() {
                    self.heads.put_acknowledged(Class::Description, missing).await?;
                }
                next = rest;
                if next.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Some partitions of a table, and where the walk continues.
    async fn some_partitions(&self, table: Table, from: Option<Bytes>) -> ObjectsResult<(Vec<Bytes>, Option<Bytes>)> {
        let walk = async || {
            let call = self.heads.call(Class::Description);
            Ok(self.heads.store().walk(call, table, from.clone(), BATCH_OBJECTS).await?)
        };
        let page = self.heads.retry_transient(walk).await?;
        Ok((page.partitions, page.next))
    }

    /// The containers of some members that have heads.
    async fn containers_of(&self, members: &[Member]) -> ObjectsResult<BTreeMap<Bytes, Parent>> {
        let containers: BTreeMap<Bytes, &Container> =
            members.iter().map(|member| (member.container.partition(), &member.container)).collect();
        let partitions: Vec<_> = containers.keys().cloned().collect();
        let heads = self.heads.retry_transient(|| self.heads.heads_at(&partitions, Strength::Strong)).await?;
        let mut parents = BTreeMap::new();
        for ((partition, container), head) in containers.into_iter().zip(heads) {
            let parent = head?.and_then(|row| Parent::standing(container, &row, self.heads.rules()));
            parents.extend(parent.map(|parent| (partition, parent)));
        }
        Ok(parents)
    }

    /// Puts the marks that heads imply. Returns the volumes with rows but without a head.
    async fn mark_as_heads_say(&self, is_text_incomplete: bool, found: &mut SetRight) -> ObjectsResult<Vec<VolumeId>> {
        let mut headless = Vec::new();
        let mut next: Option<Bytes> = None;
        loop {
            let (partitions, rest) = self.some_partitions(Table::Objects, next).await?;
            let members: Vec<_> = partitions.into_iter().filter_map(Member::of).collect();
            let partitions: Vec<_> = members.iter().map(|member| member.partition.clone()).collect();
            let parents = self.containers_of(&members).await?;
            let heads = self.heads.retry_transient(|| self.heads.heads_at(&partitions, Strength::Strong)).await?;
            let mut marks = Vec::new();
            for (member, head) in members.iter().zip(heads) {
                let id = keys::volume_of_partition(&member.partition);
                let path = keys::resource_of_partition(&member.partition);
                let Some(HeadRow { head, .. }) = head? else {
                    headless.extend(id);
                    found.lost_resources.extend(path.filter(|_| is_text_incomplete));
                    continue;
                };
                let parent = parents.get(&member.container.partition()).filter(|parent| parent.held(&head));
                if let Some(parent) = parent {
                    marks.extend(self.implied_marks(parent, member, &head).await?);
                }
                if let (ObjectState::Deleting, Some(path)) = (head.state, &path) {
                    self.repository.record_deletion(path, &head).await?;
                }
                if head.state == ObjectState::Live {
                    found.volumes += u64::from(id.is_some());
                    let is_lost = is_text_incomplete && parent.is_none();
                    found.lost_resources.extend(path.filter(|_| is_lost));
                }
            }
            if !marks.is_empty() {
                self.heads.put_acknowledged(Class::Description, marks).await?;
            }
            next = rest;
            if next.is_none() {
                return Ok(headless);
            }
        }
    }

    /// The marks that a head implies and that are missing. An existing mark is not overwritten,
    /// because the mark of an added child also has a note.
    async fn implied_marks(&self, parent: &Parent, member: &Member, head: &Head) -> ObjectsResult<Vec<Step>> {
        let implied: &[Mark] = match head.state {
            ObjectState::Live => &[Mark::Added, Mark::Confirmed],
            ObjectState::Deleting => &[],
            ObjectState::Deleted | ObjectState::Free => &[Mark::Removed],
        };
        let mut missing = Vec::new();
        for mark in implied {
            let step = match mark {
                Mark::Removed => {
                    let end = self.heads.end_of(&member.partition, head.incarnation).await?;
                    parent.mark_removed(&member.name, head.incarnation, end.map(|end| end.revision))
                }
                _ => parent.mark(&member.name, head.incarnation, *mark),
            };
            let sort = keys::child_mark(&member.name, head.incarnation, *mark);
            let call = self.heads.call(Class::Description).strong();
            if self.heads.store().get(call, Table::Children, step.partition(), &sort).await?.is_none() {
                missing.push(step);
            }
        }
        Ok(missing)
    }

    /// Records again that versions were removed: a copy that lost its source may have their marks
    /// without the records by which their parts are deleted.
    async fn record_removals(&self) -> ObjectsResult<()> {
        let mut next: Option<Bytes> = None;
        loop {
            let (mut pages, rest) = self.some_partitions(Table::Objects, next).await?;
            for received in pages.iter().filter(|partition| keys::is_received(partition)) {
                if let Some(path) = keys::resource_of_partition(&keys::object_of(received)) {
                    self.repository.record_received_removals(&path).await?;
                }
            }
            pages.retain(|partition| keys::log_page_of(partition).is_some());
            let read = || async {
                let first = |page: &Bytes| (Table::Objects, page.clone(), Scan::prefix(keys::version_mark_prefix(), 1));
                let call = self.heads.call(Class::Description).strong();
                Ok(self.heads.store().scan_many(call, pages.iter().map(first).collect()).await?)
            };
            let marks = self.heads.retry_transient(read).await?;
            for (partition, marks) in pages.iter().zip(marks) {
                let path = keys::resource_of_partition(&keys::object_of(partition));
                if let (Some(path), Some(page), false) = (path, keys::log_page_of(partition), marks.rows.is_empty()) {
                    self.repository.record_removals(&path, page).await?;
                }
            }
            next = rest;
            if next.is_none() {
                return Ok(());
            }
        }
    }

    /// Marks as removed what is listed as live without such a head. Adds those without any live
    /// head to the findings.
    async fn remove_the_headless(&self, found: &mut SetRight) -> ObjectsResult<()> {
        let volumes = self.heads.retry_transient(|| self.heads.parent(&Container::Volumes)).await?;
        self.remove_the_headless_of(&volumes, found).await?;
        let mut next: Option<Bytes> = None;
        loop {
            let (partitions, rest) = self.some_partitions(Table::Objects, next).await?;
            for partition in &partitions {
                let Some(path) = keys::resource_of_partition(partition) else { continue };
                let row = self.heads.retry_transient(|| self.heads.head_at(partition)).await?;
                if let Some(parent) = row.and_then(|row| Parent::of(&Container::At(path), &row, self.heads.rules())) {
                    self.remove_the_headless_of(&parent, found).await?;
                }
            }
            next = rest;
            if next.is_none() {
                return Ok(());
            }
        }
    }

    async fn remove_the_headless_of(&self, parent: &Parent, found: &mut SetRight) -> ObjectsResult<()> {
        for shard in 0..parent.shards() {
            let mut children = Children::new(parent.partitions(shard), Bytes::new(), Strength::Strong);
            loop {
                let names = children.take(&self.heads, BATCH_OBJECTS).await?;
                if names.is_empty() {
                    break;
                }
                let partitions: Vec<_> =
                    names.iter().map(|name| parent.container().child_partition(&name.name)).collect();
                let heads = self.heads.retry_transient(|| self.heads.heads_at(&partitions, Strength::Strong)).await?;
                let mut removals = Vec::new();
                for ((name, partition), head) in names.iter().zip(&partitions).zip(heads) {
                    // A container that is being deleted stays until the job that deletes it has
                    // found it.
                    let is_there = |head: &Head| matches!(head.state, ObjectState::Live | ObjectState::Deleting);
                    let current = head?.map(|row| row.head).filter(is_there).map(|head| head.incarnation);
                    let listed = name.incarnations.iter().filter(|marked| marked.marks.settled() == Settled::Live);
                    let headless: Vec<_> = listed.filter(|marked| current != Some(marked.incarnation)).collect();
                    for marked in &headless {
                        let end = self.heads.end_of(partition, marked.incarnation).await?.map(|end| end.revision);
                        removals.push(parent.mark_removed(&name.name, marked.incarnation, end));
                    }
                    if current.is_none() && !headless.is_empty() {
                        found.lost.extend(keys::volume_of_partition(partition));
                        found.lost_resources.extend(keys::resource_of_partition(partition));
                    }
                }
                if !removals.is_empty() {
                    self.heads.put_acknowledged(Class::Description, removals).await?;
                }
            }
        }
        Ok(())
    }
}
