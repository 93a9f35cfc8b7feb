//! A summary as k6 writes it with `--summary-export`, so that scripts that read one read the other.
//! Durations are response times: they begin when a request was due, and not when it was sent.

use serde_json::{Map, Value, json};

use crate::results::{Summary, Times};

/// The summary of a run.
pub fn summary(summary: &Summary) -> Value {
    let all = &summary.all;
    let per_second = |count: u64| count as f64 / summary.duration_s;
    let counter = |count: u64| json!({ "count": count, "rate": per_second(count) });
    let failed = all.due - all.done;
    let mut metrics = Map::new();
    metrics.insert("http_reqs".to_owned(), counter(all.sent));
    metrics.insert("http_req_duration".to_owned(), trend(&all.response));
    metrics.insert("http_req_waiting".to_owned(), trend(&all.first_byte));
    // As k6 counts them: `passes` is how often it was true that a request failed.
    let share = if all.due == 0 { 0.0 } else { failed as f64 / all.due as f64 };
    metrics.insert("http_req_failed".to_owned(), json!({ "passes": failed, "fails": all.done, "value": share }));
    metrics.insert("dropped_iterations".to_owned(), counter(all.dropped));
    metrics.insert("data_sent".to_owned(), counter(all.sent_bytes));
    metrics.insert("data_received".to_owned(), counter(all.received_bytes));
    for step in &summary.steps {
        let name = format!("http_req_duration{{name:{}/{}}}", step.scenario, step.step);
        metrics.insert(name, trend(&step.tally.response));
    }
    json!({ "metrics": metrics, "root_group": { "name": "", "path": "", "groups": {}, "checks": {} } })
}

fn trend(times: &Times) -> Value {
    json!({
        "avg": times.mean_ms,
        "min": times.min_ms,
        "med": times.p50_ms,
        "p(90)": times.p90_ms,
        "p(95)": times.p95_ms,
        "p(99)": times.p99_ms,
        "p(99.9)": times.p999_ms,
        "max": times.max_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Tally;

    #[test]
    fn failed_requests_are_all_that_were_due_and_not_done() {
        let all = Tally { due: 10, sent: 9, done: 6, refused: 1, failed: 2, dropped: 1, ..Tally::default() };
        let written = summary(&Summary { duration_s: 2.0, all, ..Summary::default() });
        let metrics = &written["metrics"];
        assert_eq!(metrics["http_reqs"], json!({ "count": 9, "rate": 4.5 }));
        assert_eq!(metrics["http_req_failed"], json!({ "passes": 4, "fails": 6, "value": 0.4 }));
        assert_eq!(metrics["dropped_iterations"]["count"], 1);
    }
}
