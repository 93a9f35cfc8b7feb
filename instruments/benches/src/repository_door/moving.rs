//! Moving in: the storage root of a Fedora, loaded by `penates load`, beside the rate at which Fedora
//! took the same resources in.

use std::ffi::OsStr;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::bench::Bench;
use super::ingest;
use super::subject::{Kind, Subject};
use crate::rig::figures::{Figures, Goal};

/// Connections over which Fedora takes resources in: it is fastest there.
const CONNECTIONS: usize = 32;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        let Some(fedora) = bench.start(Kind::Fedora)? else { break };
        let ingested = ingest::load(&fedora, CONNECTIONS, bench.duration())?;
        let Subject { process, folder, .. } = fedora;
        // It ends before its storage root is read.
        drop(process);
        let root = folder.path().join("home/data/ocfl-root");
        let store = folder.path().join("moved");
        let (load, init, to) = (OsStr::new("load"), OsStr::new("--init"), OsStr::new("--store"));
        let arguments = [load, root.as_os_str(), init, to, store.as_os_str()];
        let begun = Instant::now();
        let output = bench.penates.run(arguments)?;
        let seconds = begun.elapsed().as_secs_f64();
        let loaded = loaded(&output)?;
        ensure!(loaded >= ingested.answers, "{loaded} of {} resources were loaded", ingested.answers);
        let rate = loaded as f64 / seconds;
        figures.report(format!("Fedora, {CONNECTIONS} connections: ingest"), "resources/s", ingested.rate());
        figures.report("a load, checked and verified", "resources/s", rate);
        figures.hold("a load beside Fedora's ingest", "times", Goal::AtLeast(20.0), rate / ingested.rate());
    }
    Ok(figures)
}

/// How many resources a load reports.
fn loaded(output: &str) -> Result<u64> {
    let count = output.strip_prefix("loaded ").and_then(|rest| rest.split(' ').next());
    count.and_then(|count| count.parse().ok()).with_context(|| format!("the load said {output:?}"))
}
