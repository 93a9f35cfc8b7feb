//! Clocks of servers: all follow the paused time of the runtime, each with a difference and a drift of its own.

use store::{Clock, UnixMillis};
use tokio::time::Instant;

/// When a run begins, by a clock that is right.
const BEGIN_MS: i64 = 1_800_000_000_000;

/// A server's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimClock {
    began: Instant,
    offset_ms: i64,
    drift_ppm: i64,
}

impl SimClock {
    /// A clock that began at `began`, ahead by so many milliseconds, and running fast by so many millionths.
    pub(crate) fn new(began: Instant, offset_ms: i64, drift_ppm: i64) -> Self {
        Self { began, offset_ms, drift_ppm }
    }
}

impl Clock for SimClock {
    fn now(&self) -> UnixMillis {
        let elapsed_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX / 2);
        let drift_ms = elapsed_ms / 1_000 * self.drift_ppm / 1_000;
        UnixMillis(u64::try_from(BEGIN_MS + self.offset_ms + elapsed_ms + drift_ms).unwrap_or_default())
    }
}
