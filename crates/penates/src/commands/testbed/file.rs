//! `penates testbed file`

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use testbed::archive::ArchivedRun;

use crate::cli::WriteArgs;
use crate::commands::load::{self, LoadArgs};
use crate::resources::BaseArgs;

/// Arguments of `penates testbed file`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates testbed file testbed-runs/2026-11-22T101500Z-ingest
  penates testbed file testbed-runs/2026-11-22T101500Z-ingest --into measurements --server https://books.example.org")]
pub struct FileArgs {
    /// The folder of a run.
    run: PathBuf,
    /// The container that gets a container for the run.
    #[arg(long, value_name = "RESOURCE", default_value = "testbed-runs")]
    into: String,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// Where.
    #[command(flatten)]
    write: WriteArgs,
}

/// Checks the run, and loads its files.
pub async fn run(args: FileArgs) -> anyhow::Result<()> {
    let record = ArchivedRun::at(&args.run).record();
    let id = record.with_context(|| format!("{} is no run", args.run.display()))?.id;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '-';
    ensure!(!id.is_empty() && id.chars().all(is_plain), "the record has an id that no run has: {id:?}");
    let into = format!("{}/{id}", args.into.trim_matches('/'));
    load::run(LoadArgs::of_bag(args.run, into, args.base, args.write)).await
}
