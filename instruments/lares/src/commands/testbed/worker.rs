//! `lares testbed worker`

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};
use testbed::record::Machine;
use testbed::worker::{Worker, WorkerError};

use terminal::exit::{CliError, full_message};
use terminal::output::Output;

/// The token of workers that a coordinator starts itself.
pub const TOKEN_VARIABLE: &str = "PENATES_TESTBED_TOKEN";

/// Arguments of `lares testbed worker`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lares testbed worker --listen 10.0.0.7:7400 --token-file worker.token")]
pub struct WorkerArgs {
    /// Where coordinators reach it.
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A file with the token that coordinators must know.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// End after the first coordinator.
    #[arg(long)]
    once: bool,
}

/// Works until it is killed.
pub fn run(args: WorkerArgs) -> anyhow::Result<()> {
    let token = match &args.token_file {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?,
        None => std::env::var(TOKEN_VARIABLE).unwrap_or_default(),
    };
    let token = token.trim().to_owned();
    if token.is_empty() {
        let help = "a worker needs a token: write one into a file and name it by --token-file";
        return Err(CliError::Usage(help.to_owned()).into());
    }
    if args.once {
        // It belongs to the process that has started it, and ends with it.
        set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    let listener = TcpListener::bind(args.listen).with_context(|| format!("listening on {}", args.listen))?;
    let mut output = Output::stdout();
    output.line(format!("Listening on {}", listener.local_addr()?))?;
    output.finish()?;
    // The load has a runtime of its own, on a thread that does nothing else.
    let working = std::thread::spawn(move || {
        let worker = Worker { token, program: super::measure::program()?, machine: Machine::find(None) };
        let mut report = |error: &WorkerError| note!("lares: {}", full_message(error));
        if args.once {
            return Ok(worker.serve_once(listener, &mut report)??);
        }
        anyhow::Ok(worker.serve(listener, report)?)
    });
    working.join().map_err(|_| anyhow::anyhow!("the worker has failed"))?
}
