//! Measures a store in Cassandra, compared with the node and its driver alone. See
//! `instruments/benches/README.md`.

use std::path::PathBuf;

use anyhow::Result;
use benches::cassandra::bench::{Bench, Settings};
use benches::cassandra::node::Node;
use benches::cassandra::{bulk, dras_tic, import, members, points, readers};
use benches::machine::Machine;
use benches::rig::figures::Figures;
use benches::rig::penates::Penates;
use benches::rig::report::Report;
use benches::rig::run::{self, Benchmarks};
use clap::{Parser, ValueEnum};
use cluster::CommitlogSync;

/// The program's allocator, as in the server: some benchmarks call the store in this process.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures a store in a Cassandra node of its own, and compares the figures with their targets.
#[derive(Debug, Parser)]
struct Arguments {
    /// What to measure.
    #[arg(required = true)]
    what: Vec<What>,
    /// Volumes of the store.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
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
    /// How long a measurement under load lasts.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    seconds: f64,
    /// Warm-up of the node before archives count.
    #[arg(long, value_name = "SECONDS", default_value_t = 90.0)]
    warm_up: f64,
    /// Connections of closed loops.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "32")]
    connections: Vec<usize>,
    /// Point reads per second, and as many point writes.
    #[arg(long, value_name = "N", default_value_t = 5_000.0)]
    rate: f64,
    /// Readers of the whole service.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,4,8,12,16")]
    readers: Vec<usize>,
    /// Members of the big container.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    members: u64,
    /// The heap of the node in MiB [default: what fits the machine]
    #[arg(long, value_name = "MIB")]
    heap: Option<u32>,
    /// When the node acknowledges a write: periodic, batch or group, perhaps with a time
    /// (group:5ms).
    #[arg(long, value_name = "MODE", default_value = "periodic")]
    commitlog_sync: CommitlogSync,
    /// Folder for volumes, which are kept for the next run, and for the data of the node, which is
    /// deleted [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Where charts are written.
    #[arg(long, value_name = "DIR", default_value = "instruments/benches/cassandra")]
    charts: PathBuf,
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
    /// Archives, beside the driver alone that reads the same packs
    Bulk,
    /// An import, beside the driver alone that writes the same rows
    Import,
    /// Containers with two triples and a binary of 1 KB in each, in a closed loop
    DrasTic,
    /// Point reads and writes of 400 B with a deadline, in an open loop
    Points,
    /// Readers of the whole service, with caches on and off
    Readers,
    /// A container of a million: creating in it, listing it, and its partitions
    Members,
}

impl Benchmarks for What {
    type Bench = Bench;
    const ALL: Self = Self::All;

    fn run(self, bench: &mut Bench) -> Result<Figures> {
        match self {
            Self::All => Ok(Figures::default()),
            Self::Bulk => bulk::run(bench),
            Self::Import => import::run(bench),
            Self::DrasTic => dras_tic::run(bench),
            Self::Points => points::run(bench),
            Self::Readers => readers::run(bench),
            Self::Members => members::run(bench),
        }
    }

    fn left_out(_: &Bench) -> &[String] {
        // Nothing can be measured without a node.
        &[]
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let machine = Machine::find();
    let settings = Settings {
        volumes: arguments.volumes,
        pages_per_volume: arguments.pages_per_volume,
        seed: arguments.seed,
        repetitions: arguments.repetitions,
        seconds: arguments.seconds,
        warm_up_seconds: arguments.warm_up,
        connections: arguments.connections,
        rate: arguments.rate,
        readers: arguments.readers,
        members: arguments.members,
        heap_mib: arguments.heap,
        commitlog_sync: arguments.commitlog_sync,
    };
    let temporary = tempfile::tempdir()?;
    let folder = arguments.work.as_deref().unwrap_or(temporary.path());
    let penates = Penates::find(arguments.penates.as_deref())?;
    let mut bench = Bench::new(settings.clone(), folder, arguments.charts, penates)?;
    let report = Report::new(machine, vec![Node::version()], settings);
    run::run(&arguments.what, &mut bench, report, arguments.json.as_deref())
}
