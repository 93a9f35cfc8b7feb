//! What goes on without a request: collecting what nobody needs, ending selections.

use std::time::Duration;

use objects::{CollectLimits, Library, ObjectsResult};
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

/// Runs until the handle is dropped. Every step of it may be cut off: any prefix of it does no harm.
pub(crate) fn start(library: Library, interval: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = sweep(&library).await {
                tracing::warn!(%error, "sweeping failed; it is tried again");
            }
        }
    }))
}

async fn sweep(library: &Library) -> ObjectsResult<()> {
    library.sweep_selections().await?;
    library.collect_once(CollectLimits::default()).await?;
    Ok(())
}
