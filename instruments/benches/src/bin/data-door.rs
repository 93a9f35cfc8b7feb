//! Measures the data door beside bare programs, and under attack. See `instruments/benches/README.md`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use benches::data_door::bench::{Bench, Settings};
use benches::data_door::{cassandra_bulk, cassandra_import, door_cost, hostile, import, levels, libraries};
use benches::machine::Machine;
use benches::rig::figures::Figures;
use benches::rig::penates::Penates;
use benches::rig::report::{Benchmark, Report};
use clap::{Parser, ValueEnum};
use cluster::CommitlogSync;

/// The program's allocator, as in the server: some benchmarks call the store in this process.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures the data door beside bare programs, and under attack, and compares the figures with their
/// targets.
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
    /// Warm-up of a node of Cassandra before archives count.
    #[arg(long, value_name = "SECONDS", default_value_t = 90.0)]
    warm_up: f64,
    /// The heap of the node in MiB [default: what fits the machine]
    #[arg(long, value_name = "MIB")]
    heap: Option<u32>,
    /// When the node acknowledges a write: periodic, batch or group, perhaps with a time
    /// (group:5ms).
    #[arg(long, value_name = "MODE", default_value = "periodic")]
    commitlog_sync: CommitlogSync,
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
    /// Archives that are compressed again, beside the DEFLATE library alone
    Levels,
    /// DEFLATE libraries beside each other
    Libraries,
    /// Memory and honest clients beside hostile ones
    Hostile,
    /// The door without listeners, over the embedded engine and over one that answers constants at once
    DoorCost,
    /// An import, beside a bare program that does the obligatory work
    Import,
    /// Archives from Cassandra, beside the driver alone that reads the same packs
    CassandraBulk,
    /// An import into Cassandra, beside the driver alone that writes the same rows
    CassandraImport,
}

impl What {
    fn run(self, bench: &mut Bench) -> Result<Figures> {
        match self {
            Self::All => Ok(Figures::default()),
            Self::Levels => levels::run(bench),
            Self::Libraries => libraries::run(bench),
            Self::Hostile => hostile::run(bench),
            Self::DoorCost => door_cost::run(bench),
            Self::Import => import::run(bench),
            Self::CassandraBulk => cassandra_bulk::run(bench),
            Self::CassandraImport => cassandra_import::run(bench),
        }
    }

    fn needs_cassandra(self) -> bool {
        matches!(self, Self::CassandraBulk | Self::CassandraImport)
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
        warm_up_seconds: arguments.warm_up,
        heap_mib: arguments.heap,
        commitlog_sync: arguments.commitlog_sync,
    };
    let temporary = tempfile::tempdir()?;
    let folder = arguments.work.as_deref().unwrap_or(temporary.path());
    let mut bench = Bench::new(settings.clone(), folder, Penates::find(arguments.penates.as_deref())?)?;
    let mut report = Report::new(machine, settings);
    let all = || What::value_variants().iter().copied().filter(|what| *what != What::All).collect();
    for what in if arguments.what.contains(&What::All) { all() } else { arguments.what } {
        let name = what.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        eprintln!("{name}");
        match cluster::prerequisites() {
            Err(why) if what.needs_cassandra() => report.left_out.push(format!("{name}: {why}")),
            _ => {
                let figures = what.run(&mut bench).with_context(|| name.clone())?;
                report.benchmarks.push(Benchmark { name, figures });
            }
        }
        if let Some(file) = &arguments.json {
            let text = serde_json::to_string_pretty(&report)?;
            std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
        }
    }
    print!("{report}");
    Ok(())
}
