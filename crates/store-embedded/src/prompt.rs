//! Whether single rows are at hand: in the engine's cache or the operating system's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A read of a row that takes as long as that had to wait for the disk.
const SLOW: Duration = Duration::from_millis(1);

/// For how long it is then taken for granted that others have to wait as well.
const SLOW_FOR: Duration = Duration::from_secs(1);

/// Times the reads that are made where the caller is, and advises against them while the disk has to be waited for: so a thread that has
/// others to serve is held up once a second at most.
pub(crate) struct Promptness {
    begun: Instant,
    /// In microseconds since `begun`.
    slow_until: AtomicU64,
}

impl Promptness {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), slow_until: AtomicU64::new(0) }
    }

    /// Whether rows were at hand lately.
    pub(crate) fn is_prompt(&self) -> bool {
        self.is_prompt_after(self.begun.elapsed())
    }

    /// Reads, and learns from how long that took.
    pub(crate) fn timed<T>(&self, read: impl FnOnce() -> T) -> T {
        let from = self.begun.elapsed();
        let read = read();
        self.learn(from, self.begun.elapsed());
        read
    }

    fn is_prompt_after(&self, now: Duration) -> bool {
        micros(now) >= self.slow_until.load(Ordering::Relaxed)
    }

    fn learn(&self, from: Duration, to: Duration) {
        if to.saturating_sub(from) >= SLOW {
            self.slow_until.store(micros(to + SLOW_FOR), Ordering::Relaxed);
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_read_is_advice_against_others_for_a_second() {
        let prompt = Promptness::new();
        let at = Duration::from_millis;
        prompt.learn(at(10), at(10) + Duration::from_micros(900));
        assert!(prompt.is_prompt_after(at(11)));
        prompt.learn(at(20), at(25));
        assert!(!prompt.is_prompt_after(at(25)));
        assert!(!prompt.is_prompt_after(at(1_024)));
        assert!(prompt.is_prompt_after(at(1_025)));
    }
}
