//! The highest rates, by redis-benchmark: the same client for all servers. Each has all records from
//! the beginning, so that every request finds one.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::bench::Bench;
use super::fill::fill_named;
use super::mixes::SYNC;
use super::record::{ATTRIBUTES, VALUE_BYTES};
use super::subject::{Kind, Subject};
use crate::rig::figures::{Figures, Goal};

/// Requests that a connection sends before it reads the first answer.
const PIPELINES: [usize; 2] = [1, 16];

/// About so long a measurement lasts: redis-benchmark takes a number of requests.
const TRIED: u64 = 2_000;

/// What was measured of a server.
struct Rates {
    kind: Kind,
    connections: usize,
    pipeline: usize,
    /// In requests per second.
    write: f64,
    read: f64,
}

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let (records, seconds) = (bench.settings.records, bench.settings.seconds);
    for _ in 0..bench.settings.repetitions {
        let mut all = Vec::new();
        for kind in bench.settings.subjects.clone() {
            let Some(subject) = bench.start(kind)? else { continue };
            fill_named(subject.address, records, id, None)?;
            subject.process.settle()?;
            figures.report(format!("{kind}: {SYNC}"), "ms", bench.sync_p99_ms()?);
            for connections in bench.settings.connections.clone() {
                for pipeline in PIPELINES {
                    let load = Load { connections, pipeline, records };
                    let write = load.rate(&subject, &set_command(), seconds)?;
                    let read = load.rate(&subject, &["HGETALL".into(), ID.into()], seconds)?;
                    let what = |which: &str| format!("{kind}: {which}, {connections} connections, {pipeline} at once");
                    figures.report(what("HSET"), "requests/s", write);
                    figures.report(what("HGETALL"), "requests/s", read);
                    all.push(Rates { kind, connections, pipeline, write, read });
                }
            }
        }
        compare(&mut figures, &all);
    }
    Ok(figures)
}

/// The rates of Penates over those of Redis at the same durability.
fn compare(figures: &mut Figures, all: &[Rates]) {
    for ours in all {
        let Rates { kind, connections, pipeline, .. } = *ours;
        let is_peer = |theirs: &&Rates| {
            kind.peer() == Some(theirs.kind) && (theirs.connections, theirs.pipeline) == (connections, pipeline)
        };
        let Some(theirs) = all.iter().find(is_peer) else { continue };
        for (which, ratio) in [("HSET", ours.write / theirs.write), ("HGETALL", ours.read / theirs.read)] {
            let what = format!("{kind}: {which}, {connections} connections, {pipeline} at once: over {}", theirs.kind);
            figures.hold(what, "times", Goal::AtLeast(1.0), ratio);
        }
    }
}

/// The id in a command of redis-benchmark.
const ID: &str = "user:__rand_int__";

/// What it replaces there by a number of twelve digits, from 0 up to below the argument of `-r`.
const NUMBER: &str = "__rand_int__";

/// The id that it draws with a number.
fn id(number: u64) -> String {
    ID.replace(NUMBER, &format!("{number:012}"))
}

/// Sets all attributes. Each value ends with a number of its own: a value that is there already
/// changes nothing, and Penates writes nothing then.
fn set_command() -> Vec<String> {
    let value = format!("{}{NUMBER}", "v".repeat(VALUE_BYTES - NUMBER.len()));
    let mut command = vec!["HSET".to_owned(), ID.to_owned()];
    command.extend(ATTRIBUTES.iter().flat_map(|name| [(*name).to_owned(), value.clone()]));
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
    fn records_that_were_filled_have_the_ids_that_redis_benchmark_draws() {
        assert_eq!([0, 999_999].map(id), ["user:000000000000", "user:000000999999"]);
    }

    #[test]
    fn a_command_that_sets_attributes_sets_others_each_time() {
        let command = set_command();
        assert_eq!(command.len(), 2 + 2 * ATTRIBUTES.len());
        for value in command.iter().skip(3).step_by(2) {
            assert!(value.ends_with(NUMBER) && value.len() == VALUE_BYTES, "{value}");
        }
    }

    #[test]
    fn the_rate_is_taken_from_what_redis_benchmark_prints() {
        let said = "\"test\",\"rps\",\"avg_latency_ms\"\n\"HSET user:1 a b\",\"55555.56\",\"0.45\"\n";
        assert_eq!(requests_per_second(said), Some(55_555.56));
        assert_eq!(requests_per_second("Could not connect"), None);
    }
}
