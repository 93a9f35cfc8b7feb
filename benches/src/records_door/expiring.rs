//! Reads while records expire and their space is reclaimed.

use std::time::Instant;

use anyhow::{Context, Result};

use super::bench::Bench;
use super::fill::fill;
use super::mixes::Mix;
use super::record::Draw;
use crate::rig::figures::{Figures, Goal};
use crate::rig::work::disk_bytes;

/// A read may take so many times its p99 at rest.
const TIMES: f64 = 2.0;

/// Records of so many times the kept ones expire.
const EXPIRING: u64 = 9;

/// Measures it: one record of ten stays and is read, and the others expire.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let (kept, all) = (bench.settings.records / (EXPIRING + 1), bench.settings.records);
    for _ in 0..bench.settings.repetitions {
        for kind in bench.settings.subjects.clone() {
            let Some(subject) = bench.start(kind)? else { continue };
            let began = Instant::now();
            // The kept records are the first ones. The others expire together, some time after the
            // last of them is written: twice as long as writing takes, and a measurement.
            fill(subject.address, kept, None)?;
            let writing = began.elapsed().mul_f64((EXPIRING + 1) as f64);
            let expire_from = Instant::now() + 2 * writing + 2 * bench.duration();
            let span = bench.duration();
            let expires_in_ms = |number: u64| {
                if number < kept {
                    // Not within this benchmark.
                    return 7 * 24 * 3_600 * 1_000;
                }
                let part = (number - kept) as f64 / (all - kept) as f64;
                let at = expire_from + span.mul_f64(part);
                u64::try_from(at.saturating_duration_since(Instant::now()).as_millis()).unwrap_or(1).max(1)
            };
            fill(subject.address, all, Some(&expires_in_ms))?;
            subject.process.settle()?;
            let before = disk_bytes(subject.folder.path())? as f64 / 1e6;
            let mix = Mix { reads: 100, draw: Draw::Uniform, records: kept };
            let rest = mix.run(subject.address, bench.settings.rate, bench.duration())?;
            std::thread::sleep(expire_from.saturating_duration_since(Instant::now()));
            // The records expire in the first half of this.
            let busy = mix.run(subject.address, bench.settings.rate, 2 * span)?;
            let (rest_ms, busy_ms) = (rest.loads[0].times().p99_ms, busy.loads[0].times().p99_ms);
            figures.report(format!("{kind}: reads p99 at rest"), "ms", rest_ms);
            figures.report(format!("{kind}: reads p99 while records expire"), "ms", busy_ms);
            figures.report(format!("{kind}: failed"), "operations", (rest.errors + busy.errors) as f64);
            let name = format!("{kind}: reads p99 while records expire, over rest");
            match kind.is_penates() {
                true => figures.hold(name, "times", Goal::AtMost(TIMES), busy_ms / rest_ms),
                false => figures.report(name, "times", busy_ms / rest_ms),
            }
            figures.report(format!("{kind}: on disk before"), "MB", before);
            let after = disk_bytes(subject.folder.path())? as f64 / 1e6;
            figures.report(format!("{kind}: on disk at the end"), "MB", after);
            let mut client = subject.connect()?;
            let left: u64 = redis::cmd("DBSIZE").query(&mut client).context("DBSIZE")?;
            figures.report(format!("{kind}: records left"), "records", left as f64);
        }
    }
    Ok(figures)
}
