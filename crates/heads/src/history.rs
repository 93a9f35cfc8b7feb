//! Decides which earlier versions of an object are kept. They are its history, and are never
//! condemned.

use std::time::Duration;

use bytes::Bytes;
use store::{Class, Direction, Scan, Table, UnixMillis, boxed};

use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::head::{self, Condemned, Head, ObjectState};
use crate::keep::Keep;
use crate::keys;
use crate::revision::RevisionId;
use crate::rules::Rule;

/// The time after which an object is visited again if it is not known when something can be done.
pub const LOOKED_AT_AGAIN: Duration = Duration::from_secs(3_600);

/// What is kept for a time is visited about so often meanwhile, because the time may be shortened.
const VISITS: u32 = 30;

/// It is not visited more often than once in this time.
const VISITED_AGAIN: Duration = Duration::from_secs(24 * 3_600);

/// Bytes of one page of a scan.
const SCAN_BYTES: usize = 64 << 10;

impl Heads {
    /// The revision from which on earlier heads of an object are kept; `None` if none are kept.
    #[boxed]
    pub async fn kept_from(&self, partition: &Bytes, head: &Head, keep: Keep) -> ObjectsResult<Option<RevisionId>> {
        let now = self.inner.surroundings.clock.now();
        self.kept_from_then(partition, head, keep, head.revision, now).await
    }

    /// The same at an earlier time, when `current` was the newest revision of the object.
    #[boxed]
    pub async fn kept_from_then(
        &self,
        partition: &Bytes,
        head: &Head,
        keep: Keep,
        current: RevisionId,
        then: UnixMillis,
    ) -> ObjectsResult<Option<RevisionId>> {
        match keep {
            Keep::All => Ok(Some(RevisionId::ZERO)),
            // Marks say which ones are (`version_marks.rs`).
            Keep::None | Keep::Explicit => Ok(None),
            Keep::Newest(count) => {
                // Each request for a version comes here, so it reads a page of the log at most,
                // unless something was deleted.
                if u64::from(count) > keys::LOG_PAGE_ENTRIES
                    && let Some(first) = self.first_of_newest(partition, head, current, count.into()).await?
                {
                    return Ok(Some(first));
                }
                let (mut from, mut left) = (None, count);
                let log = self.log_before(partition, head);
                let mut newest_first = log.newest_first_below(current).await?;
                while left > 0
                    && let Some(head) = newest_first.next_head().await?
                {
                    // The entries of a deletion are no versions.
                    if head.state == ObjectState::Live {
                        from = Some(head.revision);
                        left -= 1;
                    }
                }
                Ok(from)
            }
            Keep::For(time) => {
                // Each head was current until the next one. Those since that time are kept, and the
                // one that was current at that time.
                let since = RevisionId::first_at(UnixMillis(then.0 + 1 - millis(time).min(then.0)));
                if current < since {
                    return Ok(None);
                }
                let current_then = self.log_before(partition, head).newest_below(since).await?;
                Ok(Some(current_then.map_or(since, |head| head.revision)))
            }
        }
    }

    /// The first of the `count` newest versions below `current`, by the number of its entry in the
    /// log; `None` if something may have been deleted among them, so that versions have to be
    /// counted, or if there are none.
    ///
    /// No head of an incarnation is live after one that is not. So between two live heads of the
    /// same incarnation all are versions.
    async fn first_of_newest(
        &self,
        partition: &Bytes,
        head: &Head,
        current: RevisionId,
        count: u64,
    ) -> ObjectsResult<Option<RevisionId>> {
        let (incarnation, before) = match head.state == ObjectState::Live && head.revision == current {
            true => (head.incarnation, head.logged),
            false => {
                let newest = self.log_before(partition, head).newest_below(current).await?;
                match newest.filter(|newest| newest.state == ObjectState::Live) {
                    Some(newest) => (newest.incarnation, newest.logged_with_it()),
                    None => return Ok(None),
                }
            }
        };
        let first = self.logged_at(partition, head, before.saturating_sub(count)).await?;
        let first = first.filter(|first| first.state == ObjectState::Live && first.incarnation == incarnation);
        Ok(first.map(|first| first.revision))
    }

    /// The head of an object with so many heads before it, from the log before `head`. Reads at
    /// most a page of the log.
    async fn logged_at(&self, partition: &Bytes, head: &Head, number: u64) -> ObjectsResult<Option<Head>> {
        let page = keys::log_page(partition, number / keys::LOG_PAGE_ENTRIES);
        let mut skipped = (number % keys::LOG_PAGE_ENTRIES) as usize;
        let (from, to) = (keys::log_prefix(), Some(keys::log(head.revision)));
        let mut rest = Some(Scan { from, to, direction: Direction::Forward, max_bytes: SCAN_BYTES });
        while let Some(scan) = rest {
            let call = self.call(Class::Description).strong();
            let read = self.store().scan(call, Table::Objects, &page, scan.clone()).await?;
            if let Some(row) = read.rows.get(skipped) {
                let logged: Head = head::open(Table::Objects, &row.value)?;
                return Ok(Some(logged).filter(|logged| logged.logged == number));
            }
            skipped -= read.rows.len();
            rest = scan.resumed(read.next);
        }
        Ok(None)
    }

    /// Whether a head spares the rows of `revision`, which was current at some time: no collector
    /// that acts on the head, or on what it says about an earlier condemnation, removes them.
    ///
    /// A collector removes what was not kept when it was condemned, up to the floor. What is kept
    /// now was kept then, unless the settings changed.
    #[boxed]
    pub async fn spares(
        &self,
        partition: &Bytes,
        head: &Head,
        keep: Keep,
        revision: RevisionId,
    ) -> ObjectsResult<bool> {
        if head.keeps(revision) {
            return Ok(true);
        }
        if self.kept_from(partition, head, keep).await?.is_none_or(|kept_from| revision < kept_from) {
            return Ok(false);
        }
        let Some(condemned) = head.condemned else { return Ok(true) };
        let kept_then = self.kept_from_then(partition, head, keep, condemned.named, condemned.at).await?;
        Ok(revision > condemned.floor || kept_then.is_some_and(|kept_from| revision >= kept_from))
    }

    /// When to visit an object again of which everything is kept for a time: once the first of the
    /// versions that these revisions superseded is kept no more. At the earliest after
    /// [`LOOKED_AT_AGAIN`], and at the latest after a day, or after a thirtieth of a time that is
    /// longer than a month: settings may keep less by then.
    pub fn kept_until(&self, time: Duration, superseding: impl Iterator<Item = RevisionId>) -> UnixMillis {
        let now = self.now();
        let ends = superseding.map(|revision| revision.time().plus(time)).filter(|end| *end > now);
        let (earliest, latest) = (now.plus(LOOKED_AT_AGAIN), now.plus((time / VISITS).max(VISITED_AGAIN)));
        ends.min().unwrap_or(now).clamp(earliest, latest)
    }

    /// When no writer is at work any more that left a record of work under one of these revisions;
    /// `None` if none is now.
    pub fn at_work_until(&self, revisions: impl Iterator<Item = RevisionId>) -> Option<UnixMillis> {
        let until = revisions.map(|revision| self.requests_end(revision.time())).max();
        until.filter(|until| *until > self.now())
    }

    /// The time from which the grace of a condemnation counts.
    pub fn grace_from(&self, condemned: Condemned) -> UnixMillis {
        if self.keeps(Rule::GraceObs) { condemned.at } else { condemned.named.time() }
    }

    /// Whether the grace has passed since a time.
    pub fn grace_passed(&self, since: UnixMillis) -> bool {
        self.now().since(since) >= self.options().grace
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
