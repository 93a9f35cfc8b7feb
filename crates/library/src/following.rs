//! Copies what belongs to one changed object from a source into a copy that follows it.
//!
//! The change feed names an object and the first revision that is new. What belongs to these
//! changes is copied in the order in which a writer writes it: versions, packs and contents, the
//! head log, the marks in the container, and the head last. So a head of the copy names only what
//! the copy has. Nothing is removed; a whole pass of the [`Copier`] does that.
//!
//! For a version that was removed the feed names the object and that version. Its mark is copied,
//! so that nobody reads it there. The record by which its parts are deleted is not:
//! [`Library::agree`](crate::Library::agree) makes one again. The same holds for received versions,
//! which the feed also names when they come. Of each object that is named their list is copied,
//! after what is new in it.
//!
//! Marks move to other partitions without an event: a shard is rewritten, a container grows, past
//! members are moved apart. So if a container has other shards than in the copy, all its marks are
//! copied. If it was deleted, the head log says where its marks are.
//!
//! Marks and heads of other objects may be of another moment. Before the copy takes changes without
//! its source, [`Library::agree`](crate::Library::agree) makes containers agree with heads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use heads::container_body::{ContainerBody, shard_of};
use heads::containment::Container;
use heads::head::{self, Body, Head, HeadRow};
use heads::keys::{self, Link};
use heads::path::ResourcePath;
use heads::received::{ReceivedState, ReceivedVersions};
use heads::resource_body::{BytesPlace, Kind, ResourceBody};
use heads::{ObjectState, ObjectsError, RevisionId};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use repository::backlinks::BUCKETS;
use store::copying::{Copier, CopyError};
use store::{
    Call, Class, ContentHeader, ContentId, ContentStream, Deadline, Outcome, Row, Rows, Scan, Stamp, Step, Store,
    StoreError, StoreResult, Table, ValueKind, WalkPage, Wrapper, boxed, envelope,
};

/// Bytes of a page of rows that are read to learn what else to copy.
const PAGE_BYTES: usize = 256 << 10;

/// Objects that are copied at the same time.
const AT_ONCE: usize = 8;

/// Objects that a follower remembers, at least. It remembers at most twice as many.
const REMEMBERED: usize = 10_000;

/// How long it may take to read which store a source is.
const LINEAGE_MAX: Duration = Duration::from_secs(30);

/// The scheme and the authority under which descriptions name resources of the same repository.
const KEPT: &str = "penates:/";

/// An object that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The partition of its head.
    pub object: Bytes,
    /// The first revision that is to be copied, or the first version that was removed.
    pub since: RevisionId,
}

/// What a follower has copied, so that it copies nothing again for each page of the feed that names
/// the same object.
///
/// Only what the follower itself has copied counts. The head of the copy does not say it: a pass
/// over everything copies a head before or after what the head names.
#[derive(Default)]
pub struct Following {
    copied: Mutex<Copied>,
    /// Containers of which all marks are copied, and not the head: with the stamp of the head in the
    /// source. The lock is held while marks of all children of a container are copied. Otherwise two
    /// that copy the same partition could each remove what the other has just put.
    marked: futures::lock::Mutex<HashMap<Bytes, Stamp>>,
}

/// The revision of each object through which it is copied. The partition of a received version
/// counts as an object, with the revision that wrote it.
#[derive(Default)]
struct Copied {
    newer: HashMap<Bytes, RevisionId>,
    older: HashMap<Bytes, RevisionId>,
}

impl Copied {
    fn through(&self, object: &Bytes) -> Option<RevisionId> {
        self.newer.get(object).or_else(|| self.older.get(object)).copied()
    }

    fn note(&mut self, object: Bytes, revision: RevisionId) {
        if self.newer.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(object, revision);
    }
}

