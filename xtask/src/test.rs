//! All tests, and the list of what did not run.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{cargo, fuzz, in_ci, tools};

/// How to test.
#[derive(Args)]
pub struct Options {
    /// Seconds for each fuzz target; 0 leaves fuzzing out
    #[arg(long, default_value_t = 5)]
    fuzz_seconds: u32,
    /// Rounds of each crash test (kill -9 at random moments)
    #[arg(long, default_value_t = 20)]
    crash_rounds: u32,
}

/// Tests append a line "what: why" to the file this variable names, for each part that they could not run.
const NOT_RUN_VARIABLE: &str = "PENATES_NOT_RUN";

/// Runs all tests.
pub fn run(options: &Options) -> Result<()> {
    let missing = tools::provide();
    let not_run_file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    crate::run(
        cargo()
            // One run tells all that fails.
            .args(["test", "--workspace", "--locked", "--no-fail-fast"])
            .env(NOT_RUN_VARIABLE, not_run_file.path())
            .env("PENATES_CRASH_ROUNDS", options.crash_rounds.to_string()),
    )?;

    let mut not_run = read_lines(not_run_file.path())?;
    not_run.extend(
        missing.iter().map(|tool| format!("{}: {} is not installed and could not be", tool.tests, tool.program)),
    );
    if let Err(reason) = fuzz::run_all(options.fuzz_seconds)? {
        not_run.push(format!("fuzz targets: {reason}"));
    }
    report(&not_run)
}

fn read_lines(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn report(not_run: &[String]) -> Result<()> {
    println!();
    if not_run.is_empty() {
        println!("Not run: nothing. All tests ran.");
        return Ok(());
    }
    println!("Not run:");
    not_run.iter().for_each(|line| println!("  - {line}"));
    if in_ci() {
        bail!("{} part(s) of the tests did not run, and CI is set", not_run.len());
    }
    Ok(())
}
