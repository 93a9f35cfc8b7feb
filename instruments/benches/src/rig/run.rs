//! Runs the benchmarks that a command line names, one after the other.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use super::figures::Figures;
use super::report::{Benchmark, Report};

/// The benchmarks of a program, by their names on its command line.
pub trait Benchmarks: ValueEnum + PartialEq + 'static {
    /// The argument of each of them.
    type Bench;
    /// The one that means all others.
    const ALL: Self;

    /// Measures it; for [`Benchmarks::ALL`], nothing.
    fn run(self, bench: &mut Self::Bench) -> Result<Figures>;

    /// The measurements left out so far, with the reasons.
    fn left_out(bench: &Self::Bench) -> &[String];
}

/// Runs the chosen benchmarks, one after the other, and prints the results. After each, all
/// measurements are written into the file `json`, if it is given.
pub fn run<W: Benchmarks, S: Serialize + fmt::Display>(
    what: &[W],
    bench: &mut W::Bench,
    mut report: Report<S>,
    json: Option<&Path>,
) -> Result<()> {
    for what in chosen(what) {
        let name = what.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        eprintln!("{name}");
        let figures = what.run(bench).with_context(|| name.clone())?;
        report.benchmarks.push(Benchmark { name, figures });
        report.left_out = W::left_out(bench).to_vec();
        if let Some(file) = json {
            let text = serde_json::to_string_pretty(&report)?;
            std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
        }
    }
    print!("{report}");
    Ok(())
}

fn chosen<W: Benchmarks>(what: &[W]) -> Vec<W> {
    let all = || W::value_variants().iter().filter(|what| **what != W::ALL).cloned();
    if what.contains(&W::ALL) { all().collect() } else { what.to_vec() }
}
