//! Clocks of servers: all follow the paused time of the runtime, each with its own offset and
//! drift.

use store::{Clock, UnixMillis};
use tokio::time::Instant;

/// The beginning of a run, by an exact clock.
const BEGIN_MS: i64 = 1_800_000_000_000;

/// A server's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimClock {
    began: Instant,
    offset_ms: i64,
    drift_ppm: i64,
}

impl SimClock {
    /// A clock that began at `began`, ahead by `offset_ms` milliseconds and fast by `drift_ppm`
    /// millionths.
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
