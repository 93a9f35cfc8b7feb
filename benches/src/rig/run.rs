//! One benchmark after the other, as they are named on a command line.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use super::figures::Figures;
use super::report::{Benchmark, Report};

/// The benchmarks of a program, by the names that its command line has for them.
pub trait Benchmarks: ValueEnum + PartialEq + 'static {
    /// What each of them gets.
    type Bench;
    /// The one that stands for all the others.
    const ALL: Self;

    /// Measures it; of [`Benchmarks::ALL`], nothing.
    fn run(self, bench: &mut Self::Bench) -> Result<Figures>;

    /// What could not be measured until now, and why.
    fn left_out(bench: &Self::Bench) -> &[String];
}

/// Runs those that were chosen, one after the other, and prints what came out. After each, all measurements are written into the file
/// `json`, if there is one.
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
