//! How long the thread of the load did nothing: what then happened late is no fault of the candidate.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::alarm::Alarm;

/// From look to look.
const INTERVAL: Duration = Duration::from_millis(20);

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
