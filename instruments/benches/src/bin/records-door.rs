//! Measures the records door, beside redis-server. See `instruments/benches/README.md`.

use std::path::PathBuf;

use anyhow::Result;
use benches::machine::Machine;
use benches::records_door::bench::{Bench, Settings};
use benches::records_door::centers::Profile;
use benches::records_door::subject::Kind;
use benches::records_door::{centers, costs, expiring, exporting, fill, larger, mixes, over_time, peak};
use benches::rig::figures::Figures;
use benches::rig::penates::Penates;
use benches::rig::report::Report;
use benches::rig::run::{self, Benchmarks};
use clap::{Parser, ValueEnum};

/// Measures the records door as its users see it, and compares the figures with their targets.
#[derive(Debug, Parser)]
struct Arguments {
    /// What to measure.
    #[arg(required = true)]
    what: Vec<What>,
    /// Servers to compare.
    #[arg(
        long,
        value_name = "SERVER",
        value_delimiter = ',',
        default_value = "penates,penates-everysec,redis-always,redis-everysec"
    )]
    subjects: Vec<Kind>,
    /// Stored records.
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    records: u64,
    /// Operations per second of open loops.
    #[arg(long, value_name = "N", default_value_t = 10_000.0)]
    rate: f64,
    /// Connections of closed loops.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,50,500")]
    connections: Vec<usize>,
    /// Number of repetitions.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// How long a measurement under load lasts.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    seconds: f64,
    /// Look for the highest rate at which targets are met on Cassandra, in `mixes` and `centers`.
    #[arg(long)]
    highest: bool,
    /// Nodes in each data center of `centers`. Each has a copy of everything.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    center_nodes: u8,
    /// The consistency level of reads in `centers`.
    #[arg(long, value_name = "LEVEL", default_value = "LOCAL_ONE")]
    read_level: String,
    /// The consistency level of writes in `centers`.
    #[arg(long, value_name = "LEVEL", default_value = "LOCAL_QUORUM")]
    write_level: String,
    /// Folder for stores, which are deleted [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Where charts are written.
    #[arg(long, value_name = "DIR", default_value = "instruments/benches/records")]
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
    /// The highest rates, by redis-benchmark
    Peak,
    /// Many records: how fast they are written, and what they take
    Fill,
    /// Reads and writes at a given rate
    Mixes,
    /// Reads while records expire
    Expiring,
    /// Reads while all records are exported, verified and copied, as many are imported, and all are
    /// replaced by an import
    Exporting,
    /// Reads and writes of records that take four times the memory of the server
    Larger,
    /// How many reads and writes of such records are late in each second, drawn as a chart
    OverTime,
    /// Reads and writes at a given rate in two data centers, half of it in each
    Centers,
    /// What operations and records cost in processor time and on disk
    Costs,
}

impl Benchmarks for What {
    type Bench = Bench;
    const ALL: Self = Self::All;

    fn run(self, bench: &mut Bench) -> Result<Figures> {
        match self {
            Self::All => Ok(Figures::default()),
            Self::Peak => peak::run(bench),
            Self::Fill => fill::run(bench),
            Self::Mixes => mixes::run(bench),
            Self::Expiring => expiring::run(bench),
            Self::Exporting => exporting::run(bench),
            Self::Larger => larger::run(bench),
            Self::OverTime => over_time::run(bench),
            Self::Centers => centers::run(bench),
            Self::Costs => costs::run(bench),
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
        subjects: arguments.subjects,
        records: arguments.records,
        rate: arguments.rate,
        connections: arguments.connections,
        repetitions: arguments.repetitions,
        seconds: arguments.seconds,
        highest: arguments.highest,
        centers: Profile { nodes: arguments.center_nodes, read: arguments.read_level, write: arguments.write_level },
    };
    let temporary = tempfile::tempdir()?;
    let work = arguments.work.as_deref().unwrap_or(temporary.path());
    let penates = Penates::find(arguments.penates.as_deref())?;
    let mut bench = Bench::new(settings.clone(), &work.join("running"), arguments.charts, penates)?;
    let peers = settings.subjects.iter().filter(|kind| !kind.is_penates()).map(ToString::to_string).collect();
    let report = Report::new(machine, peers, settings);
    run::run(&arguments.what, &mut bench, report, arguments.json.as_deref())
}
