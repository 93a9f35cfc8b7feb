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
    pub async fn kept_from(&self, partition: &Bytes, stands: &Head, keep: Keep) -> ObjectsResult<Option<RevisionId>> {
        match keep {
            Keep::All => Ok(Some(RevisionId::ZERO)),
            Keep::None => Ok(None),
            Keep::Newest(count) => {
                let (mut from, mut left) = (None, count);
                let log = self.log_before(partition, stands);
                let mut newest_first = log.newest_first().await?;
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
                let now = self.inner.surroundings.clock.now();
                let since = RevisionId::first_at(UnixMillis(now.0 + 1 - millis(time).min(now.0)));
                if stands.revision < since {
                    return Ok(None);
                }
                let current_then = self.log_before(partition, stands).newest_below(since).await?;
                Ok(Some(current_then.map_or(since, |head| head.revision)))
            }
        }
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
