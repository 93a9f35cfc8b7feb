//! Measures the testbed's generator beside k6, wrk and hey. See `instruments/benches/README.md`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use benches::generators::bench::{Settings, pins, run};
use benches::generators::report::Report;
use benches::generators::tool::Tool;
use benches::machine::Machine;
use benches::rig::penates::Penates;
use clap::Parser;

/// Measures how many requests generators make per second, and what one costs them, with a server that does
/// nothing.
#[derive(Debug, Parser)]
struct Arguments {
    /// Generators to compare.
    #[arg(
        long,
        value_name = "GENERATOR",
        value_delimiter = ',',
        default_value = "penates-open,k6-open,penates-closed,k6-closed,wrk,hey"
    )]
    generators: Vec<Tool>,
    /// Connections of closed loops.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: u32,
    /// Requests per second of open loops.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Number of repetitions.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// How long a load lasts.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Bytes of the body of each response.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    body_bytes: u32,
    /// The program to measure [default: built now, from this workspace]
    #[arg(long, value_name = "FILE")]
    penates: Option<PathBuf>,
    /// Write all measurements into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> Result<()> {
    let Arguments { generators, connections, rate, repetitions, seconds, body_bytes, penates, json } =
        Arguments::parse();
    let machine = Machine::find();
    let pinned = pins(machine.processors);
    let settings = Settings { tools: generators, connections, rate, repetitions, seconds, body_bytes, pinned };
    let (penates, folder) = (Penates::find(penates.as_deref())?, tempfile::tempdir()?);
    let rows = run(&settings, &penates, folder.path())?;
    let report = Report { machine, settings, rows };
    print!("{report}");
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}
