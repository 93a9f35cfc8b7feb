//! The instants of the samples.

use std::time::Duration;

use tokio::time::Instant;

use super::MonitorError;

/// Samples are due at the start instant and after each whole interval.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    interval: Duration,
    /// Intervals from the start to the next sample.
    next: u32,
}

impl Clock {
    /// A clock.
    ///
    /// # Errors
    /// If the interval is zero.
    pub fn new(start: Instant, interval: Duration) -> Result<Self, MonitorError> {
        if interval.is_zero() {
            return Err(MonitorError::Interval);
        }
        Ok(Self { start, interval, next: 0 })
    }

    /// From sample to sample.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// When values begin: one interval before the start.
    pub fn baseline(&self) -> Instant {
        self.start.checked_sub(self.interval).unwrap_or(self.start)
    }

    /// Chooses the first sample after values began `now`. It is at least half an interval away:
    /// rates over less are mostly noise.
    pub fn begin(&mut self, now: Instant) {
        self.next = (self.intervals_at(now) + 0.5).ceil() as u32;
    }

    /// When the next sample is due.
    pub fn due(&self) -> Instant {
        self.start + self.interval * self.next
    }

    /// Chooses the sample after the next one; those that are past `now` are left out.
    pub fn advance(&mut self, now: Instant) {
        let past = self.intervals_at(now).floor() as u32;
        self.next = past.max(self.next) + 1;
    }

    /// Seconds from the start to an instant.
    pub fn seconds_at(&self, instant: Instant) -> f64 {
        instant.saturating_duration_since(self.start).as_secs_f64()
            - self.start.saturating_duration_since(instant).as_secs_f64()
    }

    /// Intervals from the start to an instant.
    fn intervals_at(&self, instant: Instant) -> f64 {
        self.seconds_at(instant) / self.interval.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A clock that starts ten seconds after an instant and ticks each second.
    fn clock() -> (Clock, Instant) {
        let zero = Instant::now();
        (Clock::new(zero + 10_000 * MS, 1000 * MS).unwrap(), zero)
    }

    /// When the first sample is due, if values begin at some millisecond.
    fn first_ms(begin_ms: u32) -> u128 {
        let (mut clock, zero) = clock();
        clock.begin(zero + begin_ms * MS);
        clock.due().duration_since(zero).as_millis()
    }

    #[test]
    fn the_first_sample_is_at_the_start_or_at_least_half_an_interval_away() {
        assert_eq!(first_ms(9000), 10_000);
        assert_eq!(first_ms(9001), 10_000);
        assert_eq!(first_ms(9499), 10_000);
        assert_eq!(first_ms(9600), 11_000);
        assert_eq!(first_ms(10_001), 11_000);
        assert_eq!(first_ms(13_700), 15_000);
    }

    #[test]
    fn samples_that_are_past_are_left_out() {
        let (mut clock, zero) = clock();
        clock.begin(zero + 10_000 * MS);
        clock.advance(zero + 11_020 * MS);
        assert_eq!(clock.due(), zero + 12_000 * MS);
        clock.advance(zero + 14_700 * MS);
        assert_eq!(clock.due(), zero + 15_000 * MS);
    }

    #[test]
    fn values_begin_one_interval_before_the_start() {
        let (clock, zero) = clock();
        assert_eq!(clock.baseline(), zero + 9000 * MS);
        assert!((clock.seconds_at(zero) + 10.0).abs() < 1e-9);
        assert!((clock.seconds_at(zero + 10_250 * MS) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn an_interval_of_zero_is_an_error() {
        assert!(matches!(Clock::new(Instant::now(), Duration::ZERO), Err(MonitorError::Interval)));
    }
}
