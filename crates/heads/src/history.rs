//! Decides which earlier versions of an object are kept. They are its history, and are never
//! condemned.

use std::time::Duration;

use bytes::Bytes;
use store::UnixMillis;

use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::head::{Condemned, Head, ObjectState};
use crate::keep::Keep;
use crate::revision::RevisionId;
use crate::rules::Rule;

/// The interval at which versions that are kept for a time are visited again.
pub const LOOKED_AT_AGAIN: Duration = Duration::from_secs(3_600);

impl Heads {
    /// The revision from which on earlier heads of an object are kept; `None` if none are kept.
    pub async fn kept_from(&self, partition: &Bytes, head: &Head, keep: Keep) -> ObjectsResult<Option<RevisionId>> {
        let now = self.inner.surroundings.clock.now();
        self.kept_from_then(partition, head, keep, head.revision, now).await
    }

    /// The same at an earlier time, when `current` was the newest revision of the object.
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

    /// Whether a head spares the rows of `revision`, which was current at some time: no collector
    /// that acts on the head, or on what it says about an earlier condemnation, removes them.
    ///
    /// A collector removes what was not kept when it was condemned, up to the floor. What is kept
    /// now was kept then, unless the settings changed.
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
