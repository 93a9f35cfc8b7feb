//! The commands, and the arguments that several of them share.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::exit;

/// Penates keeps digitized volumes and streams thousands of them out as one ZIP.
#[derive(Debug, Parser)]
#[command(name = "penates", version, after_help = exit::CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Import the bundled sample volumes and serve them on this machine.
    ///
    /// What is there already is not imported again. What to try is printed to standard output. HTTPS is spoken only where it is
    /// asked for. Ctrl-C ends it.
    Demo(commands::demo::DemoArgs),
    /// Serve a store over HTTP.
    ///
    /// It has the data door, a page for people, health and metrics, and listens on loopback unless told otherwise.
    Serve(commands::serve::ServeArgs),
    /// Make a store where there is none yet.
    ///
    /// In a folder that is done unasked. In a Cassandra cluster this makes the keyspace and its tables, and says how many copies of
    /// everything are kept in which data center; an administrator who has to do that finds the statements with --dry-run.
    Init(commands::init::InitArgs),
    /// Import volumes from a pairtree, or from ZIP and METS files.
    ///
    /// What is stored already with the same digests is skipped, so that an import that was interrupted, or had failures, is
    /// simply run again. A volume becomes visible when all of it is stored, and not before.
    Import(commands::import::ImportArgs),
    /// Download volumes or pages as a ZIP; a broken download is resumed.
    ///
    /// With -o FILE it is resumed by itself, and when the same command is given again. What is missing or damaged is named in
    /// the ZIP's last entry, ERROR.err, and the exit code is 1.
    Get(commands::get::GetArgs),
    /// List the volumes, or the pages of one volume.
    ///
    /// Of volumes, the ids are told, one a line, in an order that is stable but not alphabetical.
    Ls(commands::ls::LsArgs),
    /// Tell how much is stored, or what is known of some volumes.
    Stat(commands::stat::StatArgs),
    /// Check every stored digest again.
    ///
    /// Reads everything of some volumes, or of all, and checks it against every digest that was stored when it came in. What is
    /// damaged is marked, so that downloads name it; a mark that is no longer true is taken away. The exit code is 1 if
    /// anything is damaged.
    Verify(commands::verify::VerifyArgs),
    /// Delete volumes.
    ///
    /// What a selection holds stays readable through that until it ends.
    Delete(commands::delete::DeleteArgs),
    /// Put something into the repository, or replace it.
    Put(commands::put::PutArgs),
    /// Print what is at a place of the repository.
    Cat(commands::cat::CatArgs),
    /// Delete resources of the repository.
    ///
    /// A container goes with all that is in it; the command ends when that is done.
    Rm(commands::rm::RmArgs),
    /// Show what is in a container of the repository.
    Tree(commands::tree::TreeArgs),
    /// Copy what can still be read of a damaged store into a new one.
    ///
    /// For a data folder whose disk has broken blocks, and that no server holds. It is only read. What cannot be read is left
    /// out, and the volumes that lost something by it are named, to be imported anew into the new folder. The exit code is 1 if
    /// anything is lost.
    Salvage(commands::salvage::SalvageArgs),
    /// Copy everything from one store into another, whatever their engines.
    ///
    /// The source may be serving meanwhile. It is made read-only for the last of what changed, and stays so, because it is the other
    /// that goes on from there. A copy that was interrupted goes on when the same command is given again. At the end all of both
    /// is read and compared.
    Copy(commands::copy::CopyArgs),
    /// Make a store refuse changes, or take them again.
    ///
    /// Reading goes on, and so does the audit. Servers that share a cluster know of it within half a minute.
    ReadOnly(commands::read_only::ReadOnlyArgs),
    /// Make volumes for load tests by resampling the bundled ones.
    ///
    /// They are made of the real pages of the samples, so that sizes and compressibility stay real. The same seed makes the
    /// same volumes.
    Synth(commands::synth::SynthArgs),
    /// Tell who asked for what.
    ///
    /// Only on the machine of the store: by its folder or its server's socket.
    Audit(commands::audit::AuditArgs),
    /// Make, list and revoke the tokens that servers ask for.
    ///
    /// Only on the machine of the store: by its folder or its server's socket.
    Token(commands::token::TokenArgs),
    /// Run a real Cassandra cluster on this machine, for trying out.
    ///
    /// Its nodes are processes on loopback addresses. Cassandra is fetched from Maven Central the first time, unless
    /// CASSANDRA_HOME names an installation; Java 17 is needed. No node outlives the process that runs the cluster.
    Cluster(commands::cluster::ClusterArgs),
    /// Print the configuration in force, and where each value comes from.
    ///
    /// A value is a default, or comes from a file, the environment (PENATES_SECTION__KEY) or a flag; the later overrides the
    /// earlier.
    Config(commands::config::ConfigArgs),
    /// Print a completion script for a shell.
    Completions(commands::completions::CompletionsArgs),
    /// Write the manual pages: one for the program and one for each command.
    Man(commands::man::ManArgs),
}

