//! `lares completions` and `lares man`

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;

/// Arguments of `lares completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lares completions bash > ~/.local/share/bash-completion/completions/lares")]
pub struct CompletionsArgs {
    /// Which shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `lares man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lares man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// The folder to write them into; created if missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints a completion script.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    terminal::documents::completions(args.shell, Cli::command())
}

/// Writes manual pages.
pub fn man(args: &ManArgs) -> anyhow::Result<()> {
    terminal::documents::manual(Cli::command(), &args.folder)
}
