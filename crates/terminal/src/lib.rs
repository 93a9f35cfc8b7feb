//! What a program of the command line shares with its terminal and its caller: for `penates` and for `lares`.
//!
//! How to read it:
//!
//! - `output.rs`: standard output as lines, tables and JSON, and [`note!`] for standard error.
//! - `exit.rs`: errors that have an exit code.
//! - `interrupt.rs`: Ctrl-C and the signals that ask a process to end.
//! - `build.rs`, `documents.rs`: from what the program was built; its manual pages and completions.

// First, because of its macro.
#[macro_use]
pub mod output;

pub mod build;
pub mod documents;
pub mod exit;
pub mod interrupt;

use clap::Args;

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OutputArgs {
    /// Print JSON (lists: one object per line).
    #[arg(long)]
    pub json: bool,
}
