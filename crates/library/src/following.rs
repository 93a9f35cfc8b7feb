//! Copies what belongs to one changed object from a source into a copy that follows it.
//!
//! The change feed names an object and the first revision that is new. What belongs to these
//! changes is copied in the order in which a writer writes it: versions, packs and contents, the
//! head log, the marks in the container, and the head last. So a head of the copy names only what
//! the copy has. Nothing is removed; a whole pass of the [`Copier`] does that.
//!
//! Marks and heads of other objects may be of another moment. Before the copy takes changes without
//! its source, [`Library::agree`](crate::Library::agree) makes containers agree with heads.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use heads::container_body::shard_of;
use heads::containment::{Container, Parent};
use heads::head::{self, Body, Head, HeadRow};
use heads::keys::{self, Link};
use heads::path::ResourcePath;
use heads::resource_body::{BytesPlace, Kind};
use heads::rules::Rules;
use heads::{ObjectsError, RevisionId};
use percent_encoding::percent_decode_str;
use repository::backlinks::BUCKETS;
use store::copying::{Copier, CopyError};
use store::{Row, Scan, StoreError, Table, ValueKind, envelope};

/// Bytes of a page of rows that are read to learn what else to copy.
const PAGE_BYTES: usize = 256 << 10;

/// Objects that are copied at the same time.
const AT_ONCE: usize = 8;

/// The scheme and the authority under which descriptions name resources of the same repository.
const KEPT: &str = "penates:/";

/// An object that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The partition of its head.
    pub object: Bytes,
    /// The first revision that is to be copied.
    pub since: RevisionId,
}

/// Copies some changed objects. Returns those that are damaged in the source, with the reason: they
/// stay in the copy as they were.
pub async fn copy_changed(copier: &Copier, changed: &[Changed]) -> Result<Vec<(Bytes, String)>, CopyError> {
    let copied = stream::iter(changed).map(async |changed| match copy_object(copier, changed).await {
        Err(CopyError::Store(StoreError::Corrupt { detail, .. })) => Ok(Some((changed.object.clone(), detail))),
        copied => copied.map(|()| None),
    });
    copied.buffer_unordered(AT_ONCE).try_filter_map(async |damaged| Ok(damaged)).try_collect().await
}

/// The head of the object that identifies a store: the root of its repository.
pub async fn lineage(copier: &Copier) -> Result<Option<RevisionId>, CopyError> {
    let root = keys::resource_partition(&ResourcePath::root());
    let row = copier.row(Table::Objects, &root, &keys::head()).await?;
    Ok(row.as_ref().map(HeadRow::open).transpose().map_err(of_objects)?.map(|row| row.head.incarnation))
}

fn of_objects(error: ObjectsError) -> CopyError {
    match error {
        ObjectsError::Store(error) => error.into(),
        error => StoreError::Invalid(error.to_string()).into(),
    }
}

async fn copy_object(copier: &Copier, Changed { object, since }: &Changed) -> Result<(), CopyError> {
    let Some(row) = copier.row(Table::Objects, object, &keys::head()).await? else { return Ok(()) };
    let head = HeadRow::open(&row).map_err(of_objects)?.head;
    let mut versions = copy_log(copier, object, &head, *since).await?;
    versions.push(head.clone());
    if let Some(path) = keys::resource_of_partition(object) {
        for version in &versions {
            copy_version(copier, object, &path, version).await?;
        }
        if let Some(parent) = path.parent() {
            copy_marks(copier, &Container::At(parent), path.name()).await?;
        }
        copy_shards(copier, &Container::At(path), &row, true).await?;
    } else if let Some(id) = keys::volume_of_partition(object) {
        copy_generations(copier, object, *since, head.revision).await?;
        copy_marks(copier, &Container::Volumes, id.as_str()).await?;
    }
    copier.copy_head(Table::Objects, object, &row).await?;
    Ok(())
}

