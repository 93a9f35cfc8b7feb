//! Which resources refer to which, so that a resource can be asked who refers to it.
//!
//! A reference is recorded before the head that names its description. The record stays when the description changes, so that a reader checks
//! each record against the description. So every reference has a record, and a changed description records only references that the one
//! before it did not have. The records are in partitions of their own, several for each resource that is referred to, so that none grows
//! large: a million references by paths of 60 bytes make partitions of 6 MB.

use store::{Class, NewRow, Scan, Step, Table, envelope};

use crate::error::ObjectsResult;
use crate::head::shard_of;
use crate::keys;
use crate::library::Library;
use crate::resources::path::ResourcePath;

/// Partitions of the records of one resource.
const SHARDS: u16 = 16;
/// Bytes of one page of a scan.
const SCAN_BYTES: usize = 16 << 10;
/// References that go into one list with the head; the others go into lists of their own before it.
const STEPS_MAX: usize = 256;

/// Reads the resources that refer to one, page by page.
#[derive(Clone, Debug)]
pub struct Referrers {
    path: ResourcePath,
    shard: u16,
    /// The rest of the shard; `None`: it is all read.
    scan: Option<Scan>,
}

impl Referrers {
    /// Those of the resource at a path, from the first on.
    pub fn of(path: ResourcePath) -> Self {
        Self { path, shard: 0, scan: Some(all()) }
    }

    /// The resource.
    pub fn path(&self) -> &ResourcePath {
        &self.path
    }
}

fn all() -> Scan {
    Scan::prefix(keys::referrer_prefix(), SCAN_BYTES)
}

impl Library {
    /// The next resources that refer to one, or once did; `None`: there are no more. A page may be empty.
    pub async fn more_referrers(&self, referrers: &mut Referrers) -> ObjectsResult<Option<Vec<ResourcePath>>> {
        let Some(scan) = referrers.scan.take() else { return Ok(None) };
        let partition = keys::referrers(&referrers.path, referrers.shard);
        let page =
            self.inner.store.scan(self.call(Class::Description), Table::Objects, &partition, scan.clone()).await?;
        referrers.scan = scan.resumed(page.next).or_else(|| {
            referrers.shard += 1;
            (referrers.shard < SHARDS).then(all)
        });
        Ok(Some(page.rows.iter().filter_map(|row| keys::referrer_of(&row.sort)).collect()))
    }

    /// Records that a resource refers to others: returns the steps for the list of its head. Where there are too many for one list, the rest is
    /// put before this returns.
    pub(super) async fn refer(&self, referrer: &ResourcePath, targets: &[ResourcePath]) -> ObjectsResult<Vec<Step>> {
        let put = |target: &ResourcePath| Step::Put {
            table: Table::Objects,
            partition: keys::referrers(target, shard_of(referrer.as_str(), SHARDS)),
            rows: vec![NewRow::new(keys::referrer(referrer), envelope::seal(&[]))],
        };
        let (with_head, before) = targets.split_at(targets.len().min(STEPS_MAX));
        for targets in before.chunks(STEPS_MAX) {
            self.put_acknowledged(Class::Description, targets.iter().map(put).collect()).await?;
        }
        Ok(with_head.iter().map(put).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_record_is_where_every_version_looks_for_it() {
        let (target, referrer): (ResourcePath, ResourcePath) = ("a/b".parse().unwrap(), "ü".parse().unwrap());
        assert_eq!(keys::referrers(&target, 3), &b"b/\x00\x03a/b"[..]);
        assert_eq!(keys::referrer(&referrer), &b"/\xC3\xBC"[..]);
        assert_eq!(keys::referrer(&ResourcePath::root()), &b"/"[..]);
        assert_eq!(shard_of(referrer.as_str(), SHARDS), 5);
        for path in [referrer, ResourcePath::root()] {
            assert_eq!(keys::referrer_of(&keys::referrer(&path)), Some(path));
        }
    }
}
