//! Waits for an instant to the microsecond. The timers of tokio count milliseconds, which is too
//! coarse for a generator that is not to be late.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::unix::AsyncFd;

/// An alarm, for one task at a time.
pub struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// Makes an alarm.
    #[allow(unsafe_code)]
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: `AsyncFd` asks for a descriptor that stays open and the same as long as it has it. An
        // `OwnedFd` closes its descriptor when it is dropped and never changes it, and it is moved in
        // here, so that nobody else can drop it.
        let timer = unsafe { AsyncFd::register(timer) };
        Ok(Self(timer.map_err(io::Error::from)?))
    }

    /// Returns at an instant, or at once if it is over.
    pub async fn wait_until(&self, at: Instant) -> io::Result<()> {
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let time = |time: Duration| Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: time.subsec_nanos().into(),
            };
            let timer = Itimerspec { it_interval: time(Duration::ZERO), it_value: time(left) };
            rustix::time::timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &timer)?;
            // Setting it again has made it unreadable, whatever was there before.
            self.0.readable().await?.clear_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn an_alarm_is_never_early_and_can_be_used_again() {
        let alarm = Alarm::new().unwrap();
        let begun = Instant::now();
        for micros in [500, 0, 1_500, 1_200] {
            let at = begun + Duration::from_micros(micros);
            alarm.wait_until(at).await.unwrap();
            assert!(Instant::now() >= at);
        }
    }
}