/// Identifies a store, whatever its address: the incarnation of the root of its repository. `None`:
/// it has no root yet. Copies of a store have its lineage.
#[boxed]
pub async fn lineage(store: &dyn Store) -> StoreResult<Option<RevisionId>> {
    let root = keys::resource_partition(&ResourcePath::root());
    let call = Call::new(Class::Description, Deadline::within(LINEAGE_MAX)).strong();
    let row = store.get(call, Table::Objects, &root, &keys::head()).await?;
    Ok(row.as_ref().map(HeadRow::open).transpose().map_err(of_objects)?.map(|row| row.head.incarnation))
}

fn of_objects(error: ObjectsError) -> StoreError {
    match error {
        ObjectsError::Store(error) => error,
        error => StoreError::Invalid(error.to_string()),
    }
}

/// A store into which a follower copies. A copier reads it and the source, and its errors do not
/// say which of the two they are of. So the damage of this one is [`StoreError::Unreadable`], which
/// is no reason to leave an object out, and ends the follower. Give it to [`Copier::begin`].
pub fn standby(target: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Target { store: target, role: Role::Standby })
}

/// The same for a store into which everything is copied once: its damage is
/// [`StoreError::Unreadable`] too, with a text for somebody who copies.
pub fn target_of_copy(target: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(Target { store: target, role: Role::Once })
}

/// What a target is for.
#[derive(Clone, Copy)]
enum Role {
    /// A follower keeps it up to date.
    Standby,
    /// It gets a copy once.
    Once,
}

/// See [`standby`] and [`target_of_copy`]. It has those reads and changes that copiers make.
struct Target {
    store: Arc<dyn Store>,
    role: Role,
}

impl Role {
    /// The error of a target, which names it if it is damaged.
    fn blamed(self, error: StoreError) -> StoreError {
        let StoreError::Corrupt { table, detail } = error else { return error };
        let detail = match self {
            Self::Standby => format!(
                "the standby is damaged, and not its source (table {table}: {detail}). Follow into an empty target, \
                 and keep this one until that is complete"
            ),
            Self::Once => format!(
                "the target is damaged, and not the source (table {table}: {detail}). Copy into an empty target"
            ),
        };
        StoreError::Unreadable { location: "the target of the copy".to_owned(), detail }
    }
}

impl Wrapper for Target {
    fn inner(&self) -> &dyn Store {
        self.store.as_ref()
    }

    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.store.get(call, table, partition, sort).await.map_err(|error| self.role.blamed(error))
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.store.scan(call, table, partition, scan).await.map_err(|error| self.role.blamed(error))
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        self.store.scan_many(call, scans).await.map_err(|error| self.role.blamed(error))
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        self.store.run(call, steps).await.map_err(|error| self.role.blamed(error))
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        self.store.walk(call, table, from, max).await.map_err(|error| self.role.blamed(error))
    }

    /// An upload fails with the error of what it reads, which is of the source.
    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        let is_of_source = Arc::new(AtomicBool::new(false));
        let seen = is_of_source.clone();
        let content = content.inspect_err(move |_| seen.store(true, Ordering::Relaxed)).boxed();
        let put = self.store.put_content_as(call, id, owner, content).await;
        if is_of_source.load(Ordering::Relaxed) { put } else { put.map_err(|error| self.role.blamed(error)) }
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        self.store.content_header(call, id).await.map_err(|error| self.role.blamed(error))
    }

    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        let role = self.role;
        let content = self.store.read_content(call, id, range).await.map_err(|error| self.role.blamed(error))?;
        Ok(content.map(|content| content.map_err(move |error| role.blamed(error)).boxed()))
    }

    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.store.condemn_content(call, id).await.map_err(|error| self.role.blamed(error))
    }

    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.store.delete_content(call, id).await.map_err(|error| self.role.blamed(error))
    }
}

