//! Lares, the program of the instruments: it measures and judges servers, whether they are Penates or not.
//!
//! How to read it:
//!
//! - `cli.rs`: the commands. Each is a module in `commands/` with its arguments and its `run`.
//! - `progress.rs` and the crate `terminal`: output for people and programs.
//!
//! The work is done in the crates `testbed`, `lab`, `cluster` and `conformance`. None of them opens a store of
//! Penates: they start its program, or send requests to its doors.

#[macro_use]
extern crate terminal;

mod cli;
mod commands;
mod progress;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Runtime;

/// Parses the command line, runs the command, prints its error, and returns the exit code.
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let outcome = match Runtime::new() {
        Ok(runtime) => {
            let outcome = runtime.block_on(cli::run(cli.command));
            // Work on the blocking pool must not keep the process alive.
            std::mem::forget(runtime);
            outcome
        }
        Err(error) => Err(anyhow::Error::new(error).context("starting the runtime")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => terminal::exit::report("lares", &error, None).unwrap_or(1).into(),
    }
}
