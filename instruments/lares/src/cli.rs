//! The commands.

use clap::{Parser, Subcommand};
use terminal::build::VERSION;

use crate::commands::{cluster, conformance, documents, lab, testbed};

/// The exit codes of all commands; part of the help.
const CODES: &str = "Exit codes:
  0    all is well
  1    something failed, did not hold its load, or violates a MUST
  2    the command line or a plan is wrong
  3    something cannot be reached, or another process holds it
  4    a run of the testbed or of the lab says nothing about what it measured
  130  interrupted";

/// Lares measures and judges servers: Penates, Fedora, Redis, Cassandra, or any other.
#[derive(Debug, Parser)]
#[command(name = "lares", version = VERSION.as_str(), after_help = CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one value of it")]
pub enum Command {
    /// Measure which load a server holds, and keep what was measured.
    ///
    /// A plan says which users arrive when, and what they do. Workers make the load in an open loop: a
    /// request counts from the instant at which it was due. Any server can be measured.
    Testbed(testbed::TestbedArgs),
    /// Find out which settings of Cassandra suit a load.
    ///
    /// A plan names settings, values and loads. The lab measures them on a node of its own, in random
    /// order and often enough, and recommends a change only if the difference is sure.
    Lab(lab::LabArgs),
    /// Run a real Cassandra cluster on this machine, for trials.
    ///
    /// Its nodes are processes on loopback addresses. The first run fetches Cassandra from Maven
    /// Central, unless CASSANDRA_HOME names an installation. Java 17 is needed. No node outlives
    /// the process that runs the cluster.
    Cluster(cluster::ClusterArgs),
    /// Judge a server by RFC 7089 (Memento) and by the Fedora API.
    ///
    /// The statements are about resources, content stored elsewhere, versions, notifications, fixity,
    /// transactions (if the server has any), search and archival groups. The exit code is 1 if the
    /// server violates a MUST.
    Conformance(conformance::ConformanceArgs),
    /// Print a completion script for a shell.
    Completions(documents::CompletionsArgs),
    /// Write manual pages: one for the program and one for each command.
    Man(documents::ManArgs),
}

/// Runs a command.
pub async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Testbed(args) => testbed::run(args).await,
        Command::Lab(args) => lab::run(args).await,
        Command::Cluster(args) => cluster::run(args).await,
        Command::Conformance(args) => conformance::run(args).await,
        Command::Completions(args) => documents::completions(&args),
        Command::Man(args) => documents::man(&args),
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
    fn every_command_shows_examples_in_its_help_that_can_be_parsed() {
        for command in leaves(Cli::command()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("lares "), "the help of {} has no example", command.get_name());
            for example in help.lines().filter_map(|line| line.trim().strip_prefix("lares ")) {
                let words = shlex::split(example).unwrap().into_iter();
                let words = words.take_while(|word| !["|", "<", ">"].contains(&word.as_str()));
                let parsed = Cli::try_parse_from(std::iter::once("lares".to_owned()).chain(words));
                assert!(parsed.is_ok(), "`lares {example}`: {}", parsed.unwrap_err());
            }
        }
    }

    /// The commands without subcommands.
    fn leaves(command: clap::Command) -> Vec<clap::Command> {
        if !command.has_subcommands() {
            return vec![command];
        }
        command.get_subcommands().cloned().flat_map(leaves).collect()
    }
}
