//! Reads of popular records while all records are exported, and after it: what an export reads must
//! not take the place of what others read.

use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};

use super::bench::Bench;
use super::fill::fill;
use super::mixes::Mix;
use super::record::Draw;
use super::subject::Subject;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::open_loop::Arrivals;

/// After an export, a read may take so many times the processor time of one before it.
const TIMES: f64 = 1.1;

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
        for _ in 0..bench.settings.repetitions {
            let (before, before_us) = reads(bench, &subject)?;
            let (exported_per_s, during) = std::thread::scope(|scope| {
                let export = scope.spawn(|| export(&subject));
                let during = reads(bench, &subject);
                let exported = export.join().map_err(|_| anyhow!("the export panicked"))??;
                anyhow::Ok((exported, during?.0))
            })?;
            let (after, after_us) = reads(bench, &subject)?;
            figures.report(format!("{kind}: exported"), "records/s", exported_per_s);
            for (when, arrivals) in [("before", &before), ("during", &during), ("after", &after)] {
                let p99_ms = arrivals.loads[0].times().p99_ms;
                figures.report(format!("{kind}: reads p99 {when} an export"), "ms", p99_ms);
                arrivals.report_lateness(&mut figures, |figure| format!("{kind}: {when} an export: {figure}"));
            }
            figures.report(format!("{kind}: processor time of a read before an export"), "µs", before_us);
            let what = format!("{kind}: processor time of a read after an export, over before");
            figures.hold(what, "times", Goal::AtMost(TIMES), after_us / before_us);
        }
    }
    Ok(figures)
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

/// Exports all records. Returns how many in a second.
fn export(subject: &Subject) -> Result<f64> {
    let http = subject.http.context("a server without HTTP")?;
    let (began, mut lines) = (Instant::now(), 0_u64);
    let mut request = Request::get("/records/?values=true");
    request = request.with("Accept", "application/x-ndjson");
    let received = Client::connect(http)?.fetch_into(&request, |piece| {
        lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(())
    })?;
    ensure!(received.head.status == 200, "the export answers {}", received.head.status);
    Ok(lines as f64 / began.elapsed().as_secs_f64())
}
