//! `penates man`

use std::path::PathBuf;

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
    terminal::documents::manual(Cli::command(), &args.folder)
}
