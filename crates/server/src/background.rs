//! Work without a request: collecting superseded data, ending selections, auditing fixity.

use std::sync::Arc;
use std::time::Duration;

use audit::Pruned;
use fixity::{Auditor, Step};
use heads::ObjectsResult;
use library::Library;
use metrics::{counter, gauge};
use serde::Serialize;
use store::{Call, Class, Deadline};
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;
use volumes::CollectLimits;

use crate::telemetry;
use crate::tokens::Tokens;

/// The time limit of reclaiming in the store; the next round continues.
const STORE_SWEEP_MAX: Duration = Duration::from_secs(30);

/// How long a token that another server made or revoked may be unknown here.
const TOKENS_INTERVAL: Duration = Duration::from_secs(5);

/// How long another server may work on a deletion before this one continues it.
const JOB_AGE_MIN: Duration = Duration::from_secs(60);

/// How long after a start the fixity auditor begins.
const FIXITY_DELAY: Duration = Duration::from_secs(600);

/// How long the fixity auditor waits before it looks again whether there is something to do.
const FIXITY_PAUSE: Duration = Duration::from_secs(60);

/// Runs until the handle is dropped. Each step may be interrupted: any prefix of it does no harm.
pub(crate) fn start(library: Library, interval: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The work of an earlier process need not wait. If servers share a store, another one may
        // still be working on it: every step of a deletion may be done twice.
        let mut job_age_min = Duration::ZERO;
        loop {
            ticks.tick().await;
            let resumed = resume(&library, std::mem::replace(&mut job_age_min, JOB_AGE_MIN)).await;
            telemetry::record_task("deletions", &resumed);
            match resumed {
                Ok(0) => {}
                Ok(deletions) => tracing::info!(deletions, "resumed interrupted deletions"),
                Err(error) => tracing::warn!(%error, "a deletion could not be resumed; the next pass tries again"),
            }
            let swept = sweep(&library).await;
            telemetry::record_task("sweep", &swept);
            match swept {
                Ok(swept) => tracing::debug!(?swept, "swept"),
                Err(error) => tracing::warn!(%error, "sweeping failed; the next pass tries again"),
            }
        }
    }))
}

/// Runs the fixity auditor until the handle is dropped. Each step may be interrupted.
pub(crate) fn audit_fixity(auditor: Arc<Auditor>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        // A server that has just started serves first, and its caches fill.
        tokio::time::sleep(FIXITY_DELAY.min(auditor.options().every)).await;
        let mut was_prevented = None;
        loop {
            match auditor.step().await {
                Ok(Step::Read(_) | Step::Moved) => continue,
                Ok(Step::Rests { .. } | Step::OthersRead) => was_prevented = None,
                Ok(Step::Prevented(why)) => {
                    if was_prevented.as_ref() != Some(&why) {
                        tracing::info!(why, "the fixity auditor does not read");
                    }
                    was_prevented = Some(why);
                }
                Err(error) => {
                    counter!(telemetry::FIXITY_ERRORS).increment(1);
                    tracing::warn!(%error, "a fixity pass was interrupted, and is tried again");
                }
            }
            tokio::time::sleep(FIXITY_PAUSE.min(auditor.options().every)).await;
        }
    }))
}

/// Reads the tokens regularly: if several servers share a store, another one may have made or
/// revoked a token.
pub(crate) fn keep_fresh(tokens: Arc<Tokens>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(TOKENS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let read = tokens.list().await;
            telemetry::record_task("tokens", &read);
            if let Err(error) = read {
                tracing::warn!(%error, "reading the tokens failed; known tokens stay valid, and the next pass tries again");
            }
        }
    }))
}

/// Continues deletions on which nobody works, and deletes leftovers of earlier ones. A failure does
/// not stop the rest.
async fn resume(library: &Library, job_age_min: Duration) -> ObjectsResult<u64> {
    let resumed = library.repository.resume_deletions(job_age_min).await;
    let ended = library.repository.end_transactions(job_age_min).await;
    library.repository.empty_deleted_containers().await?;
    ended?;
    resumed
}

/// The result of one round.
#[derive(Debug, Serialize)]
pub(crate) struct Swept {
    /// Ended selections.
    selections_ended: u64,
    /// Volumes of which data was condemned.
    volumes_condemned: u64,
    /// Superseded generations that were removed.
    generations_removed: u64,
    /// Volumes that must wait: for the grace period, a selection, or an import.
    volumes_waiting: u64,
    /// Volumes that could not be processed; the log has the reasons.
    volumes_failed: u64,
    /// Resources of which old versions were removed.
    versions_removed: u64,
    /// Contents that nothing names any more.
    contents_collected: u64,
    /// Containers that got more shards, or new shards without former members.
    containers_grown: u64,
    /// Buckets of the change feed that were dropped.
    feed_buckets_dropped: u64,
    /// Partitions of the audit that were deleted.
    audit_parts_dropped: u64,
    /// Expired rows and leftovers of uploads that the store deleted.
    store_reclaimed: u64,
}

/// One round. A failure does not stop the rest.
pub(crate) async fn sweep(library: &Library) -> ObjectsResult<Swept> {
    let selections_ended = library.volumes.sweep_selections().await;
    let collected = library.volumes.collect_once(CollectLimits::default()).await;
    let versions_removed = library.repository.collect_versions().await;
    let contents_collected = library.repository.collect_contents().await;
    let containers_grown = library.heads.grow_containers().await;
    let feed_buckets_dropped = library.feed.drop_old().await;
    let audit_parts_dropped = prune_audit(library).await;
    let call = Call::new(Class::Record, Deadline::within(STORE_SWEEP_MAX));
    let store_reclaimed = library.store().sweep(call).await;
    let collected = collected?;
    Ok(Swept {
        selections_ended: selections_ended?,
        volumes_condemned: collected.condemned,
        generations_removed: collected.removed,
        volumes_waiting: collected.waiting,
        volumes_failed: collected.failed,
        versions_removed: versions_removed?,
        contents_collected: contents_collected?,
        containers_grown: containers_grown?,
        feed_buckets_dropped: feed_buckets_dropped?,
        audit_parts_dropped: audit_parts_dropped?,
        store_reclaimed: store_reclaimed?,
    })
}

/// Deletes records of the audit that are older than they are kept, and reports the oldest.
async fn prune_audit(library: &Library) -> ObjectsResult<u64> {
    let Some(Pruned { parts, oldest }) = library.audit.prune().await? else { return Ok(0) };
    let now = library.clock().now();
    let age = oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
    gauge!(telemetry::AUDIT_OLDEST).set(age.as_secs_f64());
    Ok(parts)
}
