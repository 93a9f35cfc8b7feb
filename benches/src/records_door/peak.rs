//! The highest rates, by redis-benchmark: the same client for all servers.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::bench::Bench;
use super::record::{ATTRIBUTES, VALUE_BYTES};
use super::subject::{Kind, Subject};
use crate::rig::figures::{Figures, Goal};

/// Requests that a connection sends before it reads the first answer.
const PIPELINES: [usize; 2] = [1, 16];

/// About so long a measurement lasts: redis-benchmark takes a number of requests.
const TRIED: u64 = 2_000;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let seconds = bench.settings.seconds;
    for _ in 0..bench.settings.repetitions {
        for connections in bench.settings.connections.clone() {
            for pipeline in PIPELINES {
                let mut rates = Vec::new();
                for kind in bench.settings.subjects.clone() {
                    let Some(subject) = bench.start(kind)? else { continue };
                    let load = Load { connections, pipeline, records: bench.settings.records };
                    let write = load.rate(&subject, &set_command(), seconds)?;
                    let read = load.rate(&subject, &["HGETALL".into(), ID.into()], seconds)?;
                    let what = |which: &str| format!("{kind}: {which}, {connections} connections, {pipeline} at once");
                    figures.report(what("HSET"), "requests/s", write);
                    figures.report(what("HGETALL"), "requests/s", read);
                    rates.push((kind, write, read));
                }
                compare(&mut figures, &rates, connections, pipeline);
            }
        }
    }
    Ok(figures)
}

/// The rates of Penates over those of Redis at the same durability.
fn compare(figures: &mut Figures, rates: &[(Kind, f64, f64)], connections: usize, pipeline: usize) {
    for (kind, write, read) in rates {
        let peer = rates.iter().find(|(peer, ..)| kind.peer() == Some(*peer));
        let Some((peer, their_write, their_read)) = peer else { continue };
        for (which, ratio) in [("HSET", write / their_write), ("HGETALL", read / their_read)] {
            let what = format!("{kind}: {which}, {connections} connections, {pipeline} at once: over {peer}");
            figures.hold(what, "times", Goal::AtLeast(1.0), ratio);
        }
    }
}

/// redis-benchmark replaces this by a number with twelve digits.
const ID: &str = "user:__rand_int__";

fn set_command() -> Vec<String> {
    let mut command = vec!["HSET".to_owned(), ID.to_owned()];
    command.extend(ATTRIBUTES.iter().flat_map(|name| [(*name).to_owned(), "v".repeat(VALUE_BYTES)]));
    command
}

struct Load {
    connections: usize,
    pipeline: usize,
    records: u64,
}

impl Load {
    /// Requests per second, measured for about as long as wanted.
    fn rate(&self, subject: &Subject, command: &[String], seconds: f64) -> Result<f64> {
        let tried = self.requests(subject, command, TRIED.max(self.connections as u64 * self.pipeline as u64))?;
        self.requests(subject, command, (tried * seconds) as u64)
    }

    fn requests(&self, subject: &Subject, command: &[String], requests: u64) -> Result<f64> {
        let mut benchmark = Command::new("redis-benchmark");
        benchmark.args(["-h", "127.0.0.1", "-p", &subject.address.port().to_string(), "--csv"]);
        benchmark.args(["-c", &self.connections.to_string(), "-P", &self.pipeline.to_string()]);
        benchmark.args(["-n", &requests.to_string(), "-r", &self.records.to_string()]).args(command);
        let output = benchmark.output().context("redis-benchmark (Debian: redis-tools)")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "redis-benchmark: {said}{}", String::from_utf8_lossy(&output.stderr));
        requests_per_second(&said).with_context(|| format!("redis-benchmark says: {said}"))
    }
}

/// The second column of the last line: `"HSET …","12345.67",…`.
fn requests_per_second(csv: &str) -> Option<f64> {
    csv.trim_end().lines().last()?.split("\",\"").nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_taken_from_what_redis_benchmark_prints() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\"\n\"HSET user:1 a b\",\"55555.56\",\"0.45\"\n";
        assert_eq!(requests_per_second(said), Some(55_555.56));
        assert_eq!(requests_per_second("Could not connect"), None);
    }
}
