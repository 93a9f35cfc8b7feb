//! Reads of popular records while all records are exported, verified or copied, while as many
//! others are imported, and while an import replaces all of them, and after it: what such work
//! reads and writes must not take the place of what others read.

use std::ffi::OsStr;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Map, Value, json};

use super::bench::Bench;
use super::fill::fill;
use super::mixes::Mix;
use super::record::{self, Draw};
use super::subject::{Kind, Subject};
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::open_loop::Arrivals;

/// After such work, a read may take so many times the processor time of one before it.
const TIMES: f64 = 1.1;

/// So many records are imported with one request.
const IMPORTED_AT_ONCE: u64 = 1_000;

/// What goes through all records while some of them are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Export,
    /// `penates verify`
    Verify,
    /// `penates copy`
    Copy,
    /// As many records as there are, with other ids.
    Import,
    /// The records that are there and read, with other values.
    Replace,
}

impl Work {
    /// All that a server does. Imports come last, because they change what is stored. Commands read
    /// a store on Cassandra without its servers.
    fn all(kind: Kind) -> impl Iterator<Item = Self> {
        let is_served = move |work: &Self| !kind.is_on_cassandra() || !matches!(work, Self::Verify | Self::Copy);
        [Self::Export, Self::Verify, Self::Copy, Self::Import, Self::Replace].into_iter().filter(is_served)
    }

    /// Its name, and what it has done to records.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Export => ("an export", "exported"),
            Self::Verify => ("a verification", "verified"),
            Self::Copy => ("a copy", "copied"),
            Self::Import => ("an import", "imported"),
            Self::Replace => ("a replacing import", "replaced"),
        }
    }

    /// Does it, in a repetition that begins with so many records. Returns how many in a second.
    fn run(self, bench: &Bench, subject: &Subject, stored: u64) -> Result<f64> {
        let (began, filled) = (Instant::now(), bench.settings.records);
        // The values are others than those of the filling and of earlier repetitions.
        let seed = stored;
        let records = match self {
            Self::Export => {
                export(subject, stored)?;
                stored
            }
            Self::Verify => {
                bench.penates().run([OsStr::new("verify"), OsStr::new("--store"), &subject.store()?])?;
                stored
            }
            Self::Copy => {
                copy(bench, subject)?;
                stored
            }
            Self::Import => {
                import(subject, filled, |number| imported_id(stored + number), seed)?;
                filled
            }
            Self::Replace => {
                import(subject, filled, record::id, seed)?;
                filled
            }
        };
        Ok(records as f64 / began.elapsed().as_secs_f64())
    }
}

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let subjects: Vec<_> = bench.settings.subjects.iter().copied().filter(|kind| kind.is_penates()).collect();
    for kind in subjects {
        let Some(subject) = bench.start(kind)? else { continue };
        fill(subject.address, bench.settings.records, None)?;
        subject.process.settle()?;
        // The popular records become cached.
        reads(bench, &subject)?;
        for repetition in 0..bench.settings.repetitions {
            for work in Work::all(kind) {
                measure(bench, &subject, work, u64::from(repetition), &mut figures)?;
            }
        }
    }
    Ok(figures)
}

/// Reads before, during and after such work.
fn measure(bench: &Bench, subject: &Subject, work: Work, repetition: u64, figures: &mut Figures) -> Result<()> {
    let (kind, (name, done)) = (subject.kind, work.names());
    // Each repetition imports as many as there were at first.
    let stored = (1 + repetition) * bench.settings.records;
    let (before, before_us) = reads(bench, subject)?;
    let (per_s, during) = std::thread::scope(|scope| {
        let working = scope.spawn(|| work.run(bench, subject, stored));
        let during = reads(bench, subject);
        let per_s = working.join().map_err(|_| anyhow!("{name} panicked"))??;
        anyhow::Ok((per_s, during?.0))
    })?;
    // What was written is merged.
    subject.process.settle()?;
    let (after, after_us) = reads(bench, subject)?;
    figures.report(format!("{kind}: {done}"), "records/s", per_s);
    for (when, arrivals) in [("before", &before), ("during", &during), ("after", &after)] {
        let p99_ms = arrivals.loads[0].times().p99_ms;
        figures.report(format!("{kind}: reads p99 {when} {name}"), "ms", p99_ms);
        arrivals.report_lateness(figures, |figure| format!("{kind}: {when} {name}: {figure}"));
    }
    figures.report(format!("{kind}: processor time of a read before {name}"), "µs", before_us);
    let what = format!("{kind}: processor time of a read after {name}, over before");
    figures.hold(what, "times", Goal::AtMost(TIMES), after_us / before_us);
    Ok(())
}