impl Following {
    /// Copies some changed objects. Returns those that are damaged in the source, with the reason:
    /// they stay in the copy as they were.
    ///
    /// Errors: [`StoreError::Unreadable`] if the copy is damaged, which is a [`standby`].
    pub async fn copy_changed(&self, copier: &Copier, changed: &[Changed]) -> Result<Vec<(Bytes, String)>, CopyError> {
        let copied = stream::iter(changed).map(async |changed| match self.copy_object(copier, changed).await {
            Err(CopyError::Store(StoreError::Corrupt { detail, .. })) => Ok(Some((changed.object.clone(), detail))),
            copied => copied.map(|()| None),
        });
        copied.buffer_unordered(AT_ONCE).try_filter_map(async |damaged| Ok(damaged)).try_collect().await
    }

    #[boxed]
    async fn copy_object(&self, copier: &Copier, Changed { object, since }: &Changed) -> Result<(), CopyError> {
        let Some(row) = copier.row(Table::Objects, object, &keys::head()).await? else { return Ok(()) };
        let head = HeadRow::open(&row).map_err(of_objects)?.head;
        let copied = self.copied.lock().through(object);
        let from = copied.map_or(*since, |copied| copied.successor().max(*since));
        let path = keys::resource_of_partition(object);
        if from <= head.revision {
            if keys::volume_of_partition(object).is_some() {
                copy_generations(copier, object, from, head.revision).await?;
            }
            copy_history(copier, object, path.as_ref(), &head, from).await?;
        }
        if path.is_some() && copied.is_some_and(|copied| *since <= copied) {
            // Versions that were copied before may have been removed since.
            for page in first_page(copier, object, &head, *since).await?..=head.log_page() {
                copy_version_marks(copier, &keys::log_page(object, page)).await?;
            }
        }
        if let Some(path) = path {
            self.copy_received(copier, object, &path, *since).await?;
            if let Some(parent) = path.parent() {
                self.copy_marks(copier, &Container::At(parent), path.name()).await?;
            }
            // The marks of a container that is deleted were copied with its history.
            if head.state == ObjectState::Live {
                self.copy_shards(copier, &Container::At(path), &row, true).await?;
            }
        } else if let Some(id) = keys::volume_of_partition(object) {
            self.copy_marks(copier, &Container::Volumes, id.as_str()).await?;
        }
        copy_head(copier, object, &row).await?;
        self.copied.lock().note(object.clone(), head.revision);
        Ok(())
    }

    /// Copies received versions of a resource, then their list: those that were written since a
    /// revision, and those that the list of the copy lacks. A pass over everything copies that list
    /// before or after what it names, so it does not say what is copied.
    async fn copy_received(
        &self,
        copier: &Copier,
        object: &Bytes,
        path: &ResourcePath,
        since: RevisionId,
    ) -> Result<(), CopyError> {
        let (partition, sort) = (keys::received(object), keys::received_list());
        let Some(row) = copier.row(Table::Objects, &partition, &sort).await? else { return Ok(()) };
        let list: ReceivedVersions = head::open(Table::Objects, &row.value).map_err(of_objects)?;
        let there = copier.copied_row(Table::Objects, &partition, &sort).await?;
        let there = there.map(|there| head::open::<ReceivedVersions>(Table::Objects, &there.value)).transpose();
        let there = there.map_err(|error| Role::Standby.blamed(of_objects(error)))?.unwrap_or_default();
        for version in list.versions.iter().filter(|version| !version.is_removed) {
            let written = version.written;
            let parts = keys::version(object, written);
            let is_new = written >= since || !there.has(written);
            if !is_new || self.copied.lock().through(&parts).is_some() {
                continue;
            }
            let state = copier.row(Table::Objects, &parts, &keys::received_version(written)).await?;
            // It was removed meanwhile, and deleted.
            let Some(state) = state else { continue };
            let state: ReceivedState = head::open(Table::Objects, &state.value).map_err(of_objects)?;
            copy_version(copier, object, path, written, &state.body).await?;
            self.copied.lock().note(parts, written);
        }
        copy_head(copier, &partition, &row).await
    }

