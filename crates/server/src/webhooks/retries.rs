//! When a message that was not accepted is sent again.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// The pauses after each failure: the schedule that Standard Webhooks gives as an example
/// ("Deliverability and reliability"). It takes a little more than three days.
pub(crate) const SCHEDULE: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * MINUTE),
    Duration::from_secs(30 * MINUTE),
    Duration::from_secs(2 * HOUR),
    Duration::from_secs(5 * HOUR),
    Duration::from_secs(10 * HOUR),
    Duration::from_secs(14 * HOUR),
    Duration::from_secs(20 * HOUR),
    Duration::from_secs(24 * HOUR),
];

/// The longest pause that a receiver may ask for.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * HOUR);

/// A pause is longer by at most this part of it, drawn by chance, so that receivers that failed
/// together are not asked again together.
const JITTER: f64 = 0.1;

/// The pause after the `tries`th failure (from 1); `None` if it was the last try. `asked` is what
/// the receiver asks for (`Retry-After`); `chance` is from 0 to 1.
pub(crate) fn pause(schedule: &[Duration], tries: u32, asked: Option<Duration>, chance: f64) -> Option<Duration> {
    let pause = schedule.get(usize::try_from(tries).ok()?.checked_sub(1)?)?;
    let pause = pause.mul_f64(1.0 + JITTER * chance);
    Some(pause.max(asked.unwrap_or_default().min(RETRY_AFTER_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_for_three_days_and_then_there_is_no_further_try() {
        let pauses: Vec<_> = (1..=9).map_while(|tries| pause(&SCHEDULE, tries, None, 0.0)).collect();
        assert_eq!(pauses, SCHEDULE);
        assert_eq!(pause(&SCHEDULE, 10, None, 0.0), None);
        assert_eq!(SCHEDULE.iter().sum::<Duration>().as_secs() / HOUR, 75);
        assert_eq!(pause(&SCHEDULE, 3, None, 1.0), Some(Duration::from_secs(33 * MINUTE)));
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_pause_of_at_most_a_day() {
        let asked = |seconds: u64| pause(&SCHEDULE, 1, Some(Duration::from_secs(seconds)), 0.0);
        assert_eq!(asked(1), Some(SCHEDULE[0]));
        assert_eq!(asked(60), Some(Duration::from_secs(60)));
        assert_eq!(asked(u64::MAX), Some(RETRY_AFTER_MAX));
        assert_eq!(pause(&SCHEDULE, 10, Some(SCHEDULE[0]), 0.0), None, "asking adds no try");
    }
}