/// Reads of popular records for a while, and the processor time that the server takes for each, in
/// microseconds.
fn reads(bench: &Bench, subject: &Subject) -> Result<(Arrivals<2>, f64)> {
    let mix = Mix { reads: 100, draw: Draw::Zipf, records: bench.settings.records };
    let before = subject.process.usage()?;
    let arrivals = mix.run(subject.address, bench.settings.rate, bench.duration())?;
    ensure!(arrivals.errors == 0, "{} reads failed", arrivals.errors);
    let used = subject.process.usage()?.since(before);
    let each_us = used.cpu_s * 1e6 / arrivals.loads[0].answers as f64;
    Ok((arrivals, each_us))
}

/// Exports all records, which are at least so many.
fn export(subject: &Subject, records: u64) -> Result<()> {
    let http = subject.http.context("a server without HTTP")?;
    let (mut lines, request) = (0_u64, Request::get("/records/?values=true"));
    let request = request.with("Accept", "application/x-ndjson");
    Client::connect(http)?.fetch_into(&request, |piece| {
        lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(())
    })?;
    ensure!(lines >= records, "{lines} of {records} records were exported");
    Ok(())
}

/// Copies the store into a folder. The server that holds it reads it for the command.
fn copy(bench: &Bench, subject: &Subject) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("copy-").tempdir_in(bench.folder())?;
    let (from, to) = (subject.store()?, folder.path().join("data"));
    let mut arguments = ["copy", "--keep-source", "--from"].map(OsStr::new).to_vec();
    arguments.extend([from.as_os_str(), OsStr::new("--to"), to.as_os_str()]);
    bench.penates().run(arguments)?;
    Ok(())
}

/// Imports records with these ids.
fn import(subject: &Subject, records: u64, id: impl Fn(u64) -> String, seed: u64) -> Result<()> {
    let mut client = Client::connect(subject.http.context("a server without HTTP")?)?;
    for first in (0..records).step_by(usize::try_from(IMPORTED_AT_ONCE)?) {
        let numbers = first..records.min(first + IMPORTED_AT_ONCE);
        let lines: String = numbers.map(|number| line(&id(number), seed + number)).collect();
        let request = Request::sending("POST", "/records:batchWrite", "application/x-ndjson", lines.as_bytes());
        let (_, answers) = client.text(&request)?;
        let is_done = |answer: &str| {
            let answer: Value = serde_json::from_str(answer)?;
            anyhow::Ok(answer["status"].as_u64().is_some_and(|status| (200..300).contains(&status)))
        };
        for answer in answers.lines() {
            ensure!(is_done(answer)?, "a record was not imported: {answer}");
        }
    }
    Ok(())
}

/// The id of a record that no filling has.
fn imported_id(number: u64) -> String {
    format!("imported:{}", number + 1)
}

/// A line that writes a record with values that are drawn from `seed`.
fn line(id: &str, seed: u64) -> String {
    let mut random = record::random(seed);
    let attributes = record::ATTRIBUTES.map(|name| (name.to_owned(), Value::from(record::value(&mut random))));
    let attributes: Map<String, Value> = attributes.into_iter().collect();
    format!("{}\n", json!({ "id": id, "attributes": attributes }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_imported_are_whole_records_with_other_values_in_each_repetition() {
        let [first, second] = [10, 20].map(|seed| line(&imported_id(3), seed));
        assert!(first != second && first.ends_with('\n') && first.lines().count() == 1);
        let record: Value = serde_json::from_str(&first).unwrap();
        assert_eq!(record["id"], "imported:4");
        let attributes = record["attributes"].as_object().unwrap();
        assert_eq!(attributes.len(), record::ATTRIBUTES.len());
        assert!(attributes.values().all(|value| value.as_str().unwrap().len() == record::VALUE_BYTES));
    }

    #[test]
    fn a_store_on_cassandra_is_not_read_through_its_server_by_commands() {
        assert_eq!(Work::all(Kind::Penates).count(), 5);
        let on_cassandra: Vec<_> = Work::all(Kind::PenatesCassandraFast).collect();
        assert_eq!(on_cassandra, [Work::Export, Work::Import, Work::Replace]);
    }
}