    /// Copies the marks of a child, from wherever its container keeps them.
    async fn copy_marks(&self, copier: &Copier, container: &Container, name: &str) -> Result<(), CopyError> {
        let Some(row) = copier.row(Table::Objects, &container.partition(), &keys::head()).await? else { return Ok(()) };
        let head = HeadRow::open(&row).map_err(of_objects)?.head;
        // The event of the deletion of a container brings all its marks.
        let Some(shards) = head.body.container() else { return Ok(()) };
        if self.copy_shards(copier, container, &row, false).await? {
            return Ok(());
        }
        for (shard, epoch) in shards.places(shard_of(name, shards.shards), shards.shards) {
            let marks = container.children_partition(head.incarnation, shard, epoch);
            let prefix = Bytes::from([name.as_bytes(), &[0]].concat());
            copy_rows(copier, Table::Children, &marks, prefix, Some(keys::after_child(name))).await?;
            // The newest changes come first.
            let changes = Scan::prefix(keys::change_prefix(), 1);
            let newest = copier.copied_rows(Table::Children, &marks, changes.clone()).await?;
            let known = newest.rows.first().map(|row| row.sort.clone()).or(changes.to);
            copy_rows(copier, Table::Children, &marks, keys::change_prefix(), known).await?;
        }
        Ok(())
    }

    /// If a container has other shards than in the copy, copies the marks of all its children, also
    /// of past ones. With only its shards changed it copies the head too, unless the caller does
    /// (`with_head`). Returns whether it copied the marks of all children.
    async fn copy_shards(
        &self,
        copier: &Copier,
        container: &Container,
        row: &Row,
        with_head: bool,
    ) -> Result<bool, CopyError> {
        let HeadRow { head: wanted, stamp } = HeadRow::open(row).map_err(of_objects)?;
        let Some(shards) = wanted.body.container() else { return Ok(false) };
        let partition = container.partition();
        match copied_head(copier, &partition).await? {
            Some(there) if shards_of(&there, wanted.incarnation) == Some(shards) => return Ok(false),
            // The feed names all its children, and the container itself.
            None if !with_head => return Ok(false),
            _ => {}
        }
        let mut marked = self.marked.lock().await;
        let Some(there) = copied_head(copier, &partition).await? else {
            // The feed does not say where past members are by now.
            copy_past(copier, container, wanted.incarnation, None).await?;
            return Ok(false);
        };
        let known = shards_of(&there, wanted.incarnation);
        if known == Some(shards) || marked.get(&partition) == Some(&stamp) {
            return Ok(false);
        }
        copy_children(copier, container, &wanted, known).await?;
        // A head of another revision names more than marks: its own event brings it.
        let is_same = wanted.revision == there.revision || matches!(wanted.body, Body::Container(_));
        if is_same && !with_head {
            copy_head(copier, &partition, row).await?;
        } else {
            if marked.len() >= REMEMBERED {
                marked.clear();
            }
            marked.insert(partition, stamp);
        }
        Ok(true)
    }
}

/// Copies what the heads of an object from a revision on name, page by page of the head log, then
/// what its present head names. Of each page, what the heads name is copied before the heads.
async fn copy_history(
    copier: &Copier,
    object: &Bytes,
    path: Option<&ResourcePath>,
    head: &Head,
    from: RevisionId,
) -> Result<(), CopyError> {
    // What is logged later is named by a later event.
    let to = keys::log(head.revision);
    for page in first_page(copier, object, head, from).await?..=head.log_page() {
        let partition = keys::log_page(object, page);
        if let Some(path) = path {
            let scan = Scan::prefix(keys::log_prefix(), PAGE_BYTES);
            let mut rest = Some(Scan { from: keys::log(from), to: Some(to.clone()), ..scan });
            while let Some(scan) = rest {
                let rows = copier.rows(Table::Objects, &partition, scan.clone()).await?;
                rest = scan.resumed(rows.next);
                for row in rows.rows {
                    let logged = head::open::<Head>(Table::Objects, &row.value).map_err(of_objects)?;
                    copy_named_by(copier, object, path, &logged).await?;
                }
            }
        }
        // With the entry of the head before `from`, which was logged when that replaced it.
        copy_rows(copier, Table::Objects, &partition, keys::log_prefix(), Some(to.clone())).await?;
        copy_version_marks(copier, &partition).await?;
    }
    match path {
        Some(path) => copy_named_by(copier, object, path, head).await,
        None => Ok(()),
    }
}

