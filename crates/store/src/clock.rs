//! Wall time, passed in: code above an engine never asks the operating system for the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// Adds `duration`; stops at the end of time instead of overflowing.
    pub fn plus(self, duration: std::time::Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A source of wall time. Tests pass one that they move by hand.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> UnixMillis;

    /// The time now in microseconds since the Unix epoch, as far as the clock knows them.
    fn now_micros(&self) -> u64 {
        self.now().0.saturating_mul(1_000)
    }
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        UnixMillis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    fn now_micros(&self) -> u64 {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
    }
}

/// A clock that never goes back: while the one within it shows an earlier time, it shows the latest
/// that it has shown.
pub struct ForwardClock {
    clock: Arc<dyn Clock>,
    latest: AtomicU64,
}

impl ForwardClock {
    /// The same time as `clock`, as long as that does not go back.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, latest: AtomicU64::new(0) }
    }

    /// Shows no earlier time than this from now on.
    pub fn not_before(&self, time: UnixMillis) {
        self.latest.fetch_max(time.0, Ordering::Relaxed);
    }
}

impl Clock for ForwardClock {
    fn now(&self) -> UnixMillis {
        let now = self.clock.now().0;
        UnixMillis(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

/// A clock for tests that moves only when told to.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: UnixMillis) -> Self {
        Self(AtomicU64::new(start.0))
    }

    /// Moves the clock on.
    pub fn advance(&self, by: std::time::Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Sets the clock, backwards too: clocks of real machines do that.
    pub fn set(&self, to: UnixMillis) {
        self.0.store(to.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> UnixMillis {
        UnixMillis(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_clock_stands_still_while_its_clock_was_set_back() {
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000)));
        let forward = ForwardClock::new(clock.clone());
        let mut shown = Vec::new();
        for time in [1_000, 400, 900, 1_001] {
            clock.set(UnixMillis(time));
            shown.push(forward.now().0);
        }
        assert_eq!(shown, [1_000, 1_000, 1_000, 1_001]);
    }
}
