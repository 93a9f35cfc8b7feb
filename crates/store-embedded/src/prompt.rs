//! Whether rows are at hand: in the engine's cache or the operating system's.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A read of a few rows that takes as long as that had to wait: for the disk, or now and then for a processor.
const SLOW: Duration = Duration::from_millis(1);

/// A read of many may take so much longer for each KiB: three times what it takes from the operating system's cache.
const SLOW_PER_KIB: Duration = Duration::from_micros(2);

/// For how long it is taken for granted, once enough of them are slow, that others have to wait as well.
const SLOW_FOR: Duration = Duration::from_secs(1);

/// What a slow read weighs against prompt ones: from one in sixteen on they are too many.
const WEIGHT: i64 = 16;

/// The balance from which on there are too many.
const TOO_MANY: i64 = 3 * WEIGHT;

/// Times the reads that are made where the caller is, and advises against them while the disk has to be waited for: so threads that have
/// others to serve are held up by a few reads, and then by one each second.
pub(crate) struct Promptness {
    begun: Instant,
    /// Slow reads, each by its weight, less prompt ones.
    balance: AtomicI64,
    /// In microseconds since `begun`.
    slow_until: AtomicU64,
}

impl Promptness {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), balance: AtomicI64::new(0), slow_until: AtomicU64::new(0) }
    }

    /// Whether rows were at hand lately.
    pub(crate) fn is_prompt(&self) -> bool {
        self.is_prompt_after(self.begun.elapsed())
    }

    /// Reads a few rows, and learns from how long that took.
    pub(crate) fn timed<T>(&self, read: impl FnOnce() -> T) -> T {
        self.timed_of(0, read)
    }

    /// Reads at most so many bytes, and learns from how long that took.
    pub(crate) fn timed_of<T>(&self, bytes_max: usize, read: impl FnOnce() -> T) -> T {
        let from = self.begun.elapsed();
        let read = read();
        let kib = u32::try_from(bytes_max >> 10).unwrap_or(u32::MAX);
        self.learn(from, self.begun.elapsed().saturating_sub(SLOW_PER_KIB.saturating_mul(kib)));
        read
    }

    fn is_prompt_after(&self, now: Duration) -> bool {
        micros(now) >= self.slow_until.load(Ordering::Relaxed)
    }

    /// Counts that get lost among threads do not matter.
    fn learn(&self, from: Duration, to: Duration) {
        let balance = self.balance.load(Ordering::Relaxed);
        if to.saturating_sub(from) < SLOW {
            if balance > 0 {
                self.balance.store(balance - 1, Ordering::Relaxed);
            }
            return;
        }
        // The next slow read after this time is enough to say so again.
        self.balance.store((balance + WEIGHT).min(TOO_MANY), Ordering::Relaxed);
        if balance + WEIGHT >= TOO_MANY {
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

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn many_slow_reads_are_advice_against_others_for_a_second() {
        let prompt = Promptness::new();
        for n in 0..3 {
            assert!(prompt.is_prompt_after(at(10 * n)), "{n} slow reads are not many");
            prompt.learn(at(10 * n), at(10 * n + 5));
        }
        assert!(!prompt.is_prompt_after(at(25)));
        assert!(!prompt.is_prompt_after(at(1_024)));
        assert!(prompt.is_prompt_after(at(1_025)));
        prompt.learn(at(1_030), at(1_040));
        assert!(!prompt.is_prompt_after(at(1_040)), "it is still as it was");
    }

    #[test]
    fn a_slow_read_among_many_prompt_ones_is_none_of_the_disk_s() {
        let prompt = Promptness::new();
        for n in 0..1_000 {
            prompt.learn(at(n), at(n) + if n % 20 == 0 { at(3) } else { Duration::from_micros(900) });
            assert!(prompt.is_prompt_after(at(n)), "{n}");
        }
    }
}
