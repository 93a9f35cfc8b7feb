//! `cargo xtask simulate`: runs seeds, and reports which failed and how to replay them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use simulator::{Options, Report, simulate};

/// Runs servers over a simulated store, every choice drawn from a seed, and checks that what they
/// promise holds
#[derive(Parser)]
#[command(name = "cargo xtask simulate")]
struct Cli {
    /// The one seed to run; prints the last events of the run
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// How many seeds to run
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The step from one seed to the next: seeds that are 16 apart are of the same world
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Stop a run after this many steps
    #[arg(long)]
    stop_at: Option<u64>,
    /// Leave out this rule of docs/protocols.md: reports the first seed that finds it, and fails if
    /// none does
    #[arg(long)]
    leave_out: Option<heads::Rule>,
    /// Announce changes, and let consumers follow them: another world of each seed
    #[arg(long)]
    feed: bool,
    /// Keep records, and nothing else: another world of each seed
    #[arg(long, conflicts_with = "feed")]
    records: bool,
    /// Keep records, most of them of attributes that expire by themselves: another world of each
    /// seed
    #[arg(long, conflicts_with_all = ["feed", "records"])]
    attributes: bool,
    /// Keep records in mode fast: another world of each seed
    #[arg(long, conflicts_with_all = ["feed", "records", "attributes"])]
    fast: bool,
    /// Keep records in a data folder, and change several of them without waiting in between: another
    /// world of each seed
    #[arg(long, conflicts_with_all = ["feed", "records", "attributes", "fast"])]
    pipelined: bool,
    /// Give turns back too early there: reports the first seed that finds it, and fails if none does
    #[arg(long, requires = "pipelined")]
    careless: bool,
    /// Let clients make transactions too: another world of each seed
    #[arg(long, conflicts_with_all = ["records", "attributes", "fast", "pipelined"])]
    transactions: bool,
    /// Let clients make transactions, also in archival groups: another world of each seed
    #[arg(long, conflicts_with_all = ["records", "attributes", "fast", "pipelined", "transactions"])]
    groups: bool,
    /// Let clients ask for versions, send some with their times, and restore and remove some, in a
    /// tree where only those are kept that were asked for and elsewhere: another world of each seed
    #[arg(long, conflicts_with_all = ["records", "attributes", "fast", "pipelined", "transactions", "groups"])]
    versions: bool,
    /// Copy the store into another one meanwhile, by copies that fail and die; in the end the last
    /// one takes over: another world of each seed
    #[arg(long, conflicts_with = "fast")]
    copies: bool,
    /// Run on after a failure
    #[arg(long)]
    keep_going: bool,
}

/// How often a long run says on standard error how far it is.
const REPORTED_EVERY: Duration = Duration::from_secs(60);

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let (from, count) = cli.seed.map_or((cli.from, cli.seeds), |seed| (seed, 1));
    let began = Instant::now();
    let mut reported = began;
    let (mut steps, mut operations, mut failed) = (0, 0, 0);
    for nth in 0..count {
        if reported.elapsed() >= REPORTED_EVERY {
            reported = Instant::now();
            eprintln!("{nth} of {count} seeds, {failed} failed, {:.0?}", began.elapsed());
        }
        let seed = from + nth * cli.every;
        let Cli { stop_at, leave_out: left_out, feed, records, attributes, fast, transactions, groups, .. } = cli;
        let Cli { versions, pipelined, careless, copies, .. } = cli;
        let options = Options {
            seed,
            stop_at,
            left_out,
            feed,
            transactions,
            groups,
            versions,
            records,
            attributes,
            fast,
            pipelined,
            careless,
            copies,
        };
        let report = simulate(options)?;
        steps += report.steps;
        operations += report.operations;
        if cli.seed.is_some() {
            show(&report);
        }
        let Some(violation) = &report.violation else { continue };
        failed += 1;
        println!("seed {seed}, step {}, trace {:016x}: {violation}", report.steps, report.hash);
        if cli.seed.is_none() {
            let left_out = cli.leave_out.map(|rule| format!(" --leave-out {rule}")).unwrap_or_default();
            let worlds = [
                (cli.feed, " --feed"),
                (cli.records, " --records"),
                (cli.attributes, " --attributes"),
                (cli.fast, " --fast"),
                (cli.careless, " --pipelined --careless"),
                (cli.pipelined, " --pipelined"),
            ];
            let world = worlds.into_iter().find_map(|(is_it, name)| is_it.then_some(name)).unwrap_or_default();
            let clients = match (cli.transactions, cli.groups, cli.versions) {
                (true, ..) => " --transactions",
                (_, true, _) => " --groups",
                (.., true) => " --versions",
                _ => "",
            };
            let copies = if cli.copies { " --copies" } else { "" };
            let world = format!("{world}{clients}{copies}");
            println!("see it again: cargo xtask simulate --seed {seed}{left_out}{world}");
        }
        if !cli.keep_going {
            break;
        }
    }
    println!("{steps} steps and {operations} operations in {:.1?}; {failed} failed", began.elapsed());
    // A run without a rule, or with a mistake, has to find a failure.
    let is_right = (failed > 0) == (cli.leave_out.is_some() || cli.careless);
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(report: &Report) {
    println!("{}", report.setup);
    report.last.iter().for_each(|line| println!("{line}"));
    println!("{} steps, {} operations, trace {:016x}", report.steps, report.operations, report.hash);
}
