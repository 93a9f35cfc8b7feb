//! What operations and records cost, for `penates records plan`: processor time of the server and of
//! the Cassandra node, memory, and bytes on disk.

use anyhow::{Result, ensure};
use testbed::monitor::Counters;

use super::bench::Bench;
use super::fill::fill;
use super::mixes::Mix;
use super::record::Draw;
use super::subject::Subject;
use crate::rig::figures::Figures;
use crate::rig::work::disk_bytes;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let subjects: Vec<_> = bench.settings.subjects.iter().copied().filter(|kind| kind.is_penates()).collect();
    for kind in subjects {
        let Some(subject) = bench.start(kind)? else { continue };
        let records = bench.settings.records;
        let empty = disk_bytes(&subject.data()?)?;
        fill(subject.address, records, None)?;
        subject.process.settle()?;
        if let Some(node) = &subject.node {
            node.nodetool(&["flush", "records"])?;
            node.nodetool(&["compact", "records", "records"])?;
        }
        let each = disk_bytes(&subject.data()?)?.saturating_sub(empty) as f64 / records as f64;
        figures.report(format!("{kind}: on disk, of each record"), "bytes", each);
        figures.report(format!("{kind}: resident"), "MB", subject.process.memory()?.now_bytes / 1e6);
        for _ in 0..bench.settings.repetitions {
            for (name, reads) in [("read", 100), ("write", 0)] {
                let mix = Mix { reads, draw: Draw::Uniform, records };
                let before = used(&subject)?;
                let arrivals = mix.run(subject.address, bench.settings.rate, bench.duration())?;
                ensure!(arrivals.errors == 0, "{} operations failed", arrivals.errors);
                let after = used(&subject)?;
                let answers: u64 = arrivals.loads.iter().map(|load| load.answers).sum();
                let each_us = |used: f64| used * 1e6 / answers as f64;
                let server = each_us(after.0.since(before.0).cpu_s);
                figures.report(format!("{kind}: processor time of the server for a {name}"), "µs", server);
                if let (Some(after), Some(before)) = (after.1, before.1) {
                    let node = each_us(after.since(before).cpu_s);
                    figures.report(format!("{kind}: processor time of the node for a {name}"), "µs", node);
                }
            }
        }
    }
    Ok(figures)
}

/// What the server has used so far, and the node, if there is one.
fn used(subject: &Subject) -> Result<(Counters, Option<Counters>)> {
    Ok((subject.process.usage()?, subject.node.as_ref().map(|node| node.usage()).transpose()?))
}
