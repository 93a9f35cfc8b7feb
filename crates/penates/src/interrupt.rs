//! Ctrl-C and the signal that asks a process to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that ask a process to end: SIGINT and SIGTERM.
struct Signals {
    interrupted: Signal,
    terminated: Signal,
}

impl Signals {
    /// From now on these signals no longer kill the process.
    fn catch() -> io::Result<Self> {
        Ok(Self { interrupted: signal(SignalKind::interrupt())?, terminated: signal(SignalKind::terminate())? })
    }

    /// Completes when a signal arrives.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}

/// Completes when the process is asked to end. The signal does not kill the process any more, from
/// the call on, not only from the first poll.
pub fn asked_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::catch()?;
    Ok(async move { signals.next().await })
}

/// A token that is cancelled when the process is asked to end, so that current work can be
/// completed. At the second request the process ends at once.
pub fn stop_token() -> io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let cancelled = stop.clone();
    let mut signals = Signals::catch()?;
    tokio::spawn(async move {
        signals.next().await;
        note!("Stopping after the current work; interrupt again to stop at once.");
        cancelled.cancel();
        signals.next().await;
        std::process::exit(130);
    });
    Ok(stop)
}
