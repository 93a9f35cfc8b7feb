//! `lares testbed`

mod cassandra;
mod compare;
mod file;
mod find;
mod jolokia;
mod list;
mod measure;
mod monitor;
mod null;
mod plans;
mod publish;
mod run;
mod serve;
mod study;
mod worker;

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `lares testbed`.
#[derive(Debug, Args)]
pub struct TestbedArgs {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Action {
    /// Put a server under the load of a plan, and keep what was measured.
    ///
    /// The command starts the candidate, or takes a server that runs. The exit code is 0 if it held
    /// the load, 1 if not, and 4 if the run says nothing about it.
    Run(run::RunArgs),
    /// Put several candidates under the load of a plan, in turn and repeatedly, and compare them.
    ///
    /// Each run starts its candidate again. The exit code is 4 if a run says nothing.
    Compare(compare::CompareArgs),
    /// Find the greatest load that a candidate holds.
    ///
    /// It doubles the load of a plan until a run does not hold it, then bisects, and confirms both
    /// ends by repeated runs. Each run starts the candidate again.
    Find(find::FindArgs),
    /// Find the greatest loads of several candidates, one after the other.
    ///
    /// The result is a table: a row for each candidate, plan and number of workers. What cannot be run
    /// has a row with the reason. A study that was interrupted goes on where it was.
    Study(study::StudyArgs),
    /// List the plans that come with the program, or print one with its scenarios.
    Plans(plans::PlansArgs),
    /// List the runs of an archive, the newest first.
    List(list::ListArgs),
    /// Keep a run in the repository of Penates, where it is versioned, found and cited.
    ///
    /// All its files are checked against their digests first.
    File(file::FileArgs),
    /// Write pages that show, filter and compare the runs of an archive.
    ///
    /// The pages are static files that need no server and no network. A folder that the command has
    /// written before gets what is new. Damaged runs are listed with the reason.
    Publish(publish::PublishArgs),
    /// Serve these pages by HTTP, and follow the archive.
    ///
    /// All runs can be read at the address. So it is of this machine unless you name another.
    Serve(serve::ServeArgs),
    /// Make load for a coordinator on another machine.
    ///
    /// The token is in the file that --token-file names. A coordinator that knows it can make this
    /// machine send requests to any address.
    Worker(worker::WorkerArgs),
    /// Watch this machine for a coordinator on another one.
    ///
    /// It samples the machine and the processes that you name, once a second while a load runs.
    /// Coordinators must know the token.
    Monitor(monitor::MonitorArgs),
    /// Print the option of Java that lets a node of Cassandra show its figures.
    ///
    /// It starts the agent of Jolokia in the node, which is fetched from Maven Central once. Monitors read
    /// the figures once a second.
    Jolokia(jolokia::JolokiaArgs),
    /// Print what is in force in a node of Cassandra: its version, that of its Java, and its settings.
    ///
    /// The node says so itself. Records of candidates with Cassandra have it, without passwords.
    Cassandra(cassandra::CassandraArgs),
    /// Serve the same bytes to every request, as fast as possible.
    Null(null::NullArgs),
}

/// Where runs are kept.
#[derive(Clone, Debug, Args)]
struct ArchiveArgs {
    /// The folder of the archive; it has a folder for each run.
    #[arg(long, value_name = "DIR", default_value = "testbed-runs")]
    archive: PathBuf,
}

/// Runs the command.
pub async fn run(args: TestbedArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Run(args) => run::run(args).await,
        Action::Compare(args) => compare::run(args).await,
        Action::Find(args) => find::run(args).await,
        Action::Study(args) => study::run(args).await,
        Action::Plans(args) => plans::run(&args),
        Action::List(args) => list::run(&args),
        Action::File(args) => file::run(args).await,
        Action::Publish(args) => publish::run(&args),
        Action::Serve(args) => serve::run(args).await,
        Action::Worker(args) => worker::run(args),
        Action::Monitor(args) => monitor::run(args).await,
        Action::Jolokia(args) => jolokia::run(args).await,
        Action::Cassandra(args) => cassandra::run(args).await,
        Action::Null(args) => null::run(args).await,
    }
}
