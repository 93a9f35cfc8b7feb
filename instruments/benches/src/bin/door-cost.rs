//! Measures the cost of door and protocol alone, and the cost that the engine adds. See
//! `instruments/benches/README.md`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use benches::run::{Settings, run};
use benches::subject::Counts;
use clap::Parser;

/// The program's allocator, as in the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures the data door without listeners, over the embedded engine and over one that answers
/// constants at once.
#[derive(Debug, Parser)]
struct Arguments {
    /// Volumes of the corpus.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    volumes: u64,
    /// Pages per volume [default: as many as the samples have]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pages_per_volume: Option<u32>,
    /// Seed for drawing pages.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of repetitions.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Pages requested in one measurement.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    pages: u64,
    /// Calls of the store in one measurement.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    calls: u64,
    /// Write all measurements into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { volumes, pages_per_volume, seed, repetitions, pages, calls, json } = Arguments::parse();
    let settings = Settings { volumes, pages_per_volume, seed, repetitions, counts: Counts { pages, calls } };
    // On a worker of the runtime, where a server handles its requests too.
    let report = tokio::spawn(run(settings)).await??;
    print!("{report}");
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}
