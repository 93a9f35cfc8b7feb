//! A pace: how fast background work may read.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How much a pace that rested may catch up: so much time's worth of bytes at once.
const REST_MAX: Duration = Duration::from_secs(1);

/// Bytes per second that background work may take. Work reports what it has read, and waits until
/// that was due. So it never stops in the middle of a read, and reads the rate on average.
#[derive(Debug)]
pub struct Pace {
    bytes_per_second: u64,
    /// When everything that was reported so far is due.
    due: Mutex<Option<Instant>>,
}

impl Pace {
    /// No limit.
    pub fn unlimited() -> &'static Self {
        static UNLIMITED: Pace = Pace::new(0);
        &UNLIMITED
    }

    /// At most so many bytes per second; 0: no limit.
    pub const fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, due: Mutex::new(None) }
    }

    /// Whether there is a limit.
    pub const fn is_limited(&self) -> bool {
        self.bytes_per_second > 0
    }

    /// Reports bytes that were read, and waits until they were due.
    pub async fn took(&self, bytes: u64) {
        if !self.is_limited() {
            return;
        }
        let lasts = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let until = {
            let now = Instant::now();
            let mut due = self.due.lock();
            let from = due.map_or(now, |due| due.max(now.checked_sub(REST_MAX).unwrap_or(now)));
            *due.insert(from + lasts)
        };
        tokio::time::sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_at_a_pace_takes_as_long_as_its_bytes() {
        let (pace, begun) = (Pace::new(1_000), Instant::now());
        for _ in 0..10 {
            pace.took(500).await;
        }
        let elapsed = begun.elapsed();
        assert!(elapsed >= Duration::from_secs(5) && elapsed < Duration::from_secs(6), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_rest_does_not_allow_a_burst() {
        let pace = Pace::new(1_000);
        pace.took(1).await;
        tokio::time::advance(Duration::from_secs(3_600)).await;
        let begun = Instant::now();
        pace.took(10_000).await;
        assert!(begun.elapsed() >= Duration::from_secs(9), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_waits() {
        let begun = Instant::now();
        Pace::unlimited().took(u64::MAX).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