/// Copies the marks on the versions of a page of a head log.
async fn copy_version_marks(copier: &Copier, page: &Bytes) -> Result<(), CopyError> {
    let marks = Scan::prefix(keys::version_mark_prefix(), PAGE_BYTES);
    copy_rows(copier, Table::Objects, page, marks.from, marks.to).await
}

/// The page of a head log from which on the copy may lack entries: the last one that has the entry of
/// a head before a revision.
async fn first_page(copier: &Copier, object: &Bytes, head: &Head, from: RevisionId) -> Result<u64, CopyError> {
    let mut page = head.log_page();
    while page > 0 {
        let first = Scan::prefix(keys::log_prefix(), 1);
        let first = copier.rows(Table::Objects, &keys::log_page(object, page), first).await?;
        if first.rows.first().and_then(|row| keys::revision_of(&row.sort)).is_some_and(|first| first < from) {
            // The end of a deletion is no event: several heads may have been logged since.
            let there = copied_head(copier, object).await?;
            return Ok(there.map_or(page, |there| there.log_page().min(page)));
        }
        page -= 1;
    }
    Ok(page)
}

/// Copies what a head of a resource names.
async fn copy_named_by(copier: &Copier, object: &Bytes, path: &ResourcePath, head: &Head) -> Result<(), CopyError> {
    match head.body.resource() {
        Some(resource) => copy_version(copier, object, path, head.revision, resource).await?,
        None => copy_named(copier, Table::Objects, &keys::version(object, head.revision)).await?,
    }
    // Its shards do not change any more, and no later head names them.
    if head.state == ObjectState::Deleting {
        copy_children(copier, &Container::At(path.clone()), head, None).await?;
    }
    Ok(())
}

async fn all_rows(copier: &Copier, partition: &Bytes, scan: Scan) -> Result<Vec<Row>, CopyError> {
    let (mut rows, mut rest) = (Vec::new(), Some(scan));
    while let Some(scan) = rest {
        let page = copier.rows(Table::Objects, partition, scan.clone()).await?;
        rest = scan.resumed(page.next);
        rows.extend(page.rows);
    }
    Ok(rows)
}

/// Copies what a revision of a resource wrote, and the records of what it points at.
async fn copy_version(
    copier: &Copier,
    object: &Bytes,
    path: &ResourcePath,
    revision: RevisionId,
    resource: &ResourceBody,
) -> Result<(), CopyError> {
    let partition = keys::version(object, revision);
    copy_named(copier, Table::Objects, &partition).await?;
    if let Some(BytesPlace::Content(id)) = resource.binary().map(|binary| &binary.place) {
        copy_named(copier, Table::Objects, &keys::keepers(*id)).await?;
        copier.copy_content_named(*id).await?;
    }
    let pieces = Scan::prefix(keys::description_rows(revision), PAGE_BYTES);
    let mut description = Vec::new();
    for row in all_rows(copier, &partition, pieces).await? {
        let piece = envelope::open(ValueKind::Description, &row.value);
        description
            .extend(piece.map_err(|error| of_objects(ObjectsError::corrupt(Table::Objects, &error.to_string())))?);
    }
    for target in named_in(&String::from_utf8_lossy(&description)) {
        copy_backlink(copier, Link::Reference, &target, path).await?;
    }
    if let Kind::Container { membership, .. } = &resource.kind
        && let Some(target) = membership.rule().and_then(|rule| path_of(&rule.resource))
    {
        copy_backlink(copier, Link::Members, &target, path).await?;
    }
    Ok(())
}

