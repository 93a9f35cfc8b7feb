//! The results of a run, as a table for people and as JSON with every single measurement.

use std::fmt;

use serde::Serialize;

use super::figures::{Figure, Figures};
use crate::machine::Machine;

/// The results of one run.
#[derive(Debug, Serialize)]
pub struct Report<S> {
    /// The machine.
    pub machine: Machine,
    /// The settings.
    pub settings: S,
    /// The measurements.
    pub benchmarks: Vec<Benchmark>,
    /// The measurements left out, with the reasons.
    pub left_out: Vec<String>,
}

/// The measurements of one benchmark.
#[derive(Debug, Serialize)]
pub struct Benchmark {
    /// Its name on the command line.
    pub name: String,
    /// Its figures.
    pub figures: Figures,
}

impl<S> Report<S> {
    /// An empty report.
    pub fn new(machine: Machine, settings: S) -> Self {
        Self { machine, settings, benchmarks: Vec::new(), left_out: Vec::new() }
    }

    fn rows(&self) -> impl Iterator<Item = (&str, &Figure)> {
        self.benchmarks.iter().flat_map(|bench| bench.figures.iter().map(|figure| (bench.name.as_str(), figure)))
    }
}

impl<S: fmt::Display> fmt::Display for Report<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, settings, .. } = self;
        writeln!(out, "{machine}")?;
        writeln!(out, "{settings}\n")?;
        writeln!(out, "| benchmark | what | unit | median | min | max |")?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        for (bench, measured) in self.rows() {
            let Some(spread) = measured.spread() else { continue };
            writeln!(
                out,
                "| {bench} | {} | {} | {} | {} | {} |",
                measured.what,
                measured.unit,
                figure(spread.median),
                figure(spread.min),
                figure(spread.max),
            )?;
        }
        writeln!(out, "\n| with a target | unit | target | median | met |")?;
        writeln!(out, "|---|---|---|---|---|")?;
        for (bench, measured) in self.rows() {
            let (Some(target), Some(spread), Some(met)) = (measured.target, measured.spread(), measured.is_met())
            else {
                continue;
            };
            writeln!(
                out,
                "| {bench}: {} | {} | {target} | {} | {} |",
                measured.what,
                measured.unit,
                figure(spread.median),
                yes_or_no(met),
            )?;
        }
        self.left_out.iter().try_for_each(|why| writeln!(out, "left out: {why}"))
    }
}

fn yes_or_no(met: bool) -> &'static str {
    if met { "yes" } else { "NO" }
}

/// A figure with its significant digits.
fn figure(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0..10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
