//! Backlinks: which resources refer to a resource in their descriptions, and which containers give
//! members to it.
//!
//! A link is recorded before the head that makes it. The record stays when the head changes, so a
//! reader checks each record against the current head. So every link has a record, and a changed
//! description records only references that the previous one did not have.
//!
//! Any number of resources may point at one resource, so the records are spread over buckets. Each
//! bucket is a partition, and one more partition lists the buckets in use. Most resources have a
//! few links, and reading those reads as many buckets. A million links by the longest paths make
//! buckets of 0.5 MB.

use std::collections::VecDeque;

use bytes::Bytes;
use heads::container_body::shard_of;
use heads::error::ObjectsResult;
use heads::keys::{self, Link};
use heads::path::ResourcePath;
use store::{Class, NewRow, Scan, Step, Table, ValueKind, envelope};

use crate::handle::Repository;

/// The number of partitions over which the records of one resource are spread.
pub const BUCKETS: u16 = 4_096;
/// Bytes of each scan page after the first: most resources have few links or none.
const SCAN_BYTES: usize = 16 << 10;
/// References that are put in one list with the head. Further ones are put in lists of their own
/// before it.
const LINKS_MAX: usize = 256;

/// Reads the resources that point at one resource, page by page.
#[derive(Clone, Debug)]
pub struct Backlinks {
    link: Link,
    path: ResourcePath,
    /// The rest of the list of buckets; `None` once all of it is read.
    list: Option<Scan>,
    /// Buckets that are still to be read, and the rest of the current one.
    buckets: VecDeque<u16>,
    bucket: Option<(u16, Scan)>,
}

impl Backlinks {
    /// The resources whose descriptions refer to the one at a path, or did so before.
    pub fn referring_to(path: ResourcePath) -> Self {
        Self::of(Link::Reference, path)
    }

    /// The containers that give members to the one at a path, or did so before.
    pub fn giving_members_to(path: ResourcePath) -> Self {
        Self::of(Link::Members, path)
    }

    fn of(link: Link, path: ResourcePath) -> Self {
        let list = Some(Scan::prefix(keys::bucket_prefix(), Scan::FEW_BYTES));
        Self { link, path, list, buckets: VecDeque::new(), bucket: None }
    }

    /// The resource at which they point.
    pub fn path(&self) -> &ResourcePath {
        &self.path
    }
}

impl Repository {
    /// The next resources that point at this one, or did so before; `None` if there are no more. A
    /// page may be empty.
    pub async fn more_backlinks(&self, links: &mut Backlinks) -> ObjectsResult<Option<Vec<ResourcePath>>> {
        loop {
            let first = || Scan::prefix(keys::backlink_prefix(), Scan::FEW_BYTES);
            let next = links.buckets.pop_front().map(|bucket| (bucket, first()));
            if let Some((bucket, scan)) = links.bucket.take().or(next) {
                let partition = keys::backlinks(links.link, &links.path, bucket);
                let page = self.heads.store().scan(
                    self.heads.call(Class::Description),
                    Table::Objects,
                    &partition,
                    scan.clone(),
                );
                let page = page.await?;
                links.bucket = resumed(&scan, page.next).map(|rest| (bucket, rest));
                return Ok(Some(page.rows.iter().filter_map(|row| keys::backlink_of(&row.sort)).collect()));
            }
            let Some(scan) = links.list.take() else { return Ok(None) };
            let partition = keys::backlink_buckets(links.link, &links.path);
            let call = self.heads.call(Class::Description);
            let page = self.heads.store().scan(call, Table::Objects, &partition, scan.clone()).await?;
            links.buckets.extend(page.rows.iter().filter_map(|row| keys::bucket_of(&row.sort)));
            links.list = resumed(&scan, page.next);
        }
    }

    /// Records that a resource refers to others. Returns the steps for the list of its head. If
    /// there are too many for one list, the rest is put before this returns.
    pub(super) async fn refer(&self, referrer: &ResourcePath, targets: &[ResourcePath]) -> ObjectsResult<Vec<Step>> {
        let steps = |targets: &[ResourcePath]| {
            targets.iter().flat_map(|target| record(Link::Reference, target, referrer)).collect::<Vec<_>>()
        };
        let (with_head, before) = targets.split_at(targets.len().min(LINKS_MAX));
        for targets in before.chunks(LINKS_MAX) {
            self.heads.put_acknowledged(Class::Description, steps(targets)).await?;
        }
        Ok(steps(with_head))
    }
}

/// The rest of a scan, in larger pages.
fn resumed(scan: &Scan, next: Option<Bytes>) -> Option<Scan> {
    scan.resumed(next).map(|rest| Scan { max_bytes: SCAN_BYTES, ..rest })
}

/// Records that the container at a path gives members to a resource. The record may exist although
/// the container does not: its head decides.
pub(super) fn gives_members(resource: &ResourcePath, container: &ResourcePath) -> [Step; 2] {
    record(Link::Members, resource, container)
}

/// The steps that record one link.
fn record(link: Link, target: &ResourcePath, from: &ResourcePath) -> [Step; 2] {
    let bucket = shard_of(from.as_str(), BUCKETS);
    let rows = [
        (keys::backlink_buckets(link, target), keys::bucket(bucket)),
        (keys::backlinks(link, target, bucket), keys::backlink(from)),
    ];
    rows.map(|(partition, sort)| {
        let rows = vec![NewRow::new(sort, envelope::seal(ValueKind::Backlink, &[]))];
        Step::Put { table: Table::Objects, partition, rows }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_record_is_where_every_version_looks_for_it() {
        let (target, from): (ResourcePath, ResourcePath) = ("a/b".parse().unwrap(), "ü".parse().unwrap());
        let keys_of = |link| {
            record(link, &target, &from).map(|step| {
                let Step::Put { table: Table::Objects, partition, rows } = step else { panic!() };
                (partition, rows[0].sort.clone())
            })
        };
        let bucket = shard_of("ü", BUCKETS).to_be_bytes();
        for (link, prefix) in [(Link::Reference, b"b/"), (Link::Members, b"m/")] {
            let [list, record] = keys_of(link);
            assert_eq!(
                list,
                (Bytes::from([&prefix[..], b"a/b"].concat()), Bytes::from([&b"\x09"[..], &bucket].concat()))
            );
            assert_eq!(
                record,
                (Bytes::from([&prefix[..], b"a/b\0", &bucket].concat()), Bytes::from_static(b"/\xC3\xBC"))
            );
            assert_eq!(keys::bucket_of(&list.1), Some(shard_of("ü", BUCKETS)));
        }
        assert_eq!(keys::backlink(&ResourcePath::root()), &b"/"[..]);
        for path in [from, ResourcePath::root()] {
            assert_eq!(keys::backlink_of(&keys::backlink(&path)), Some(path));
        }
    }
}