/// The resources that a description in N-Triples names. More than it refers to does no harm.
fn named_in(description: &str) -> std::collections::BTreeSet<ResourcePath> {
    let iris = description.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
    iris.filter_map(|(iri, _)| path_of(iri)).collect()
}

/// The resource that a stored IRI names, or names a part of.
fn path_of(iri: &str) -> Option<ResourcePath> {
    let rest = iri.strip_prefix(KEPT)?;
    let end = rest.find(['#', '?']).unwrap_or(rest.len());
    ResourcePath::parse(&percent_decode_str(&rest[..end]).decode_utf8().ok()?).ok()
}

/// Copies the record that a resource points at another, if the source has one.
async fn copy_backlink(
    copier: &Copier,
    link: Link,
    target: &ResourcePath,
    from: &ResourcePath,
) -> Result<(), CopyError> {
    let bucket = shard_of(from.as_str(), BUCKETS);
    let rows = [
        (keys::backlinks(link, target, bucket), keys::backlink(from)),
        (keys::backlink_buckets(link, target), keys::bucket(bucket)),
    ];
    for (partition, sort) in rows {
        let after = Bytes::from([&sort[..], &[0]].concat());
        copy_rows(copier, Table::Objects, &partition, sort, Some(after)).await?;
    }
    Ok(())
}

/// Copies the rows that imports of a volume wrote, from one revision to another.
async fn copy_generations(
    copier: &Copier,
    volume: &Bytes,
    since: RevisionId,
    until: RevisionId,
) -> Result<(), CopyError> {
    let (from, to) = (keys::generation(since), keys::generation(until.successor()));
    let listed =
        Scan { from: from.clone(), to: Some(to.clone()), ..Scan::prefix(keys::generation_prefix(), PAGE_BYTES) };
    for entry in all_rows(copier, volume, listed).await? {
        let Some(generation) = keys::revision_of(&entry.sort) else { continue };
        for part in (0..).map(|part| keys::part(volume, generation, part)) {
            let first = copier.rows(Table::Packs, &part, Scan::prefix(Bytes::new(), 1)).await?;
            if first.rows.is_empty() {
                break;
            }
            copy_named(copier, Table::Packs, &part).await?;
            copy_named(copier, Table::Objects, &part).await?;
        }
    }
    copy_rows(copier, Table::Objects, volume, from, Some(to)).await
}

/// The shards that a head of a container names, if it is of this incarnation.
fn shards_of(head: &Head, incarnation: RevisionId) -> Option<&ContainerBody> {
    head.body.container().filter(|_| head.incarnation == incarnation)
}

/// Copies the marks of all children of the incarnation of a container with this head, also of past
/// ones. `known` are its shards in the copy, if they are known.
async fn copy_children(
    copier: &Copier,
    container: &Container,
    head: &Head,
    known: Option<&ContainerBody>,
) -> Result<(), CopyError> {
    let Some(shards) = head.body.container() else { return Ok(()) };
    copy_past(copier, container, head.incarnation, known).await?;
    for (shard, epoch) in (0..shards.shards).flat_map(|shard| shards.places(shard, shards.shards)) {
        let marks = container.children_partition(head.incarnation, shard, epoch);
        copy_named(copier, Table::Children, &marks).await?;
    }
    Ok(())
}

