//! How long the thread of the load did nothing, and how much of a processor it used: what was late because
//! of either is no fault of the candidate.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::alarm::Alarm;

/// From look to look.
const INTERVAL: Duration = Duration::from_millis(20);
/// A share of less than this time would say nothing: a single user makes a thread busy.
const SHARE_OF_MIN: Duration = Duration::from_secs(1);

/// Looks again and again how late it is itself.
#[derive(Clone, Debug, Default)]
pub struct StallMeter {
    longest: Rc<Cell<Duration>>,
}

impl StallMeter {
    /// Looks until it is dropped.
    pub async fn run(self) -> io::Result<()> {
        let alarm = Alarm::new()?;
        loop {
            let due = Instant::now() + INTERVAL;
            alarm.wait_until(due).await?;
            self.longest.set(self.longest.get().max(due.elapsed()));
        }
    }

    /// The longest time by which it was late.
    pub fn longest(&self) -> Duration {
        self.longest.get()
    }
}

/// Measures how much of a processor this thread uses while it makes a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadMeter {
    begin: Instant,
    used_before: Duration,
}

impl LoadMeter {
    /// A load that begins at an instant. Until then the thread does nothing.
    pub fn new(begin: Instant) -> Self {
        Self { begin, used_before: used_by_thread() }
    }

    /// The share of a processor, from the beginning of the load until now.
    pub fn share(&self) -> f64 {
        self.share_at(Instant::now(), used_by_thread())
    }

    fn share_at(&self, now: Instant, used: Duration) -> f64 {
        let length = now.saturating_duration_since(self.begin).max(SHARE_OF_MIN);
        used.saturating_sub(self.used_before).as_secs_f64() / length.as_secs_f64()
    }
}

/// Processor time of this thread so far.
fn used_by_thread() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_that_of_the_load_and_not_of_what_came_before_or_follows() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let meter = LoadMeter { begin, used_before: second * 3 };
        // The last user arrives after ten seconds; that it needs another minute changes nothing.
        assert_eq!(meter.share_at(begin + second * 10, second * 12), 0.9);
        // One user, at once.
        assert_eq!(meter.share_at(begin, second * 3 + second / 1_000), 0.001);
    }

    #[test]
    fn the_time_of_a_thread_is_not_that_of_its_process() {
        let meter = LoadMeter::new(Instant::now());
        let busy = || {
            let of_thread = LoadMeter::new(Instant::now());
            while of_thread.share() < 0.02 {
                std::hint::spin_loop();
            }
            used_by_thread()
        };
        let used = std::thread::spawn(busy).join().unwrap_or_default();
        assert!(used >= Duration::from_millis(20));
        assert!(used_by_thread() - meter.used_before < used, "it has only waited");
    }
}
