//! Ingest as in the testbed of DRAS-TIC, in a closed loop: each user creates a Basic Container with
//! two triples, then a binary of 1 KB in it, repeatedly.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use testbed::monitor::Counters;
use testbed::tally::times;

use super::bench::Bench;
use super::subject::{Kind, Subject};
use super::sync;
use crate::rig::client::Request;
use crate::rig::figures::{Figures, Goal};
use crate::rig::load::{Load, closed};

/// How long the disk alone is measured.
const SYNC_SECONDS: f64 = 1.0;

/// Numbers for containers: no name is used twice in a run.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A number of users at the same time, for a while.
pub fn load(subject: &Subject, connections: usize, duration: Duration) -> Result<Load> {
    let mut users: Vec<_> = (0..connections).map(|_| requests(subject)).collect();
    closed(subject.address, connections, duration, |user| users[user]().bytes())
}

/// The requests of one user.
fn requests(subject: &Subject) -> impl FnMut() -> Request {
    let mut container: Option<String> = None;
    move || match container.take() {
        Some(container) => subject.make_binary(&format!("{container}/bytes")),
        None => {
            let name = format!("c{}", NEXT.fetch_add(1, Ordering::Relaxed));
            container = Some(name.clone());
            subject.make_container(&name)
        }
    }
}

fn target(kind: Kind, connections: usize) -> Option<Goal> {
    match (kind, connections) {
        (Kind::Penates, 32) => Some(Goal::AtLeast(5_000.0)),
        (Kind::Penates, 256) => Some(Goal::AtLeast(10_000.0)),
        _ => None,
    }
}

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        let mut rates = Vec::new();
        let synced = sync::run(bench.folder(), Duration::from_secs_f64(SYNC_SECONDS.min(bench.settings.seconds)))?;
        let sync_p99_ms = times(&synced.latencies_us).p99_ms;
        figures.report("bare sync: rate", "syncs/s", synced.rate);
        figures.report("bare sync: p99", "ms", sync_p99_ms);
        for kind in bench.settings.subjects.clone() {
            let Some(subject) = bench.start(kind)? else { continue };
            for connections in bench.settings.connections.clone() {
                let before = subject.process.usage()?;
                let load = load(&subject, connections, bench.duration())?;
                let used = subject.process.usage()?.since(before);
                report(&mut figures, kind, connections, &load, used, sync_p99_ms);
                rates.push((kind, connections, load.rate()));
            }
        }
        compare(&mut figures, &rates);
    }
    Ok(figures)
}

fn report(figures: &mut Figures, kind: Kind, connections: usize, load: &Load, used: Counters, sync_p99_ms: f64) {
    let what = |what: &str| format!("{kind}, {connections} connections: {what}");
    match target(kind, connections) {
        Some(target) => figures.hold(what("rate"), "requests/s", target, load.rate()),
        None => figures.report(what("rate"), "requests/s", load.rate()),
    }
    figures.report(what("median"), "ms", load.times().p50_ms);
    match kind == Kind::Penates && connections >= 32 {
        // The time of the disk itself cannot be saved by the server.
        true => {
            let beyond_ms = load.times().p99_ms - 3.0 * sync_p99_ms;
            figures.report(what("p99"), "ms", load.times().p99_ms);
            figures.hold(what("p99 beyond 3 times that of a bare sync"), "ms", Goal::AtMost(20.0), beyond_ms);
        }
        false => figures.report(what("p99"), "ms", load.times().p99_ms),
    }
    figures.report(what("CPU of the server"), "µs per request", used.cpu_s * 1e6 / load.answers.max(1) as f64);
    figures.report(what("written to disk"), "bytes per request", used.written_bytes() / load.answers.max(1) as f64);
}

/// Ratios within one repetition.
fn compare(figures: &mut Figures, rates: &[(Kind, usize, f64)]) {
    let rate = |kind, connections| {
        rates.iter().find(|(known, count, _)| *known == kind && *count == connections).map(|(.., rate)| *rate)
    };
    let Some(penates) = rate(Kind::Penates, 32) else { return };
    for (kind, times) in [(Kind::Fedora, 25.0), (Kind::SolidFile, 15.0), (Kind::SolidMemory, 15.0)] {
        if let Some(other) = rate(kind, 32) {
            let what = format!("32 connections: Penates' rate beside {kind}");
            figures.hold(what, "times", Goal::AtLeast(times), penates / other);
        }
    }
}
