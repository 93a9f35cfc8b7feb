//! The command line.
//!
//! How to read it:
//!
//! - `cli.rs`: the commands and their common arguments. Each command is a module in `commands/`
//!   with its arguments and its `run`.
//! - `reach.rs`: how a command reaches the data: through a server elsewhere, through the socket of
//!   the server that holds the store, or through a router in this process. All three are one
//!   [`client::Client`], so a command is written once.
//! - `settings.rs`, `local.rs`: the effective configuration; a store that this process holds
//!   itself. `audited.rs` records what commands do to such a store. `without_cassandra.rs` stands in
//!   for the Cassandra engine in a program without the feature `cassandra`.
//! - `ingest/`: importing many volumes in parallel, into a store of this process or to a server.
//!   `download/`: downloads that resume. `wanted.rs`: volumes by conditions.
//! - `progress.rs`, `exit.rs` and the crate `terminal`: output for people and programs.

#[macro_use]
extern crate terminal;

mod audited;
pub mod cli;
pub mod client;
pub mod commands;
pub mod download;
pub mod exit;
pub mod ids;
pub mod ingest;
pub mod loading;
pub mod local;
pub mod progress;
pub mod reach;
pub mod resources;
mod resuming;
pub mod samples;
mod served;
pub mod settings;
pub mod wanted;

#[cfg(not(feature = "cassandra"))]
#[path = "without_cassandra.rs"]
mod cassandra;
#[cfg(feature = "cassandra")]
use store_cassandra as cassandra;
pub use terminal::{interrupt, output};

use std::io;
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};

/// Tokio takes the number of workers from this variable of the environment, unless the program sets
/// it.
const WORKERS_VARIABLE: &str = "TOKIO_WORKER_THREADS";

/// Parses the command line, runs the command, prints its error, and returns the exit code.
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&anyhow::Error::new(error).context("starting the runtime")),
    };
    let outcome = runtime.block_on(commands::run(cli.command));
    // Work on the blocking pool (such as a read of the terminal) must not keep the process alive.
    // Nor are the threads detached: glibc can crash if one ends at that moment.
    std::mem::forget(runtime);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

/// A runtime with one worker more than there are processors, unless the environment names another
/// number. A store in a folder may keep as many workers as there are processors while its disk
/// stalls. The one that is left serves others, and keeps deadlines.
fn runtime() -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if std::env::var_os(WORKERS_VARIABLE).is_none() {
        builder.worker_threads(thread::available_parallelism().map_or(1, usize::from) + 1);
    }
    builder.enable_all().build()
}
