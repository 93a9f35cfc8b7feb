//! Ctrl-C and the signals that ask a process to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that ask a process to end: SIGINT, SIGTERM and, if it is caught, SIGHUP.
struct Signals {
    interrupted: Signal,
    terminated: Signal,
    hung_up: Option<Signal>,
}

impl Signals {
    /// From now on SIGINT and SIGTERM no longer kill the process.
    fn catch() -> io::Result<Self> {
        let (interrupted, terminated) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupted, terminated, hung_up: None })
    }

    /// The same with SIGHUP, unless that is ignored: `nohup` lets a process go on without its terminal.
    fn catch_with_hang_ups() -> io::Result<Self> {
        let hung_up = match are_hang_ups_ignored() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        Ok(Self { hung_up, ..Self::catch()? })
    }

    /// Completes when a signal arrives.
    async fn next(&mut self) {
        let Self { interrupted, terminated, hung_up } = self;
        let hung_up = async {
            match hung_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
            _ = hung_up => {}
        }
    }
}

/// Whether this process ignores SIGHUP (signal 1), by the mask of proc_pid_status(5).
fn are_hang_ups_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// Completes when the process is asked to end. The signal does not kill the process any more, from
/// the call on, not only from the first poll.
pub fn asked_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::catch()?;
    Ok(async move { signals.next().await })
}

/// The same, also when the terminal goes (SIGHUP): for commands that have started what should end in
/// order.
pub fn asked_to_end_or_hung_up() -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::catch_with_hang_ups()?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn a_terminal_that_goes_asks_to_end_unless_the_process_should_go_on_without_it() {
        // What started the tests may ignore the signal.
        let goes_on = are_hang_ups_ignored();
        let ended = asked_to_end_or_hung_up().unwrap();
        kill_process(getpid(), Signal::HUP).unwrap();
        let patience = if goes_on { Duration::ZERO } else { Duration::from_secs(60) };
        assert_eq!(tokio::time::timeout(patience, ended).await.is_ok(), !goes_on);
    }
}
