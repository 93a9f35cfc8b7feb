//! Whether rows are cached, by the engine or by the operating system.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A read of a few rows that takes this long had to wait, usually for the disk, sometimes for a
/// processor.
const SLOW: Duration = Duration::from_millis(1);

/// The additional time for each KiB of a larger read: three times what it takes from the operating
/// system's cache.
const SLOW_PER_KIB: Duration = Duration::from_micros(2);

/// How long further reads are assumed to be slow once enough were.
const SLOW_FOR: Duration = Duration::from_secs(1);

/// The weight of a slow read against prompt ones: one in sixteen is too many.
const WEIGHT: i64 = 16;

/// The balance above which reads are slow.
const TOO_MANY: i64 = 3 * WEIGHT;

/// Times reads on the caller's thread, and advises against them while they wait for the disk.
/// Threads that serve others are then delayed by a few reads only, and after that by one per
/// second.
pub(crate) struct Promptness {
    begun: Instant,
    /// Slow reads by weight, minus prompt ones.
    balance: AtomicI64,
    /// In microseconds since `begun`.
    slow_until: AtomicU64,
}

impl Promptness {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), balance: AtomicI64::new(0), slow_until: AtomicU64::new(0) }
    }

    /// Whether recent reads were prompt.
    pub(crate) fn is_prompt(&self) -> bool {
        self.is_prompt_after(self.begun.elapsed())
    }

    /// Reads a few rows, and learns from the time that takes.
    pub(crate) fn timed<T>(&self, read: impl FnOnce() -> T) -> T {
        self.timed_of(0, read)
    }

    /// Reads at most `bytes_max` bytes, and learns from the time that takes.
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

    /// A count lost between threads does not matter.
    fn learn(&self, from: Duration, to: Duration) {
        let balance = self.balance.load(Ordering::Relaxed);
        if to.saturating_sub(from) < SLOW {
            if balance > 0 {
                self.balance.store(balance - 1, Ordering::Relaxed);
            }
            return;
        }
        // After this time one more slow read is enough.
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
    fn many_slow_reads_advise_against_others_for_a_second() {
        let prompt = Promptness::new();
        for n in 0..3 {
            assert!(prompt.is_prompt_after(at(10 * n)), "{n} slow reads are not many");
            prompt.learn(at(10 * n), at(10 * n + 5));
        }
        assert!(!prompt.is_prompt_after(at(25)));
        assert!(!prompt.is_prompt_after(at(1_024)));
        assert!(prompt.is_prompt_after(at(1_025)));
        prompt.learn(at(1_030), at(1_040));
        assert!(!prompt.is_prompt_after(at(1_040)), "reads are still slow");
    }

    #[test]
    fn a_slow_read_among_many_prompt_ones_does_not_count_as_the_disk_s() {
        let prompt = Promptness::new();
        for n in 0..1_000 {
            prompt.learn(at(n), at(n) + if n % 20 == 0 { at(3) } else { Duration::from_micros(900) });
            assert!(prompt.is_prompt_after(at(n)), "{n}");
        }
    }
}
