//! One direction of a longer link, computed from instants that are passed in: a token bucket for
//! its rate, then a delay line.

use std::time::{Duration, Instant};

/// The smallest capacity of a token bucket: one piece of the proxy.
const BURST_BYTES_MIN: f64 = 64.0 * 1024.0;

/// A token bucket never holds more than this time's flow. Timers have a resolution of a
/// millisecond; without such a reserve late wake-ups would reduce the rate.
const BURST_TIME: Duration = Duration::from_millis(4);

/// One direction of a link. It loses and reorders nothing.
#[derive(Clone, Debug)]
pub struct Line {
    /// `None`: unlimited.
    bytes_per_s: Option<f64>,
    delay: Duration,
    /// When the tokens of all sent bytes have flowed in.
    paid_at: Option<Instant>,
}

/// The passage of a piece over a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When its last byte is on the line, so that the next piece may follow.
    pub sent_at: Instant,
    /// When its last byte arrives at the other end.
    pub arrives_at: Instant,
}

impl Line {
    /// A line with a rate in bytes per second (`None`: unlimited) and a delay.
    pub fn new(bytes_per_s: Option<u64>, delay: Duration) -> Self {
        Self { bytes_per_s: bytes_per_s.map(|rate| rate.max(1) as f64), delay, paid_at: None }
    }

    /// Bytes that may be under way without slowing the line: its contents, and a burst on top.
    pub fn window_bytes(&self) -> usize {
        // An unlimited line is as fast as memory here: 4 GB/s.
        let rate = self.bytes_per_s.unwrap_or(4e9);
        (rate * self.delay.as_secs_f64() + burst_bytes(rate)) as usize
    }

    /// Sends a piece that is ready at `now`.
    pub fn send(&mut self, now: Instant, bytes: usize) -> Passage {
        let sent_at = match self.bytes_per_s {
            None => now,
            Some(rate) => {
                // A bucket that was idle is full: at most one burst leaves at once.
                let full = now.checked_sub(Duration::from_secs_f64(burst_bytes(rate) / rate)).unwrap_or(now);
                let from = self.paid_at.map_or(full, |paid_at| paid_at.max(full));
                let paid_at = from + Duration::from_secs_f64(bytes as f64 / rate);
                self.paid_at = Some(paid_at);
                paid_at.max(now)
            }
        };
        Passage { sent_at, arrives_at: sent_at + self.delay }
    }
}

fn burst_bytes(rate: f64) -> f64 {
    (rate * BURST_TIME.as_secs_f64()).max(BURST_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// 100 MB/s: a burst is 400 kB, that is 4 ms.
    fn line(delay: Duration) -> Line {
        Line::new(Some(100_000_000), delay)
    }

    #[test]
    fn a_full_bucket_sends_a_burst_at_once_and_the_rest_at_the_rate() {
        let (mut line, now) = (line(Duration::ZERO), Instant::now());
        assert_eq!(line.send(now, 400_000).sent_at, now, "the bucket is full");
        assert_eq!(line.send(now, 100_000).sent_at, now + MILLI, "then 100 kB take a millisecond");
        assert_eq!(line.send(now + MILLI, 300_000).sent_at, now + 4 * MILLI);
    }

    #[test]
    fn a_late_wake_up_is_made_up_for_and_a_long_pause_is_not() {
        let (mut line, now) = (line(Duration::ZERO), Instant::now());
        line.send(now, 400_000);
        // 2 ms later there are 200 kB in the bucket again.
        assert_eq!(line.send(now + 2 * MILLI, 200_000).sent_at, now + 2 * MILLI);
        // A second later it is full, and no fuller.
        let later = now + Duration::from_secs(1);
        assert_eq!(line.send(later, 500_000).sent_at, later + MILLI);
    }

    #[test]
    fn the_delay_is_added_to_each_piece_and_does_not_slow_the_next_one() {
        let (mut line, now) = (line(20 * MILLI), Instant::now());
        let first = line.send(now, 500_000);
        let second = line.send(first.sent_at, 100_000);
        assert_eq!((first.sent_at, first.arrives_at), (now + MILLI, now + 21 * MILLI));
        assert_eq!((second.sent_at, second.arrives_at), (now + 2 * MILLI, now + 22 * MILLI));
    }

    #[test]
    fn an_unlimited_line_only_delays() {
        let (mut line, now) = (Line::new(None, 5 * MILLI), Instant::now());
        assert_eq!(line.send(now, usize::MAX), Passage { sent_at: now, arrives_at: now + 5 * MILLI });
    }

    #[test]
    fn the_window_of_a_line_is_its_contents_and_a_burst() {
        assert_eq!(line(20 * MILLI).window_bytes(), 2_000_000 + 400_000);
    }

    proptest! {
        #[test]
        fn no_period_exceeds_its_rate_and_one_burst(
            pieces in proptest::collection::vec((0u64..5_000, 1usize..200_000), 1..60)
        ) {
            let (mut line, begin) = (line(Duration::ZERO), Instant::now());
            let mut now = begin;
            let mut sent = Vec::new();
            for (pause_us, bytes) in pieces {
                now += Duration::from_micros(pause_us);
                let passage = line.send(now, bytes);
                // The proxy reads the next piece when this one is on the line.
                now = passage.sent_at;
                sent.push((passage.sent_at, bytes));
            }
            for (first, (from, _)) in sent.iter().enumerate() {
                for last in first..sent.len() {
                    let bytes: usize = sent[first..=last].iter().map(|(_, bytes)| bytes).sum();
                    // The first piece may have been on its way already when the period began;
                    // instants are rounded.
                    let allowed = 400_000.0 + sent[first].1 as f64 + 1e8 * (sent[last].0 - *from).as_secs_f64() + 10.0;
                    prop_assert!(bytes as f64 <= allowed, "{bytes} bytes where {allowed} are allowed");
                }
            }
        }
    }
}
