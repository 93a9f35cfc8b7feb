//! When a message that was not accepted is sent again.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// The longest pause that a receiver may ask for.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * HOUR);

/// A pause is longer by at most this part of it, drawn by chance, so that receivers that failed
/// together are not asked again together.
const JITTER: f64 = 0.1;

/// The pauses after the failures of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// The pause after each failure.
    pub(crate) pauses: Vec<Duration>,
    /// Whether the last pause comes again and again; otherwise there is no further try after it.
    pub(crate) is_endless: bool,
}

impl Schedule {
    /// The schedule that Standard Webhooks gives as an example ("Deliverability and reliability").
    /// It takes a little more than three days.
    pub(crate) fn of_standard_webhooks() -> Self {
        let pauses = [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
        Self { pauses: pauses.map(Duration::from_secs).to_vec(), is_endless: false }
    }

    /// That of brokers: they come back, and nobody is to resume each bridge by hand.
    pub(crate) fn of_brokers() -> Self {
        Self { pauses: [1, 2, 5, 10, 20, 30].map(Duration::from_secs).to_vec(), is_endless: true }
    }

    /// The pause after the `tries`th failure (from 1); `None` if it was the last try. `asked` is what
    /// the receiver asks for (`Retry-After`); `chance` is from 0 to 1.
    pub(crate) fn pause(&self, tries: u32, asked: Option<Duration>, chance: f64) -> Option<Duration> {
        let index = usize::try_from(tries).ok()?.checked_sub(1)?;
        let last = self.pauses.last().filter(|_| self.is_endless);
        let pause = self.pauses.get(index).or(last)?;
        let pause = pause.mul_f64(1.0 + JITTER * chance);
        Some(pause.max(asked.unwrap_or_default().min(RETRY_AFTER_MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_for_three_days_and_then_there_is_no_further_try() {
        let schedule = Schedule::of_standard_webhooks();
        let pauses: Vec<_> = (1..=9).map_while(|tries| schedule.pause(tries, None, 0.0)).collect();
        assert_eq!(pauses, schedule.pauses);
        assert_eq!(schedule.pause(10, None, 0.0), None);
        assert_eq!(schedule.pauses.iter().sum::<Duration>().as_secs() / HOUR, 75);
        assert_eq!(schedule.pause(3, None, 1.0), Some(Duration::from_secs(33 * MINUTE)));
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_pause_of_at_most_a_day() {
        let schedule = Schedule::of_standard_webhooks();
        let asked = |seconds: u64| schedule.pause(1, Some(Duration::from_secs(seconds)), 0.0);
        assert_eq!(asked(1), Some(Duration::from_secs(5)));
        assert_eq!(asked(60), Some(Duration::from_secs(60)));
        assert_eq!(asked(u64::MAX), Some(RETRY_AFTER_MAX));
        assert_eq!(schedule.pause(10, Some(Duration::from_secs(5)), 0.0), None, "asking adds no try");
    }

    #[test]
    fn a_broker_is_asked_again_without_an_end() {
        let schedule = Schedule::of_brokers();
        let pause = |tries: u32| schedule.pause(tries, None, 0.0);
        assert_eq!(
            [pause(1), pause(6), pause(7), pause(u32::MAX)],
            [1, 30, 30, 30].map(|seconds| Some(Duration::from_secs(seconds)))
        );
    }
}
