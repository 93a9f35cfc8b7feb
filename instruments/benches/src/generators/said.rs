//! What generators print about a load.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testbed::results::Verdict;

/// What a generator says about its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    /// Requests that ended, successful or not.
    pub count: f64,
    /// Those of them that failed.
    pub failed: f64,
    /// Requests that were successful, per second.
    pub per_s: f64,
    /// Processor seconds of the part that makes the load, if the generator measures itself.
    pub load_cpu_s: Option<f64>,
    /// How late it was (p99), in milliseconds, if it says so.
    pub lateness_p99_ms: Option<f64>,
    /// Its verdict, if it has one. That of a void run says that its figures mean nothing.
    pub verdict: Option<Verdict>,
}

impl Said {
    /// By all requests per second, and by how many of them failed.
    fn new(count: f64, failed: f64, all_per_s: f64) -> Self {
        let share = if count > 0.0 { (count - failed) / count } else { 0.0 };
        let per_s = all_per_s * share;
        Self { count, failed, per_s, load_cpu_s: None, lateness_p99_ms: None, verdict: None }
    }

    /// Microseconds of a time in seconds for each successful request. A generator that does not
    /// keep its rate drops requests, and a dropped one costs next to nothing.
    pub fn us_for_each_success(&self, time_s: f64) -> f64 {
        time_s * 1e6 / (self.count - self.failed)
    }
}

/// Reads what `penates testbed run --json` prints, and the record of the run.
pub fn by_penates(said: &str) -> Result<Said> {
    let said: Value = serde_json::from_str(said).context("it printed no summary")?;
    let all = &said["summary"]["all"];
    let number = |value: &Value| value.as_f64().context("a summary of another form");
    let folder = said["folder"].as_str().context("it names no run")?;
    let record = std::fs::read(Path::new(folder).join("data/record.json")).context("the record of the run")?;
    let record: Value = serde_json::from_slice(&record)?;
    let workers = record["workers"].as_array().context("a record without workers")?;
    let cpu_s = workers.iter().map(|worker| number(&worker["cpu_s"])).sum::<Result<f64>>()?;
    let [done, due] = [number(&all["done"])?, number(&all["due"])?];
    let per_s = number(&said["summary"]["done_per_s"])?;
    let lateness_p99_ms = Some(number(&all["lateness"]["p99_ms"])?);
    let verdict = serde_json::from_value(said["judgement"]["verdict"].clone()).context("a run without a verdict")?;
    let load_cpu_s = Some(cpu_s);
    Ok(Said { count: due, failed: due - done, per_s, load_cpu_s, lateness_p99_ms, verdict: Some(verdict) })
}

/// Reads what k6 exports (`--summary-export`). Requests that it never sent failed.
pub fn by_k6(summary: &Value) -> Result<Said> {
    let metrics = &summary["metrics"];
    let sent = &metrics["http_reqs"];
    let [count, per_s] = [&sent["count"], &sent["rate"]].map(Value::as_f64);
    let (count, per_s) = count.zip(per_s).context("a summary without http_reqs")?;
    let failed = metrics["http_req_failed"]["passes"].as_f64().unwrap_or(0.0);
    let dropped = metrics["dropped_iterations"]["count"].as_f64().unwrap_or(0.0);
    let said = Said::new(count, failed, per_s);
    Ok(Said { count: count + dropped, failed: failed + dropped, ..said })
}

/// Reads what wrk prints.
pub fn by_wrk(said: &str) -> Result<Said> {
    let lines = || said.lines().map(str::trim);
    let count =
        lines().find_map(|line| number(line.split_once(" requests in ")?.0)).context("no number of requests")?;
    let per_s = lines().find_map(|line| number(line.strip_prefix("Requests/sec:")?)).context("no rate")?;
    let refused = lines().find_map(|line| number(line.strip_prefix("Non-2xx or 3xx responses:")?)).unwrap_or(0.0);
    let errors = lines().find_map(|line| line.strip_prefix("Socket errors:")).unwrap_or_default();
    let broken: f64 = errors.split(',').filter_map(|error| number(error.trim().split_once(' ')?.1)).sum();
    // Requests that broke are not among those that it counts.
    let said = Said::new(count, refused, per_s);
    Ok(Said { count: count + broken, failed: refused + broken, ..said })
}