/// Copies the pages of the head log with heads since a revision, and returns these heads.
async fn copy_log(copier: &Copier, object: &Bytes, head: &Head, since: RevisionId) -> Result<Vec<Head>, CopyError> {
    let mut entries = Vec::new();
    let pages = head.logged.div_ceil(keys::LOG_PAGE_ENTRIES);
    for page in (0..pages).rev() {
        let partition = keys::log_page(object, page);
        copier.copy_named(Table::Objects, &partition).await?;
        let from = Scan { from: keys::log(since), ..Scan::prefix(keys::log_prefix(), PAGE_BYTES) };
        for row in all_rows(copier, &partition, from).await? {
            entries.push(head::open::<Head>(Table::Objects, &row.value).map_err(of_objects)?);
        }
        let first = copier.rows(Table::Objects, &partition, Scan::prefix(keys::log_prefix(), 1)).await?;
        if first.rows.first().and_then(|row| keys::revision_of(&row.sort)).is_none_or(|first| first < since) {
            break;
        }
    }
    Ok(entries)
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
async fn copy_version(copier: &Copier, object: &Bytes, path: &ResourcePath, version: &Head) -> Result<(), CopyError> {
    let partition = keys::version(object, version.revision);
    copier.copy_named(Table::Objects, &partition).await?;
    let Some(resource) = version.body.resource() else { return Ok(()) };
    if let Some(BytesPlace::Content(id)) = resource.binary().map(|binary| &binary.place) {
        copier.copy_named(Table::Objects, &keys::keepers(*id)).await?;
        copier.copy_content_named(*id).await?;
    }
    let pieces = Scan::prefix(keys::description_rows(version.revision), PAGE_BYTES);
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
        copy_row(copier, Table::Objects, &partition, sort).await?;
    }
    Ok(())
}

async fn copy_row(copier: &Copier, table: Table, partition: &Bytes, sort: Bytes) -> Result<bool, CopyError> {
    let after = Bytes::from([&sort[..], &[0]].concat());
    copier.copy_rows(table, partition, sort, Some(after)).await
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
            copier.copy_named(Table::Packs, &part).await?;
            copier.copy_named(Table::Objects, &part).await?;
        }
    }
    copier.copy_rows(Table::Objects, volume, from, Some(to)).await?;
    Ok(())
}

/// Copies the marks of a child, from wherever its container keeps them.
async fn copy_marks(copier: &Copier, container: &Container, name: &str) -> Result<(), CopyError> {
    let Some(row) = copier.row(Table::Objects, &container.partition(), &keys::head()).await? else { return Ok(()) };
    let Some(parent) = parent_of(container, &row)? else { return Ok(()) };
    if copy_shards(copier, container, &row, false).await? {
        return Ok(());
    }
    for marks in parent.partitions(shard_of(name, parent.shards())) {
        let prefix = Bytes::from([name.as_bytes(), &[0]].concat());
        copier.copy_rows(Table::Children, &marks, prefix, Some(keys::after_child(name))).await?;
        // The newest changes come first.
        let changes = Scan::prefix(keys::change_prefix(), 1);
        let newest = copier.copied_rows(Table::Children, &marks, changes.clone()).await?;
        let known = newest.rows.first().map(|row| row.sort.clone()).or(changes.to);
        copier.copy_rows(Table::Children, &marks, keys::change_prefix(), known).await?;
    }
    Ok(())
}

fn parent_of(container: &Container, row: &Row) -> Result<Option<Parent>, CopyError> {
    Ok(Parent::standing(container, &HeadRow::open(row).map_err(of_objects)?, Rules::default()))
}

/// If a container has other shards than in the copy, copies the marks of all its children. With
/// only its shards changed it copies the head too, unless the caller does (`with_head`). Returns
/// whether there was anything to do.
async fn copy_shards(copier: &Copier, container: &Container, row: &Row, with_head: bool) -> Result<bool, CopyError> {
    let Some(there) = copier.copied_row(Table::Objects, &container.partition(), &keys::head()).await? else {
        return Ok(false);
    };
    let head_of = |row| Ok::<_, CopyError>(HeadRow::open(row).map_err(of_objects)?.head);
    let (wanted, there) = (head_of(row)?, head_of(&there)?);
    let shards = |head: &Head| head.body.container().cloned();
    if shards(&wanted).is_none() || (wanted.incarnation, shards(&wanted)) == (there.incarnation, shards(&there)) {
        return Ok(false);
    }
    let Some(parent) = parent_of(container, row)? else { return Ok(false) };
    for marks in parent.all_partitions() {
        copier.copy_named(Table::Children, &marks).await?;
    }
    // A head of another revision names more than marks: its own event brings it.
    let is_same = wanted.revision == there.revision || matches!(wanted.body, Body::Container(_));
    if is_same && !with_head {
        copier.copy_head(Table::Objects, &container.partition(), row).await?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_a_description_names_is_found_whatever_its_characters() {
        let description = "<penates:/a> <http://example.org/p> <penates:/a%20b/%C3%BC#part> .\n\
                           <penates:/a> <http://example.org/p> \"<penates:/in/text>\" .\n\
                           <penates:/a> <http://example.org/p> <http://example.org/x> .\n";
        let paths = ["a", "a b/\u{fc}", "in/text"].map(|path| ResourcePath::parse(path).unwrap());
        assert_eq!(named_in(description).into_iter().collect::<Vec<_>>(), paths);
    }
}