/// Copies the past members of an incarnation of a container, then the list of their partitions. Those
/// that were moved before the shards were as they are `known` are in the copy: epochs rise, also when
/// there are more shards.
async fn copy_past(
    copier: &Copier,
    container: &Container,
    incarnation: RevisionId,
    known: Option<&ContainerBody>,
) -> Result<(), CopyError> {
    let index = container.past_index_partition(incarnation);
    let mut rest = Some(Scan::prefix(Bytes::new(), PAGE_BYTES));
    while let Some(scan) = rest {
        let page = copier.rows(Table::Children, &index, scan.clone()).await?;
        rest = scan.resumed(page.next);
        for entry in page.rows {
            let strange = || ObjectsError::corrupt(Table::Children, "a strange key in a list of past members");
            let (shard, epoch) = keys::past_index_of(&entry.sort).ok_or_else(strange).map_err(of_objects)?;
            if known.is_some_and(|known| epoch < known.epochs(shard % known.shards.max(1)).current) {
                continue;
            }
            copy_named(copier, Table::Children, &container.past_partition(incarnation, shard, epoch)).await?;
        }
    }
    copy_named(copier, Table::Children, &index).await
}

/// The head of an object in the copy.
async fn copied_head(copier: &Copier, partition: &Bytes) -> Result<Option<Head>, CopyError> {
    let row = copier.copied_row(Table::Objects, partition, &keys::head()).await?;
    let row = row.as_ref().map(HeadRow::open).transpose();
    Ok(row.map_err(|error| Role::Standby.blamed(of_objects(error)))?.map(|row| row.head))
}

/// Copies a head that was read from the source.
async fn copy_head(copier: &Copier, partition: &Bytes, row: &Row) -> Result<(), CopyError> {
    copier.copy_head(Table::Objects, partition, row).await.map(|_| ())
}

async fn copy_named(copier: &Copier, table: Table, partition: &Bytes) -> Result<(), CopyError> {
    copier.copy_named(table, partition).await.map(|_| ())
}

async fn copy_rows(
    copier: &Copier,
    table: Table,
    partition: &Bytes,
    from: Bytes,
    to: Option<Bytes>,
) -> Result<(), CopyError> {
    copier.copy_rows(table, partition, from, to).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::null::NullStore;

    use super::*;

    /// A store that takes no content, because it is damaged.
    struct Damaged(NullStore);

    fn damage() -> StoreError {
        StoreError::Corrupt { table: Table::Contents, detail: "a bit".to_owned() }
    }

    impl Wrapper for Damaged {
        fn inner(&self) -> &dyn Store {
            &self.0
        }

        async fn put_content_as(&self, _: Call, _: ContentId, _: Bytes, mut content: ContentStream) -> StoreResult<()> {
            while let Some(piece) = content.next().await {
                piece?;
            }
            Err(damage())
        }
    }

    #[tokio::test]
    async fn an_upload_that_fails_with_the_damage_of_what_it_reads_does_not_blame_the_standby() {
        let standby = standby(Arc::new(Damaged(NullStore::new())));
        let blamed = async |pieces: Vec<StoreResult<Bytes>>| {
            let call = Call::new(Class::Content, Deadline::within(Duration::from_secs(30)));
            let content = stream::iter(pieces).boxed();
            match standby.put_content_as(call, ContentId([1; 16]), Bytes::new(), content).await.unwrap_err() {
                StoreError::Corrupt { .. } => "the source",
                StoreError::Unreadable { .. } => "the standby",
                error => panic!("{error}"),
            }
        };
        assert_eq!(blamed(vec![Ok(Bytes::from_static(b"a")), Err(damage())]).await, "the source");
        assert_eq!(blamed(vec![Ok(Bytes::from_static(b"a"))]).await, "the standby");
    }

    #[test]
    fn what_a_description_names_is_found_whatever_its_characters() {
        let description = "<penates:/a> <http://example.org/p> <penates:/a%20b/%C3%BC#part> .\n\
                           <penates:/a> <http://example.org/p> \"<penates:/in/text>\" .\n\
                           <penates:/a> <http://example.org/p> <http://example.org/x> .\n";
        let paths = ["a", "a b/\u{fc}", "in/text"].map(|path| ResourcePath::parse(path).unwrap());
        assert_eq!(named_in(description).into_iter().collect::<Vec<_>>(), paths);
    }
}
