//! `lares testbed file`

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use terminal::exit::CliError;
use testbed::archive::ArchivedRun;
use testbed::candidate::command;
use tokio::process::Command;

/// Arguments of `lares testbed file`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed file testbed-runs/2026-11-22T101500Z-ingest
  lares testbed file testbed-runs/2026-11-22T101500Z-ingest --into measurements -- --server https://books.example.org")]
pub struct FileArgs {
    /// The folder of a run.
    run: PathBuf,
    /// The container that gets a container for the run.
    #[arg(long, value_name = "RESOURCE", default_value = "testbed-runs")]
    into: String,
    /// Options of `penates load` that say where the repository is, such as `--server URL`.
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Checks the run, and lets `penates` load its files.
pub async fn run(args: FileArgs) -> anyhow::Result<()> {
    let record = ArchivedRun::at(&args.run).record();
    let id = record.with_context(|| format!("{} is no run", args.run.display()))?.id;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '-';
    ensure!(!id.is_empty() && id.chars().all(is_plain), "the record has an id that no run has: {id:?}");
    let into = format!("{}/{id}", args.into.trim_matches('/'));
    let itself = std::env::current_exe().context("finding the program")?;
    let penates = command::penates(&itself);
    let mut load = Command::new(&penates);
    load.args(["load", "--into", &into]).args(&args.options).arg(&args.run);
    let starting = || {
        let variable = command::PENATES_VARIABLE;
        format!("starting `{}`, which keeps runs; install it, or name it in {variable}", penates.display())
    };
    let status = load.status().await.with_context(starting)?;
    match status.code() {
        Some(0) => Ok(()),
        // It has said why.
        _ => Err(CliError::Incomplete.into()),
    }
}
