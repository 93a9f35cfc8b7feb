//! Measures the data door, compared with nginx, Java and bare programs. See `instruments/benches/README.md`.

use std::path::PathBuf;

use anyhow::Result;
use benches::data_door::bench::{Bench, Settings};
use benches::data_door::{
    bulk, cold, hostile, https, import, java, levels, libraries, many, memory, nginx, page, range, selection, start,
};
use benches::machine::Machine;
use benches::rig::figures::Figures;
use benches::rig::penates::Penates;
use benches::rig::report::Report;
use benches::rig::run::{self, Benchmarks};
use clap::{Parser, ValueEnum};

/// Measures the data door as its users see it, and compares the figures with their targets.
#[derive(Debug, Parser)]
struct Arguments {
    /// What to measure.
    #[arg(required = true)]
    what: Vec<What>,
    /// Volumes of the store.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..))]
    volumes: u64,
    /// Volumes where fewer are enough.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    few: u64,
    /// Pages per volume [default: as many as the samples have]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pages_per_volume: Option<u32>,
    /// Seed for drawing pages.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of repetitions.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// How long a measurement under load lasts.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    seconds: f64,
    /// Folder for stores, which are kept for the next run (4 GB for 5,000 volumes) [default: a
    /// temporary folder]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// The program to measure [default: built now, from this workspace]
    #[arg(long, value_name = "FILE")]
    penates: Option<PathBuf>,
    /// Write all measurements into this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// All of them
    All,
    /// Archives over HTTP, beside nginx that sends the same archive as a finished file
    Bulk,
    /// Archives beside a Java program that makes its ZIP while it sends it
    Java,
    /// Archives over HTTPS, beside nginx
    Https,
    /// Archives that are compressed again, beside the DEFLATE library alone
    Levels,
    /// DEFLATE libraries beside each other
    Libraries,
    /// A selection of all volumes: making it, and its first byte
    Selection,
    /// A megabyte out of the middle of a selection
    Range,
    /// Single pages over 32 connections
    Page,
    /// 16 bulk clients at once, and a client of single pages beside them
    Many,
    /// Memory while slow clients download everything
    Memory,
    /// Memory and honest clients beside hostile ones
    Hostile,
    /// An import, beside a bare program that does the obligatory work
    Import,
    /// Start with all volumes stored, and memory when idle
    Start,
    /// Archives when nothing of the store is in memory, beside the disk
    Cold,
}

impl Benchmarks for What {
    type Bench = Bench;
    const ALL: Self = Self::All;

    fn run(self, bench: &mut Bench) -> Result<Figures> {
        match self {
            Self::All => Ok(Figures::default()),
            Self::Bulk => bulk::run(bench),
            Self::Java => java::run(bench),
            Self::Https => https::run(bench),
            Self::Levels => levels::run(bench),
            Self::Libraries => libraries::run(bench),
            Self::Selection => selection::run(bench),
            Self::Range => range::run(bench),
            Self::Page => page::run(bench),
            Self::Many => many::run(bench),
            Self::Memory => memory::run(bench),
            Self::Hostile => hostile::run(bench),
            Self::Import => import::run(bench),
            Self::Start => start::run(bench),
            Self::Cold => cold::run(bench),
        }
    }

    fn left_out(bench: &Bench) -> &[String] {
        bench.left_out()
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let machine = Machine::find();
    let settings = Settings {
        volumes: arguments.volumes,
        few: arguments.few.min(arguments.volumes),
        pages_per_volume: arguments.pages_per_volume,
        seed: arguments.seed,
        repetitions: arguments.repetitions,
        seconds: arguments.seconds,
    };
    let temporary = tempfile::tempdir()?;
    let folder = arguments.work.as_deref().unwrap_or(temporary.path());
    let mut bench = Bench::new(settings.clone(), folder, Penates::find(arguments.penates.as_deref())?)?;

    let report = Report::new(machine, peers(), settings);
    run::run(&arguments.what, &mut bench, report, arguments.json.as_deref())
}

fn peers() -> Vec<String> {
    nginx::version().into_iter().chain(java::version()).collect()
}
