//! Calls of a store in an open loop: each is due at a fixed time and has a deadline, and its
//! latency counts from the time when it was due.

use std::future::Future;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use testbed::arrivals::Shape;
use testbed::results::Times;
use testbed::tally;
use tokio::runtime::Runtime;

/// The result of one call.
struct Seen {
    latency: Duration,
    is_answered: bool,
}

/// The results.
pub struct Calls {
    /// Calls.
    pub count: u64,
    /// Calls that failed or returned without an answer.
    pub unanswered: u64,
    /// The time of each from when it was due, in microseconds. Without an answer it is at least the
    /// time until the deadline.
    pub latencies_us: Histogram<u64>,
    /// The longest that a call returned after its deadline.
    pub overdue_max: Duration,
    /// The longest delay of a thread that only sleeps until calls are due: nothing can be more
    /// punctual than that.
    pub woken_late_max: Duration,
}

impl Calls {
    /// The times in milliseconds.
    pub fn times(&self) -> Times {
        tally::times(&self.latencies_us)
    }
}

/// Makes a number of calls per second for a while. `call` makes the call of a given number, which
/// should end by the given deadline, and returns whether it was answered.
pub fn run<F: Future<Output = bool> + Send + 'static>(
    runtime: &Runtime,
    rate: f64,
    duration: Duration,
    deadline_after: Duration,
    call: impl Fn(u64, Instant) -> F,
) -> Result<Calls> {
    let (report, told) = mpsc::channel();
    let (begun, mut woken_late_max) = (Instant::now(), Duration::ZERO);
    // A thread of its own keeps the time, because it sleeps by microseconds and a task by
    // milliseconds.
    for (number, after) in (0..).zip(Shape::Constant { rate, duration }.arrivals(0, 1, 0)) {
        let due = begun + after;
        let early = due.saturating_duration_since(Instant::now());
        if !early.is_zero() {
            std::thread::sleep(early);
            woken_late_max = woken_late_max.max(due.elapsed());
        }
        let (calling, report) = (call(number, due + deadline_after), report.clone());
        runtime.spawn(async move {
            let is_answered = calling.await;
            // The receiver lives until the end.
            let _ = report.send(Seen { latency: due.elapsed(), is_answered });
        });
    }
    drop(report);
    let latencies_us = Histogram::new(3)?;
    let mut calls = Calls { count: 0, unanswered: 0, latencies_us, overdue_max: Duration::ZERO, woken_late_max };
    for Seen { latency, is_answered } in told {
        calls.count += 1;
        calls.unanswered += u64::from(!is_answered);
        calls.overdue_max = calls.overdue_max.max(latency.saturating_sub(deadline_after));
        let counted = if is_answered { latency } else { latency.max(deadline_after) };
        calls.latencies_us.record(counted.as_micros() as u64)?;
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn one_after(delay: Duration, is_answered: bool) -> Calls {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let call = move |_, _| async move {
            tokio::time::sleep(delay).await;
            is_answered
        };
        run(&runtime, 100.0, Duration::from_millis(10), Duration::from_millis(50), call).unwrap()
    }

    #[test]
    fn a_call_counts_from_its_due_time_and_is_overdue_after_its_deadline() {
        let calls = one_after(Duration::from_millis(80), true);
        assert_eq!((calls.count, calls.unanswered), (1, 0));
        assert!(calls.times().mean_ms >= 79.9, "{}", calls.times().mean_ms);
        assert!(calls.overdue_max >= Duration::from_millis(29), "{:?}", calls.overdue_max);
    }

    #[test]
    fn a_call_without_an_answer_counts_until_its_deadline() {
        let calls = one_after(Duration::ZERO, false);
        assert_eq!((calls.count, calls.unanswered), (1, 1));
        assert!(calls.times().mean_ms >= 49.9, "{}", calls.times().mean_ms);
    }
}
