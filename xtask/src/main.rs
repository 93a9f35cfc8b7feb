//! The project's chores, one subcommand each. A newcomer runs `cargo xtask test`; `.ci/run` calls
//! the same.

mod advisories;
mod configuration;
mod failures;
mod fixture;
mod fuzz;
mod licenses;
mod package;
mod proofs;
mod results;
mod simulate;
mod test;
mod tools;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install or find what tests need, run all tests, and list what did not run and why
    Test(test::Options),
    /// Run the tests that kill nodes, data centers and servers of Cassandra clusters, wait for a
    /// change feed, build other programs or run the container (minutes, 4 GB of memory), and end
    /// with a table of all of them (`proofs NAME`, `proofs --list`)
    Proofs(proofs::Options),
    /// Run servers over a simulated store with choices drawn from a seed (`--seed N`, `--seeds N`),
    /// and check their promises
    Simulate(simulate::Options),
    /// Check formatting, and run clippy with warnings as errors
    Lint,
    /// Check that every dependency has an accepted licence
    Licenses,
    /// Check dependencies against the advisory database, if it answers
    Advisories,
    /// Run each fuzz target for a while
    Fuzz(fuzz::Options),
    /// Build the program for older systems, and make its packages and their sums in target/packages: a
    /// tarball, the Debian package, the image of a container, and a wheel of Python
    Package,
    /// Make stores of both engines that every later program must read (`fixture NAME`)
    Fixture(fixture::Options),
    /// Write the tables of docs/configuration.md and packaging/penates.toml from the settings in the
    /// code
    Configuration,
    /// Write the rows of instruments/benches/RESULTS.md from the reports in instruments/benches/results
    Results,
}

fn main() -> Result<()> {
    match Cli::parse().chore {
        Chore::Test(options) => test::run(&options),
        Chore::Proofs(options) => proofs::run(&options),
        Chore::Simulate(options) => simulate::run_seeds(&options),
        Chore::Lint => lint(),
        Chore::Licenses => licenses::check(),
        Chore::Advisories => advisories::check(),
        Chore::Fuzz(options) => fuzz::run(&options),
        Chore::Package => package::make(),
        Chore::Fixture(options) => fixture::make(&options),
        Chore::Configuration => configuration::write(),
        Chore::Results => results::write(),
    }
}

fn lint() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))?;
    // A program for stores in folders only.
    let embedded = ["-p", "penates", "--lib", "--bins", "--no-default-features"];
    run(cargo().arg("clippy").args(embedded).args(["--locked", "--", "-D", "warnings"]))
}

/// Cargo, in the workspace's root.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The root of the workspace.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default()
}

/// The files of Rust below a folder.
#[cfg(test)]
fn sources(folder: &std::path::Path) -> Vec<PathBuf> {
    let is_source = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    files(folder).into_iter().filter(is_source).collect()
}

/// All files below a folder; none if it does not exist.
#[cfg(test)]
fn files(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Runs a command to its end. Fails if the command fails.
fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Whether this is continuous integration, where no test may be left out.
fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}
