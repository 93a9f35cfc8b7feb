//! Deletes records that are older than they are kept.

use std::time::Duration;

use heads::error::ObjectsResult;
use store::{Table, UnixMillis, boxed};

use crate::handle::Audit;
use crate::keys::Part;

/// How often all partitions of the audit are listed. That reads all of a cluster.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);

/// Rows that one pass deletes. The next one continues.
const ROWS_AT_ONCE: u64 = 500_000;

/// What a pass found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Partitions that were deleted: each has at most an hour of records of one writer.
    pub parts: u64,
    /// The hour of the oldest records that are left; `None`: there are no records.
    pub oldest: Option<UnixMillis>,
}

impl Audit {
    /// Deletes the records of hours that ended longer ago than records are kept, at most so many at
    /// once. Looks once an hour, and sooner if the last look did not delete all. `None`: it did not
    /// look. Every server may do this at any time. Of those that share a store, one does nothing
    /// while it cannot change heads: its clock may be wrong, and find records too old.
    #[boxed]
    pub async fn prune(&self) -> ObjectsResult<Option<Pruned>> {
        let Some(keep) = self.heads.options().audit_keep else { return Ok(None) };
        if self.heads.store().capabilities().is_shared && !self.heads.is_home() {
            return Ok(None);
        }
        let now = self.heads.clock().now();
        if self.pruned_at.lock().is_some_and(|at| now.since(at) < LOOK_EVERY) {
            return Ok(None);
        }
        // By then no server writes into such an hour, whatever its clock says.
        let keep = keep.saturating_add(self.others_behind());
        let (mut parts, mut rows_left) = (0, ROWS_AT_ONCE);
        let mut oldest = None;
        for part in self.parts(UnixMillis(0), UnixMillis(u64::MAX)).await? {
            if now.since(part.end()) <= keep {
                oldest = Some(part.begin());
                break;
            }
            if !self.heads.remove_all(Table::Audit, &part.partition(), &mut rows_left).await? {
                return Ok(Some(Pruned { parts, oldest: Some(part.begin()) }));
            }
            parts += 1;
        }
        *self.pruned_at.lock() = Some(now);
        Ok(Some(Pruned { parts, oldest }))
    }
}

impl Part {
    /// The beginning of its hour.
    fn begin(&self) -> UnixMillis {
        UnixMillis(u64::from(self.hour) * 3_600_000)
    }

    /// The end of its hour.
    fn end(&self) -> UnixMillis {
        UnixMillis((u64::from(self.hour) + 1) * 3_600_000)
    }
}