/// Reads what hey prints. It counts all requests in its rate, and lists at most a million with their status.
pub fn by_hey(said: &str) -> Result<Said> {
    let value = |name: &str| said.lines().find_map(|line| line.trim().strip_prefix(name)).map(str::trim);
    let per_s = value("Requests/sec:").and_then(number).context("no rate")?;
    let total_s = value("Total:").and_then(|total| number(total.strip_suffix("secs")?)).context("no duration")?;
    let (mut failed, mut is_success) = (0.0, false);
    let mut are_errors = false;
    for line in said.lines().map(str::trim) {
        are_errors |= line == "Error distribution:";
        let Some((status, rest)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) else { continue };
        match are_errors {
            // The number of them, and the error.
            true => failed += number(status).unwrap_or(0.0),
            false if status.starts_with('2') => is_success = true,
            false => failed += rest.split_whitespace().next().and_then(number).unwrap_or(0.0),
        }
    }
    ensure!(is_success || failed > 0.0, "it had no answer");
    Ok(Said::new((per_s * total_s).round(), failed, per_s))
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_results_of_wrk_are_read_with_its_failures() {
        let said = "Running 10s test @ http://127.0.0.1:8090/\n  1 threads and 50 connections\n\
                    \x20 Thread Stats   Avg      Stdev     Max   +/- Stdev\n\
                    \x20   Latency   411.32us  102.21us   4.72ms   88.33%\n\
                    \x20   Req/Sec   120.90k     4.52k  128.37k    71.00%\n\
                    \x20 1202909 requests in 10.00s, 1.31GB read\nRequests/sec: 120290.87\nTransfer/sec:    134.22MB\n";
        let read = by_wrk(said).unwrap();
        assert_eq!((read.count, read.failed, read.per_s), (1_202_909.0, 0.0, 120_290.87));
        let failing = "  100 requests in 1.00s, 1.31KB read\n  Socket errors: connect 1, read 2, write 0, timeout 7\n\
                       \x20 Non-2xx or 3xx responses: 25\nRequests/sec:    100.00\n";
        let read = by_wrk(failing).unwrap();
        assert_eq!((read.count, read.failed, read.per_s), (110.0, 35.0, 75.0));
        assert!(by_wrk("unable to connect to 127.0.0.1:1 Connection refused\n").is_err());
    }

    #[test]
    fn the_results_of_hey_are_read_with_its_failures() {
        let said = "\nSummary:\n  Total:\t10.0021 secs\n  Slowest:\t0.0310 secs\n  Requests/sec:\t20000.0000\n  \n\
                    Response time histogram:\n  0.000 [1]\t|\nLatency distribution:\n  10% in 0.0010 secs\n\n\
                    Status code distribution:\n  [200]\t200042 responses\n";
        let read = by_hey(said).unwrap();
        assert_eq!((read.count, read.failed, read.per_s), (200_042.0, 0.0, 20_000.0));
        let failing = "  Total:\t1.0000 secs\n  Requests/sec:\t100.0000\nStatus code distribution:\n\
                       \x20 [200]\t60 responses\n  [500]\t25 responses\n\n\
                       Error distribution:\n  [15]\tGet \"http://x\": EOF\n";
        let read = by_hey(failing).unwrap();
        assert_eq!((read.count, read.failed, read.per_s), (100.0, 40.0, 60.0));
        assert!(by_hey("").is_err());
    }

    #[test]
    fn the_results_of_k6_count_what_was_never_sent_as_failed() {
        let summary = serde_json::json!({ "metrics": {
            "http_reqs": { "count": 900, "rate": 90.0 },
            "http_req_failed": { "passes": 90, "fails": 810, "value": 0.1 },
            "dropped_iterations": { "count": 100, "rate": 10.0 },
        } });
        let read = by_k6(&summary).unwrap();
        assert_eq!((read.count, read.failed, read.per_s), (1_000.0, 190.0, 81.0));
        assert_eq!(read.us_for_each_success(0.81), 1_000.0);
        assert!(by_k6(&serde_json::json!({})).is_err());
    }

    #[test]
    fn the_results_of_penates_have_the_processor_time_of_its_workers() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        let record = serde_json::json!({ "workers": [{ "cpu_s": 1.5 }, { "cpu_s": 0.5 }] });
        std::fs::write(folder.path().join("data/record.json"), record.to_string()).unwrap();
        let all = serde_json::json!({ "due": 100, "done": 95, "lateness": { "p99_ms": 0.25 } });
        let summary = serde_json::json!({ "done_per_s": 9.5, "all": all });
        let judgement = serde_json::json!({ "verdict": "void", "reasons": ["The generator was late."] });
        let said = serde_json::json!({ "folder": folder.path(), "judgement": judgement, "summary": summary });
        let read = by_penates(&said.to_string()).unwrap();
        let wanted = Said {
            count: 100.0,
            failed: 5.0,
            per_s: 9.5,
            load_cpu_s: Some(2.0),
            lateness_p99_ms: Some(0.25),
            verdict: Some(Verdict::Void),
        };
        assert_eq!(read, wanted);
        assert!(by_penates("no JSON").is_err());
    }
}
