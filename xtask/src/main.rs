//! The project's own chores, one subcommand each. `cargo xtask test` is what a newcomer runs and what `.ci/run` calls.

mod advisories;
mod fuzz;
mod licenses;
mod proofs;
mod simulate;
mod test;
mod tools;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Installs or finds what tests need, runs all of them, and ends with the list of what did not run and why
    Test(test::Options),
    /// Runs what takes minutes on several Cassandra nodes: what is promised while nodes, data centers and servers die
    Proofs,
    /// Runs servers over a simulated store, every choice drawn from a seed (`--seed N`, `--seeds N`), and checks what they promise
    Simulate(simulate::Options),
    /// Formatting, and clippy with warnings as errors
    Lint,
    /// Checks that every dependency's licence is one we accept
    Licenses,
    /// Checks dependencies against the advisory database, where it answers
    Advisories,
    /// Runs each fuzz target for a while
    Fuzz(fuzz::Options),
}

fn main() -> Result<()> {
    match Cli::parse().chore {
        Chore::Test(options) => test::run(&options),
        Chore::Proofs => proofs::run(),
        Chore::Simulate(options) => simulate::run_seeds(&options),
        Chore::Lint => lint(),
        Chore::Licenses => licenses::check(),
        Chore::Advisories => advisories::check(),
        Chore::Fuzz(options) => fuzz::run(&options),
    }
}

fn lint() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
}

/// Cargo, in the workspace's root.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The workspace's root.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default()
}

/// Runs a command to its end; fails if it fails.
fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Whether this is a run of continuous integration, where nothing may be left out.
fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}
