//! Runs all tests, and lists those that did not run.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{cargo, fuzz, in_ci, proofs, tools};

/// The options of the tests.
#[derive(Args)]
pub struct Options {
    /// Rounds of each crash test (kill -9 at random moments)
    #[arg(long, default_value_t = 10)]
    crash_rounds: u32,
    /// Minutes after which a test program is killed, so that one that hangs does not hide the
    /// results of all others
    #[arg(long, default_value_t = 30)]
    program_minutes: u32,
}

/// Tests append a line "what: why" to the file this variable names, for each part that they could
/// not run.
const NOT_RUN_VARIABLE: &str = "PENATES_NOT_RUN";

/// Runs all tests.
pub fn run(options: &Options) -> Result<()> {
    let missing = tools::provide();
    let not_run_file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    crate::run(
        cargo()
            // One run reports everything that fails.
            .args(["test", "--workspace", "--locked", "--no-fail-fast"])
            .args(["--config", &killed_after(Duration::from_mins(u64::from(options.program_minutes)))])
            .env(NOT_RUN_VARIABLE, not_run_file.path())
            .env("PENATES_CRASH_ROUNDS", options.crash_rounds.to_string()),
    )?;

    let mut not_run = read_lines(not_run_file.path())?;
    not_run.extend(
        missing.iter().map(|tool| format!("{}: {} is not installed and could not be", tool.tests, tool.program)),
    );
    fuzz::replay_seeds()?;
    report(&not_run, &proofs::names())
}

/// The setting that makes Cargo run each test program under a time limit. `timeout` names the
/// program that it kills, and the test harness has named each test that ran for more than a minute
/// by then.
fn killed_after(limit: Duration) -> String {
    let seconds = limit.as_secs();
    // In the foreground, so that Ctrl-C reaches the tests too.
    format!(r#"target."cfg(unix)".runner = ["timeout", "--verbose", "--foreground", "--kill-after=10", "{seconds}"]"#)
}

fn read_lines(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Prints what did not run. Fails if that is not allowed.
fn report(not_run: &[String], proofs: &[String]) -> Result<()> {
    println!("\n{}", summary(not_run, proofs));
    if not_run.is_empty() {
        return Ok(());
    }
    if in_ci() {
        bail!("{} part(s) of the tests did not run, and CI is set", not_run.len());
    }
    Ok(())
}

/// The report: what did not run, and what this command does not include.
fn summary(not_run: &[String], proofs: &[String]) -> String {
    let list = |lines: &[String]| lines.iter().map(|line| format!("\n  - {line}")).collect::<String>();
    let not_run = match not_run.is_empty() {
        true => "Not run, of what belongs to this command: nothing.".to_owned(),
        false => format!("Not run:{}", list(not_run)),
    };
    let fuzzing = "Fuzz targets ran over their seeds only; `cargo xtask fuzz` looks for more.";
    format!("{not_run}\n{fuzzing}\nNo part of this command; `cargo xtask proofs` runs it:{}", list(proofs))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_test_program_that_hangs_is_killed_and_named() {
        let package = tempfile::tempdir().unwrap();
        let manifest = package.path().join("Cargo.toml");
        std::fs::write(&manifest, "[package]\nname = \"hanging\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n")
            .unwrap();
        std::fs::write(package.path().join("lib.rs"), "#[test]\nfn hangs() {\n    loop {}\n}\n").unwrap();

        let mut tests = cargo();
        tests.args(["test", "--lib", "--manifest-path"]).arg(&manifest);
        tests.arg("--target-dir").arg(package.path().join("target"));
        let ended = tests.args(["--config", &killed_after(Duration::from_secs(1))]).output().unwrap();

        let reported = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{reported}");
        assert!(reported.contains("timeout: sending signal TERM to command"), "{reported}");
        assert!(reported.contains("/deps/hanging-"), "{reported}");
    }

    #[test]
    fn the_proofs_are_always_listed() {
        for not_run in [vec![], vec!["a client: no interpreter".to_owned()]] {
            let summary = summary(&not_run, &proofs::names());
            for proof in [
                "store-cassandra: three_nodes",
                "store-cassandra: two_datacenters",
                "penates: cli proofs::three_nodes",
                "penates: cli proofs::two_datacenters",
                "penates: cli proofs::rocfl",
            ] {
                assert!(summary.contains(&format!("\n  - {proof}")), "{summary}");
            }
            assert!(summary.contains("cargo xtask proofs") && !summary.contains("All tests ran"), "{summary}");
            assert!(not_run.iter().all(|line| summary.contains(line)));
        }
    }
}
