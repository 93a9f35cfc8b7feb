//! What goes on without a request: collecting what nobody needs, ending selections.

use std::sync::Arc;
use std::time::Duration;

use objects::{CollectLimits, Library, ObjectsResult};
use serde::Serialize;
use store::{Call, Class, Deadline};
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use crate::tokens::Tokens;

/// How long the store may take to reclaim what it can; the next round goes on.
const STORE_SWEEP_MAX: Duration = Duration::from_secs(30);

/// How long a token that was made or revoked elsewhere may take to be known here.
const TOKENS_INTERVAL: Duration = Duration::from_secs(5);

/// How long another server may be at a deletion before this one goes on with it.
const JOB_AGE_MIN: Duration = Duration::from_secs(60);

/// Runs until the handle is dropped. Every step of it may be cut off: any prefix of it does no harm.
pub(crate) fn start(library: Library, interval: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What an earlier process was at need not wait. Where servers share a store another may still be at it: every step of a deletion
        // may be done twice.
        let mut job_age_min = Duration::ZERO;
        loop {
            ticks.tick().await;
            match resume(&library, std::mem::replace(&mut job_age_min, JOB_AGE_MIN)).await {
                Ok(0) => {}
                Ok(deletions) => tracing::info!(deletions, "resumed interrupted deletions"),
                Err(error) => tracing::warn!(%error, "a deletion could not be resumed; the next pass tries again"),
            }
            match sweep(&library).await {
                Ok(swept) => tracing::debug!(?swept, "swept"),
                Err(error) => tracing::warn!(%error, "sweeping failed; the next pass tries again"),
            }
        }
    }))
}

/// Reads the tokens anew again and again: where many servers share a store, another may have made or revoked one.
pub(crate) fn keep_fresh(tokens: Arc<Tokens>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(TOKENS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = tokens.list().await {
                tracing::warn!(%error, "reading the tokens failed; known tokens stay valid, and the next pass tries again");
            }
        }
    }))
}

/// Goes on with deletions that nobody is at, and drops what earlier ones left. What fails does not keep the rest from being done.
async fn resume(library: &Library, job_age_min: Duration) -> ObjectsResult<u64> {
    let resumed = library.resume_deletions(job_age_min).await;
    library.empty_deleted_containers().await?;
    resumed
}

/// What one round has done.
#[derive(Debug, Serialize)]
pub(crate) struct Swept {
    /// Selections that have ended.
    selections_ended: u64,
    /// Volumes of which something was condemned.
    volumes_condemned: u64,
    /// Superseded generations that were removed.
    generations_removed: u64,
    /// Volumes that have to wait: for the grace, a selection, or an import.
    volumes_waiting: u64,
    /// Volumes that could not be dealt with; why is in the log.
    volumes_failed: u64,
    /// Resources of which versions were removed that are not kept.
    versions_removed: u64,
    /// Contents that nothing names.
    contents_collected: u64,
    /// Containers that were given more shards, or as many without past members.
    containers_grown: u64,
    /// Expired rows and leftovers of uploads that the store took away.
    store_reclaimed: u64,
}

/// One round. What fails does not keep the rest from being done.
pub(crate) async fn sweep(library: &Library) -> ObjectsResult<Swept> {
    let selections_ended = library.sweep_selections().await;
    let collected = library.collect_once(CollectLimits::default()).await;
    let versions_removed = library.collect_versions().await;
    let contents_collected = library.collect_contents().await;
    let containers_grown = library.grow_containers().await;
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
        store_reclaimed: store_reclaimed?,
    })
}
