//! Write times of plain rows: microseconds since the Unix epoch that never run back and never
//! repeat.
//!
//! Of two writes of a cell, Cassandra keeps the one with the later write time. Without a time from
//! Penates the coordinating node would choose it, and the clocks of two nodes could order two puts
//! of one process.
//!
//! An engine has two sources. That of usual lists, and of contents, follows each row and chunk that
//! it removes ([`WriteTimes::observe`]), so that a put of the same key counts. A row whose writer had
//! a wrong clock moves it far ahead. That does no harm there, because no two servers compete for a
//! usual row by its write time. In lists that count by the clock they do, and writes of a server
//! that is ahead would hide those of all others. Their source follows other clocks by a second at
//! most ([`WriteTimes::observe_near`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use store::Clock;

/// Write times of other processes that are further ahead of the clock are not followed.
const AHEAD_MAX: i64 = 1_000_000;

/// A source of write times.
pub(crate) struct WriteTimes {
    clock: Arc<dyn Clock>,
    last: AtomicI64,
}

impl WriteTimes {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: AtomicI64::new(0) }
    }

    /// A write time later than all earlier ones, even if the clock was set back.
    pub(crate) fn next(&self) -> i64 {
        let now = self.now();
        let next = |last: i64| Some(now.max(last.saturating_add(1)));
        self.last
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next)
            .map_or(now, |last| now.max(last.saturating_add(1)))
    }

    fn now(&self) -> i64 {
        i64::try_from(self.clock.now_micros()).unwrap_or(i64::MAX)
    }

    /// As [`WriteTimes::observe`], unless `seen` is far ahead of the clock. Then another process
    /// has a wrong clock, which must not become that of this one.
    pub(crate) fn observe_near(&self, seen: i64) {
        if seen.saturating_sub(self.now()) <= AHEAD_MAX {
            self.observe(seen);
        }
    }

    /// Makes all further write times later than `seen`, another process's write time, however far
    /// ahead that is.
    pub(crate) fn observe(&self, seen: i64) {
        self.last.fetch_max(seen, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use store::{ManualClock, UnixMillis};

    use super::*;

    #[test]
    fn write_times_grow_while_the_clock_stops_or_runs_back() {
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000)));
        let times = WriteTimes::new(clock.clone());
        assert_eq!(times.next(), 1_000_000);
        assert_eq!(times.next(), 1_000_001);
        clock.set(UnixMillis(10));
        assert_eq!(times.next(), 1_000_002);
        clock.set(UnixMillis(1_000));
        clock.advance(Duration::from_millis(1));
        assert_eq!(times.next(), 1_001_000);
    }

    #[test]
    fn a_write_after_a_seen_write_is_later_than_it() {
        let times = WriteTimes::new(Arc::new(ManualClock::new(UnixMillis(1))));
        times.observe(5_000_000);
        assert_eq!(times.next(), 5_000_001);
        times.observe(1);
        assert_eq!(times.next(), 5_000_002);
    }

    #[test]
    fn a_clock_that_is_far_ahead_is_not_followed() {
        let times = WriteTimes::new(Arc::new(ManualClock::new(UnixMillis(1_000))));
        times.observe_near(1_500_000);
        assert_eq!(times.next(), 1_500_001);
        times.observe_near(2_500_000);
        assert_eq!(times.next(), 1_500_002);
    }
}
