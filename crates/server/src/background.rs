//! What goes on without a request: collecting what nobody needs, ending selections.

use std::time::Duration;

use objects::{CollectLimits, Library, ObjectsResult};
use serde::Serialize;
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

/// Runs until the handle is dropped. Every step of it may be cut off: any prefix of it does no harm.
pub(crate) fn start(library: Library, interval: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match sweep(&library).await {
                Ok(swept) => tracing::debug!(?swept, "swept"),
                Err(error) => tracing::warn!(%error, "sweeping failed; it is tried again"),
            }
        }
    }))
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
}

/// One round.
pub(crate) async fn sweep(library: &Library) -> ObjectsResult<Swept> {
    let selections_ended = library.sweep_selections().await?;
    let collected = library.collect_once(CollectLimits::default()).await?;
    Ok(Swept {
        selections_ended,
        volumes_condemned: collected.condemned,
        generations_removed: collected.removed,
        volumes_waiting: collected.waiting,
        volumes_failed: collected.failed,
    })
}
