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
//!
//! Whoever reads a resource reads the heads of all containers that are recorded to give it members.
//! So these are bounded ([`GIVING_MAX`]), and those that did so before count too: their records
//! stay, because versions of the resource have their members.

use std::collections::VecDeque;

use bytes::Bytes;
use heads::container_body::shard_of;
use heads::error::ObjectsResult;
use heads::keys::{self, Link};
use heads::path::ResourcePath;
use store::{Class, NewRow, Scan, Step, Table, ValueKind, boxed, envelope};

use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;

/// The number of partitions over which the records of one resource are spread.
pub const BUCKETS: u16 = 4_096;
/// The most containers that give members to one resource, or did so before. Containers that are
/// created at the same time may exceed it, each by itself.
pub const GIVING_MAX: usize = 1_024;
/// Buckets that are read together.
const BUCKETS_AT_ONCE: usize = 16;
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
    /// Buckets that are still to be read, each with the rest of it.
    buckets: VecDeque<(u16, Scan)>,
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
        Self { link, path, list, buckets: VecDeque::new() }
    }

    /// The resource at which they point.
    pub fn path(&self) -> &ResourcePath {
        &self.path
    }
}

impl Repository {
    /// The next resources that point at this one, or did so before; `None` if there are no more. A
    /// page may be empty.
    #[boxed]
    pub async fn more_backlinks(&self, links: &mut Backlinks) -> ObjectsResult<Option<Vec<ResourcePath>>> {
        loop {
            let at_once = links.buckets.len().min(BUCKETS_AT_ONCE);
            if at_once > 0 {
                let read: Vec<_> = links.buckets.drain(..at_once).collect();
                let partition = |bucket| keys::backlinks(links.link, &links.path, bucket);
                let scans = read.iter().map(|(bucket, scan)| (Table::Objects, partition(*bucket), scan.clone()));
                let call = self.heads.call(Class::Description);
                let pages = self.heads.store().scan_many(call, scans.collect()).await?;
                let mut paths = Vec::new();
                for ((bucket, scan), page) in read.into_iter().zip(pages) {
                    paths.extend(page.rows.iter().filter_map(|row| keys::backlink_of(&row.sort)));
                    // Those that have begun come first, so that few are remembered with a key.
                    let rest = resumed(&scan, page.next).map(|rest| (bucket, rest));
                    rest.into_iter().for_each(|rest| links.buckets.push_front(rest));
                }
                return Ok(Some(paths));
            }
            let Some(scan) = links.list.take() else { return Ok(None) };
            let partition = keys::backlink_buckets(links.link, &links.path);
            let call = self.heads.call(Class::Description);
            let page = self.heads.store().scan(call, Table::Objects, &partition, scan.clone()).await?;
            let first = |bucket| (bucket, Scan::prefix(keys::backlink_prefix(), Scan::FEW_BYTES));
            links.buckets.extend(page.rows.iter().filter_map(|row| keys::bucket_of(&row.sort)).map(first));
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
        if !before.is_empty() {
            // The head would be refused, but the puts before it would not.
            self.heads.store().check_home()?;
        }
        for targets in before.chunks(LINKS_MAX) {
            self.heads.put_acknowledged(Class::Description, steps(targets)).await?;
        }
        Ok(steps(with_head))
    }

    /// Records that the container at a path gives members to a resource. Returns the steps for the
    /// list of its head. The record may exist although the container does not: its head decides.
    ///
    /// Fails with [`ResourceError::TooManyGive`] if there is no room for another container.
    pub(super) async fn gives_members(
        &self,
        resource: &ResourcePath,
        container: &ResourcePath,
    ) -> ResourceResult<[Step; 2]> {
        match self.heads.retry_transient(|| self.may_give(resource, container)).await? {
            true => Ok(record(Link::Members, resource, container)),
            false => Err(ResourceError::TooManyGive(resource.clone())),
        }
    }

    /// Whether there is room for the record of a container that gives members to a resource, or the
    /// record is there.
    async fn may_give(&self, resource: &ResourcePath, container: &ResourcePath) -> ObjectsResult<bool> {
        let partition = keys::backlinks(Link::Members, resource, bucket_from(container));
        let call = self.heads.call(Class::Description);
        if self.heads.store().get(call, Table::Objects, &partition, &keys::backlink(container)).await?.is_some() {
            return Ok(true);
        }
        let mut links = Backlinks::giving_members_to(resource.clone());
        let mut recorded = 0;
        while recorded < GIVING_MAX {
            match self.more_backlinks(&mut links).await? {
                Some(paths) => recorded += paths.len(),
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// The rest of a scan, in larger pages.
fn resumed(scan: &Scan, next: Option<Bytes>) -> Option<Scan> {
    scan.resumed(next).map(|rest| Scan { max_bytes: SCAN_BYTES, ..rest })
}

/// The bucket with the records of links from a resource.
fn bucket_from(path: &ResourcePath) -> u16 {
    shard_of(path.as_str(), BUCKETS)
}

/// The steps that record one link.
fn record(link: Link, target: &ResourcePath, from: &ResourcePath) -> [Step; 2] {
    let bucket = bucket_from(from);
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
