//! Reads and writes of records that take four times the memory of the server.

use std::ffi::OsStr;

use anyhow::{Context, Result};

use super::bench::Bench;
use super::fill::fill;
use super::mixes::{Mix, SYNC, report_all};
use super::record::Draw;
use super::subject::{Kind, Subject, serve};
use crate::rig::figures::Figures;
use crate::rig::page_cache;
use crate::rig::penates::Penates;
use crate::rig::work::disk_bytes;

/// The records take so many times the memory.
const TIMES: u64 = 4;

/// Reads in a hundred operations.
const MIXES: [u64; 2] = [90, 50];

/// An operation without an answer by then is late, in milliseconds.
const LATE_MS: f64 = 10.0;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let kinds: Vec<_> = bench.settings.subjects.iter().copied().filter(|kind| *kind == Kind::Penates).collect();
    for kind in kinds {
        let Some(subject) = bench.start(kind)? else { continue };
        fill(subject.address, bench.settings.records, None)?;
        subject.process.settle()?;
        let Subject { process, folder, .. } = subject;
        drop(process);
        let store = folder.path().join("data");
        let stored = disk_bytes(&store)?;
        // What Linux has of these files counts for nobody.
        page_cache::forget(&store)?;
        // Removed after the process has ended, which is declared later.
        let group = match Penates::group(stored / TIMES) {
            Ok(group) => group,
            Err(error) => {
                bench.leave_out(format!("records larger than memory: {error:#}"));
                break;
            }
        };
        figures.report(format!("{kind}: memory"), "MB", (stored / TIMES) as f64 / 1e6);
        figures.report(format!("{kind}: on disk"), "MB", stored as f64 / 1e6);
        let penates = bench.penates().within(&group);
        let log = folder.path().join("log");
        let (mut process, address, _) = serve(&["records.durability=sync"], &penates, OsStr::new(&store), &log)
            .with_context(|| format!("with {} bytes of memory", stored / TIMES))?;
        for _ in 0..bench.settings.repetitions {
            for draw in [Draw::Uniform, Draw::Zipf] {
                for reads in MIXES {
                    let mix = Mix { reads, draw, records: bench.settings.records };
                    let sync_ms = bench.sync_p99_ms()?;
                    let before = process.usage()?;
                    let arrivals = mix.run(address, bench.settings.rate, bench.duration())?;
                    // Linux ends a server that needs more.
                    process.check_runs()?;
                    let read = process.usage()?.since(before).read_bytes();
                    let what = |figure: &str| format!("{kind}: {} {figure}", mix.name());
                    figures.report(what(SYNC), "ms", sync_ms);
                    for (of, load) in arrivals.loads.iter().enumerate() {
                        let (name, late) = (["reads", "writes"][of], 100.0 * arrivals.late_share(of, LATE_MS));
                        figures.report(what(&format!("{name} p99")), "ms", load.times().p99_ms);
                        figures.report(what(&format!("{name} later than 10 ms")), "%", late);
                    }
                    report_all(&mut figures, &arrivals, what);
                    let operations = arrivals.loads.iter().map(|load| load.answers).sum::<u64>().max(1) as f64;
                    figures.report(what("read from disks"), "bytes per operation", read / operations);
                }
            }
        }
    }
    Ok(figures)
}
