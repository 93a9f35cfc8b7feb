//! Measures the repository door, compared with Fedora, the Community Solid Server and plain
//! copying. See `instruments/benches/README.md`.

use std::path::PathBuf;

use anyhow::Result;
use benches::machine::Machine;
use benches::repository_door::bench::{Bench, Settings};
use benches::repository_door::subject::Kind;
use benches::repository_door::{
    arrivals, feed, fixity, ingest, large, members, moving, quads, reading, search, transactions, versions,
};
use benches::rig::figures::Figures;
use benches::rig::penates::Penates;
use benches::rig::report::Report;
use benches::rig::run::{self, Benchmarks};
use clap::{Parser, ValueEnum};

/// Measures the repository door as its users see it, and compares the figures with their targets.
#[derive(Debug, Parser)]
struct Arguments {
    /// What to measure.
    #[arg(required = true)]
    what: Vec<What>,
    /// Servers to compare.
    #[arg(long, value_name = "SERVER", value_delimiter = ',', default_value = "penates")]
    subjects: Vec<Kind>,
    /// Connections of closed loops.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,8,32,256")]
    connections: Vec<usize>,
    /// Number of repetitions.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// How long a measurement under load lasts.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    seconds: f64,
    /// Small resources to read, update or search for.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    resources: u64,
    /// Members of the big container.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    members: u64,
    /// Bytes of the large binary.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    large_bytes: u64,
    /// Resources in one request.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    many: u64,
    /// Versions of the resource in which one is looked for.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    versions: u64,
    /// Events that many consumers read.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    events: u64,
    /// Folder for stores, which are deleted, and for programs of peers, which are kept for the next
    /// run [default: a temporary folder]
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
    /// Containers with two triples and a binary of 1 KB in each, in a closed loop
    Ingest,
    /// The same as arrivals, in steps until one no longer holds
    Arrivals,
    /// Small RDF sources and binaries of 1 KB
    Reading,
    /// A large binary up and down, beside plain copying
    Large,
    /// A container of a million: creating in it, listing it, listing it as of an earlier time
    Members,
    /// Many resources in one request
    Quads,
    /// Updates that keep versions, and finding a version among very many
    Versions,
    /// The change feed: what it costs writers, many consumers, and how late events come
    Feed,
    /// The search among a million resources, and how soon it finds a change
    Search,
    /// The auditor: how fast it reads, and what it costs readers
    Fixity,
    /// Resources created in transactions of a hundred, and without
    Transactions,
    /// The storage root of a Fedora, loaded, beside the rate at which Fedora took it in
    Moving,
}

impl Benchmarks for What {
    type Bench = Bench;
    const ALL: Self = Self::All;

    fn run(self, bench: &mut Bench) -> Result<Figures> {
        match self {
            Self::All => Ok(Figures::default()),
            Self::Ingest => ingest::run(bench),
            Self::Arrivals => arrivals::run(bench),
            Self::Reading => reading::run(bench),
            Self::Large => large::run(bench),
            Self::Members => members::run(bench),
            Self::Quads => quads::run(bench),
            Self::Versions => versions::run(bench),
            Self::Feed => feed::run(bench),
            Self::Search => search::run(bench),
            Self::Fixity => fixity::run(bench),
            Self::Transactions => transactions::run(bench),
            Self::Moving => moving::run(bench),
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
        connections: arguments.connections,
        repetitions: arguments.repetitions,
        seconds: arguments.seconds,
        resources: arguments.resources,
        members: arguments.members,
        large_bytes: arguments.large_bytes,
        many: arguments.many,
        versions: arguments.versions,
        events: arguments.events,
    };
    let temporary = tempfile::tempdir()?;
    let work = arguments.work.as_deref().unwrap_or(temporary.path());
    let penates = Penates::find(arguments.penates.as_deref())?;
    let mut bench = Bench::new(settings.clone(), &work.join("running"), &work.join("peers"), penates)?;

    let peers = settings.subjects.iter().filter(|kind| **kind != Kind::Penates).map(ToString::to_string).collect();
    let report = Report::new(machine, peers, settings);
    run::run(&arguments.what, &mut bench, report, arguments.json.as_deref())
}
