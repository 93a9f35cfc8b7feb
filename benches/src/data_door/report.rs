//! What came out of a run: as a table for people, and as JSON with every single measurement.

use std::fmt;

use serde::Serialize;

use super::bench::Settings;
use super::figures::{Figure, Figures};
use crate::machine::Machine;
use crate::report::figure;

/// Everything of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where it ran.
    pub machine: Machine,
    /// Versions of the programs that it ran beside.
    pub peers: Vec<String>,
    /// What was asked for.
    pub settings: Settings,
    /// What was measured.
    pub benchmarks: Vec<Benchmark>,
    /// What could not be measured, and why.
    pub left_out: Vec<String>,
}

/// What one benchmark measured.
#[derive(Debug, Serialize)]
pub struct Benchmark {
    /// Its name on the command line.
    pub name: String,
    /// What came out.
    pub figures: Figures,
}

impl Report {
    fn rows(&self) -> impl Iterator<Item = (&str, &Figure)> {
        self.benchmarks.iter().flat_map(|bench| bench.figures.iter().map(|figure| (bench.name.as_str(), figure)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, settings, .. } = self;
        writeln!(out, "{machine}")?;
        writeln!(out, "beside: {}", if self.peers.is_empty() { "nothing".to_owned() } else { self.peers.join("; ") })?;
        writeln!(
            out,
            "{} volumes (few: {}), seed {}; {} repetitions\n",
            settings.volumes, settings.few, settings.seed, settings.repetitions
        )?;
        writeln!(out, "| benchmark | what | unit | median | min | max | target | met |")?;
        writeln!(out, "|---|---|---|---|---|---|---|---|")?;
        for (bench, measured) in self.rows() {
            let Some(spread) = measured.spread() else { continue };
            writeln!(
                out,
                "| {bench} | {} | {} | {} | {} | {} | {} | {} |",
                measured.what,
                measured.unit,
                figure(spread.median),
                figure(spread.min),
                figure(spread.max),
                measured.target.map(|target| target.to_string()).unwrap_or_default(),
                measured.is_met().map(|met| if met { "yes" } else { "NO" }).unwrap_or_default(),
            )?;
        }
        let held = self.rows().filter_map(|(_, figure)| figure.is_met());
        let (met, missed): (Vec<bool>, Vec<bool>) = held.partition(|met| *met);
        writeln!(out, "\ntargets: {} met, {} missed", met.len(), missed.len())?;
        self.left_out.iter().try_for_each(|why| writeln!(out, "left out: {why}"))
    }
}
