//! Charts of requests and users over time.

use super::panel::{Chart, Line, Panel, Series, Thinning};
use crate::page::number::Unit;
use crate::results::Second;

/// From this ratio on of the highest response time to the lowest median, the axis is logarithmic.
const LOG_SPREAD: f64 = 50.0;

/// The charts of a run's seconds, which are in ascending order.
pub(super) fn panel(seconds: &[Second]) -> Panel {
    if seconds.is_empty() {
        return Panel::default();
    }
    let mut charts = vec![requests(seconds), response_times(seconds)];
    // Without an objective of a late share nothing is too late.
    if seconds.iter().any(|second| second.too_late > 0) {
        charts.push(late(seconds));
    }
    charts.extend([users(seconds), received(seconds)]);
    Panel { at_s: seconds.iter().map(|second| second.at_s as f64).collect(), charts }
}

/// Spans of seconds with a request that failed, was refused or timed out, as start and end. Spans
/// that are at most `gap_s` apart are one: a chart cannot show the gap. The seconds are in ascending
/// order.
pub(super) fn spans_with_errors(seconds: &[Second], gap_s: i64) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> = Vec::new();
    for second in seconds.iter().filter(|second| second.failed + second.refused + second.timed_out > 0) {
        match spans.last_mut() {
            Some((_, end)) if second.at_s - *end <= gap_s => *end = second.at_s + 1,
            _ => spans.push((second.at_s, second.at_s + 1)),
        }
    }
    spans
}

fn requests(seconds: &[Second]) -> Chart {
    let line = |label: &str, colour, dash, width, thinning, value: fn(&Second) -> u64| Series {
        label: label.to_owned(),
        line: Line { colour, dash, width },
        thinning,
        values: seconds.iter().map(|second| Some(value(second) as f64)).collect(),
    };
    let good = |label, colour, width, value| line(label, colour, &[], width, Thinning::Mean, value);
    let bad = |label, colour, dash, value| line(label, colour, dash, 1.5, Thinning::Highest, value);
    let series = vec![
        good("due", "wide", 4.0, |second| second.due),
        good("sent", "s1", 1.5, |second| second.sent),
        good("done", "s2", 1.5, |second| second.done),
        bad("errors", "bad1", &[7, 3], |second| second.failed),
        bad("refused", "bad2", &[3, 3], |second| second.refused),
        bad("time-outs", "bad3", &[7, 3, 2, 3], |second| second.timed_out),
    ];
    large("Requests per second", Unit::PerSecond, series)
}

fn response_times(seconds: &[Second]) -> Chart {
    let line = |label: &str, colour, thinning, value: fn(&Second) -> f64| Series {
        label: label.to_owned(),
        line: Line { colour, dash: &[], width: 1.5 },
        thinning,
        values: seconds.iter().map(|second| (second.done > 0).then(|| value(second)).filter(known)).collect(),
    };
    let series = vec![
        line("highest", "t4", Thinning::Highest, |second| second.max_ms),
        line("p99", "t3", Thinning::Highest, |second| second.p99_ms),
        line("p90", "t2", Thinning::Mean, |second| second.p90_ms),
        line("p50", "t1", Thinning::Mean, |second| second.p50_ms),
    ];
    let positive = || series.iter().flat_map(|series| series.values.iter().flatten().copied()).filter(|ms| *ms > 0.0);
    let highest = positive().fold(0.0, f64::max);
    let is_log = positive().fold(f64::INFINITY, f64::min) * LOG_SPREAD < highest;
    Chart { is_log, ..large("Response time", Unit::Milliseconds, series) }
}

fn late(seconds: &[Second]) -> Chart {
    let values = seconds.iter().map(Second::late_share).collect();
    let series = vec![Series { label: "late".to_owned(), line: Line::nth(0), thinning: Thinning::Highest, values }];
    Chart { is_large: false, ..large("Late share", Unit::Share, series) }
}

fn users(seconds: &[Second]) -> Chart {
    single("Active users", Unit::Plain, seconds, |second| second.users)
}

fn received(seconds: &[Second]) -> Chart {
    single("Bodies received", Unit::BytesPerSecond, seconds, |second| second.received_bytes)
}

fn single(title: &str, unit: Unit, seconds: &[Second], value: fn(&Second) -> u64) -> Chart {
    let values = seconds.iter().map(|second| Some(value(second) as f64)).collect();
    let label = title.to_lowercase();
    let series = vec![Series { label, line: Line::nth(0), thinning: Thinning::Mean, values }];
    Chart { is_large: false, ..large(title, unit, series) }
}

fn large(title: &str, unit: Unit, series: Vec<Series>) -> Chart {
    let (id, title) = (String::new(), title.to_owned());
    Chart { id, title, unit, is_log: false, is_large: true, top: None, series }
}

fn known(value: &f64) -> bool {
    value.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_s: i64, p50_ms: f64, max_ms: f64) -> Second {
        Second {
            at_s,
            due: 10,
            sent: 10,
            done: 10,
            p50_ms,
            p90_ms: p50_ms,
            p99_ms: max_ms,
            max_ms,
            ..Second::default()
        }
    }

    #[test]
    fn a_large_spread_of_times_makes_the_axis_logarithmic() {
        assert!(!panel(&[second(0, 2.0, 20.0)]).charts[1].is_log);
        assert!(panel(&[second(0, 2.0, 20.0), second(1, 2.0, 2_000.0)]).charts[1].is_log);
    }

    #[test]
    fn a_second_in_which_nothing_was_done_has_no_response_time() {
        let panel = panel(&[Second { done: 0, ..second(0, 0.0, 0.0) }]);
        assert!(panel.charts[1].series.iter().all(|series| series.values == [None]));
    }

    #[test]
    fn neighbouring_seconds_with_errors_are_one_span() {
        let failed = |at_s| Second { failed: 1, ..second(at_s, 1.0, 1.0) };
        let refused = Second { refused: 1, ..second(5, 1.0, 1.0) };
        let seconds = [failed(1), failed(2), second(3, 1.0, 1.0), refused];
        assert_eq!(spans_with_errors(&seconds, 0), [(1, 3), (5, 6)]);
        assert_eq!(spans_with_errors(&seconds, 2), [(1, 6)]);
    }
}
