//! Follows the audit: what was written since a reader looked last.
//!
//! A follower reads up to a time before which all records are written, and goes on from there. So
//! the time is its cursor: whoever reads from it later misses nothing, and gets nothing twice.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use heads::error::{ObjectsError, ObjectsResult};
use store::{Class, Scan, Table, UnixMillis, boxed};

use crate::handle::Audit;
use crate::keys::{self, Part};
use crate::record::AuditEntry;

/// How far a follower stays behind. The id of a record is made a moment before the record waits to
/// be written.
const BEHIND: Duration = Duration::from_secs(1);

/// How often a follower looks, if this process alone writes to the store.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often it looks if others write too: it has to list all partitions of the audit.
const LOOK_EVERY_SHARED: Duration = Duration::from_secs(60);

impl Audit {
    /// A time before which everything is written that ever will be: a second ago or, if servers
    /// share the store, as long ago as others may take.
    ///
    /// Errors: records of this process wait and cannot be written.
    #[boxed]
    pub async fn written_until(&self) -> ObjectsResult<UnixMillis> {
        let until = self.before_now(self.others_behind().max(BEHIND));
        self.auditor().written().await?;
        Ok(until)
    }

    /// For how long after the time of its id, by this server's clock, another server may still
    /// write a record; zero if no other one shares the store. Clocks differ, a record waits for
    /// those before it, and its write takes a call. A server whose records wait longer than
    /// `audit_max_lag` refuses requests. What waits there by then may be written later.
    pub(crate) fn others_behind(&self) -> Duration {
        let options = self.heads.options();
        match self.is_shared() {
            true => BEHIND + self.heads.clock_skew() + options.audit_max_lag + options.call_timeout,
            false => Duration::ZERO,
        }
    }

    /// The time so long ago.
    pub(crate) fn before_now(&self, long: Duration) -> UnixMillis {
        let long = u64::try_from(long.as_millis()).unwrap_or(u64::MAX);
        UnixMillis(self.heads.now().0.saturating_sub(long))
    }

    /// How often a follower looks.
    pub fn look_every(&self) -> Duration {
        if self.is_shared() { LOOK_EVERY_SHARED } else { LOOK_EVERY }
    }

    /// Streams what was written from `from` (inclusive) to `to` (exclusive), for a follower that
    /// has read everything before since this process began. If this process alone writes to the
    /// store, only its own records can be new, and they are found without a list of all partitions.
    pub fn read_new(&self, from: UnixMillis, to: UnixMillis) -> BoxStream<'static, ObjectsResult<AuditEntry>> {
        if self.is_shared() {
            return self.read(from, to);
        }
        let audit = self.clone();
        let new = async move {
            let parts = audit.own_parts(from, to).await?;
            Ok::<_, ObjectsError>(audit.of_parts(parts, from, to))
        };
        futures::stream::once(new).try_flatten().boxed()
    }

    fn is_shared(&self) -> bool {
        self.heads.store().capabilities().is_shared
    }

    /// The parts of this process with records between two times.
    async fn own_parts(&self, from: UnixMillis, to: UnixMillis) -> ObjectsResult<Vec<Part>> {
        let mut parts = Vec::new();
        let Some(filling) = self.auditor().filling() else { return Ok(parts) };
        for hour in keys::hour_of(from)..=keys::hour_of(to).min(filling.hour) {
            let mut part = Part { hour, number: 0, ..filling };
            loop {
                let first = Scan::prefix(Bytes::new(), 1);
                let call = self.heads.call(Class::Audit);
                let page = self.heads.store().scan(call, Table::Audit, &part.partition(), first).await?;
                if page.rows.is_empty() {
                    break;
                }
                parts.push(part);
                part.number += 1;
            }
        }
        Ok(parts)
    }
}
