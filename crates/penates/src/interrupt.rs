//! Ctrl-C and the polite signal to end.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Completes when the process is asked to end (SIGINT or SIGTERM).
pub async fn asked_to_end() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminated) => terminated.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}

/// A token that is cancelled at the first such signal, so that work under way can be ended; a second signal ends the process.
pub fn stop_token() -> CancellationToken {
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    tokio::spawn(async move {
        asked_to_end().await;
        eprintln!("Ending what is under way; once more ends at once.");
        cancelled.cancel();
        asked_to_end().await;
        std::process::exit(130);
    });
    stop
}
