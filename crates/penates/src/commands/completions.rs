//! `penates completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;

/// Arguments of `penates completions`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates completions bash > ~/.local/share/bash-completion/completions/penates")]
pub struct CompletionsArgs {
    /// Which shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs it.
pub fn run(args: CompletionsArgs) -> anyhow::Result<()> {
    terminal::documents::completions(args.shell, Cli::command())
}
