//! `penates man`

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::cli::Cli;

/// Arguments of `penates man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// The folder to write them into; created if missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs it.
pub fn run(args: ManArgs) -> anyhow::Result<()> {
    let writing = || format!("writing manual pages into {}", args.folder.display());
    std::fs::create_dir_all(&args.folder).with_context(writing)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).with_context(writing)
}
