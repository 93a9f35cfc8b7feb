//! The HTRC study, repeated. See `instruments/benches/STUDY.md`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use benches::study::served::{SERVE, SERVE_ZIP};
use benches::study::settings::Settings;
use benches::study::{Stage, finished, run};
use clap::Parser;

/// The program's allocator, as in the server, which this binary is too.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures where the time of a bulk download goes, stage by stage: tables, figures, and all trials
/// as JSON.
#[derive(Debug, Parser)]
struct Arguments {
    /// More volumes: hours instead of minutes.
    #[arg(long, conflicts_with = "tiny")]
    full: bool,
    /// A handful of pages: seconds, for tests; its figures mean nothing.
    #[arg(long)]
    tiny: bool,
    /// Measure only these stages; what the folder has of the others stays.
    #[arg(long, value_name = "STAGE", value_delimiter = ',', conflicts_with = "draw")]
    only: Option<Vec<Stage>>,
    /// Measure nothing: draw figures and tables of what the folder has.
    #[arg(long)]
    draw: bool,
    /// Trials of each point [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    trials: Option<u32>,
    /// Where tables, figures and JSON go.
    #[arg(long, value_name = "DIR", default_value = "study")]
    out: PathBuf,
}

impl Arguments {
    fn settings(&self) -> Settings {
        let settings = match (self.full, self.tiny) {
            (true, _) => Settings::full(),
            (_, true) => Settings::tiny(),
            _ => Settings::short(),
        };
        Settings { trials: self.trials.unwrap_or(settings.trials), ..settings }
    }

    fn stages(&self) -> Vec<Stage> {
        let none = || self.draw.then(Vec::new);
        self.only.clone().or_else(none).unwrap_or_else(|| Stage::ALL.into())
    }
}

fn main() -> ExitCode {
    // The measured servers are this binary again, so that nothing else must be built and nothing
    // outdated is measured.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [first, ..] if first == SERVE => return penates::main(),
        [first, zip, certificate, http, https] if first == SERVE_ZIP => {
            on_runtime(finished::serve(Path::new(zip), Path::new(certificate), http, https))
        }
        _ => study(&Arguments::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn study(arguments: &Arguments) -> Result<()> {
    let binary = std::env::current_exe()?;
    let tables = on_runtime(run(&arguments.stages(), &arguments.settings(), &arguments.out, &binary))?;
    print!("{tables}");
    Ok(())
}

fn on_runtime<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}