/// Which store, and how it is configured.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Store")]
pub struct StoreArgs {
    /// The data folder, or cassandra://HOST[,HOST…]/KEYSPACE [default: ./data]
    #[arg(long, value_name = "DIR|ADDRESS")]
    pub store: Option<PathBuf>,
    /// A configuration file (TOML).
    #[arg(long, value_name = "FILE", env = "PENATES_CONFIG")]
    pub config: Option<PathBuf>,
    /// Sets any other value of the configuration; may be repeated.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
}

/// Where the data is: in a store on this machine, or with a server.
#[derive(Clone, Debug, Default, Args)]
pub struct ReachArgs {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Ask this server (http:// or https://) instead of a store on this machine.
    /// [env: PENATES_SERVER, unless --store is given]
    #[arg(long, value_name = "URL", conflicts_with = "store", help_heading = "Server")]
    server: Option<String>,
    /// The token to show to the server.
    #[arg(long, env = "PENATES_TOKEN", hide_env_values = true, help_heading = "Server")]
    pub token: Option<String>,
    /// Trust the certificates in this file (PEM) instead of the system's.
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub ca_cert: Option<PathBuf>,
}

impl ReachArgs {
    /// The server to ask, if any: a flag that names a store overrides the environment that names a server.
    pub fn server(&self) -> Option<String> {
        let from_environment = || std::env::var("PENATES_SERVER").ok().filter(|url| !url.is_empty());
        self.server.clone().or_else(|| if self.store.store.is_none() { from_environment() } else { None })
    }
}

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OutputArgs {
    /// Print JSON (of lists: one object a line).
    #[arg(long)]
    pub json: bool,
}

/// Volumes to work on at once for each processor, where most wait for the disk while one is worked on.
pub const JOBS_PER_PROCESSOR: usize = 4;

/// How much to do at once.
#[derive(Clone, Copy, Debug, Args)]
pub struct JobsArgs {
    /// Volumes to work on at once [default: four times the number of processors, since each waits for the disk at times; into Cassandra eight
    /// times, since each waits for the nodes most of the time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

impl JobsArgs {
    /// How many at once; so many for each processor if nobody said so.
    pub fn count(self, per_processor: usize) -> usize {
        let processors = || std::thread::available_parallelism().map_or(2, usize::from);
        self.jobs.map_or_else(|| per_processor * processors(), usize::from)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example_in_its_help() {
        for command in leaves(Cli::command()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("penates "), "the help of {} has no example", command.get_name());
        }
    }

    #[test]
    fn every_example_of_a_help_can_be_parsed() {
        for command in leaves(Cli::command()) {
            let help = command.get_after_help().unwrap().to_string();
            for example in help.lines().filter_map(|line| line.trim().strip_prefix("penates ")) {
                let words = shlex::split(example).unwrap().into_iter();
                let words = words.take_while(|word| !["|", "<", ">"].contains(&word.as_str()));
                let parsed = Cli::try_parse_from(std::iter::once("penates".to_owned()).chain(words));
                assert!(parsed.is_ok(), "`penates {example}`: {}", parsed.unwrap_err());
            }
        }
    }

    /// The commands that have no commands below them.
    fn leaves(command: clap::Command) -> Vec<clap::Command> {
        if !command.has_subcommands() {
            return vec![command];
        }
        command.get_subcommands().cloned().flat_map(leaves).collect()
    }
}
