//! The commands, and the arguments that several of them share.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::str::FromStr;

use bytesize::ByteSize;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use store::Table;
pub use terminal::OutputArgs;
use terminal::build::VERSION;

use crate::commands;
use crate::exit;

/// Penates stores digitised volumes and serves thousands of them as one ZIP.
#[derive(Debug, Parser)]
#[command(name = "penates", version = VERSION.as_str(), after_help = exit::CODES, max_term_width = 100)]
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
    /// Volumes that are stored already are not imported again. It prints commands to try. It serves
    /// HTTPS only if you ask for it. Ctrl-C ends it.
    Demo(commands::demo::DemoArgs),
    /// Serve a store over HTTP.
    ///
    /// The server has the data door, the repository door, a page for people, health and metrics. By
    /// default it listens on loopback.
    Serve(commands::serve::ServeArgs),
    /// Create a store.
    ///
    /// `serve --init` creates one too, and so do commands that write, such as `import --init`.
    /// Without --init they do so only in ./data, if no folder is named. In a Cassandra cluster this
    /// command creates the keyspace and its tables, with a number of copies in each data center.
    /// --dry-run prints the statements for an administrator.
    Init(commands::init::InitArgs),
    /// Import volumes from a pairtree, or from ZIP and METS files.
    ///
    /// Volumes that are stored already with the same digests are skipped. To continue an import
    /// that was interrupted or had failures, run it again. A volume becomes visible only when all
    /// of it is stored.
    Import(commands::import::ImportArgs),
    /// Download volumes or pages as a ZIP, resuming broken downloads.
    ///
    /// With -o FILE or --unzip DIR it resumes a broken download by itself, and when you give it again.
    /// It replaces no file that it did not begin.
    /// The ZIP's last entry, ERROR.err, names what is missing or damaged; the exit code is then 1.
    Get(commands::get::GetArgs),
    /// List the volumes, find some of them, or list the pages of one.
    ///
    /// It prints one volume id per line, in a stable order that is not alphabetical. --long, --csv
    /// and --json print what their records say.
    Ls(commands::ls::LsArgs),
    /// Count how often each token occurs in volumes, or on their pages.
    ///
    /// It prints CSV: volume, sequence of the page, token, count. A row about something that is
    /// missing or damaged has a problem instead, and the exit code is then 1.
    Tokens(commands::tokens::TokensArgs),
    /// Show how much is stored, or describe some volumes.
    Stat(commands::stat::StatArgs),
    /// Check stored data against its digests.
    ///
    /// Reads some or all volumes and resources, and checks them against the digests that were
    /// stored with them. Damage is marked, so that downloads name it; a mark that is no longer true
    /// is cleared. The exit code is 1 if anything is damaged.
    Verify(commands::verify::VerifyArgs),
    /// Show what the fixity auditor of the servers has checked, or check resources now.
    ///
    /// Servers read everything that is stored in turn, at a gentle rate (`fixity.every` and
    /// `fixity.rate`), and compare it with its digests. Each pass ends with a report.
    Fixity(commands::fixity::FixityArgs),
    /// Delete volumes.
    ///
    /// A selection that contains a deleted volume stays readable until it ends.
    Delete(commands::delete::DeleteArgs),
    /// Create or replace a resource of the repository.
    Put(commands::put::PutArgs),
    /// Print a resource of the repository.
    Cat(commands::cat::CatArgs),
    /// Delete resources of the repository.
    ///
    /// Deleting a container deletes everything in it. The command ends when that is done.
    Rm(commands::rm::RmArgs),
    /// Show the contents of a container of the repository.
    Tree(commands::tree::TreeArgs),
    /// List the versions of a resource of the repository.
    ///
    /// It prints the name and the time of each version, oldest first. `penates cat` prints a
    /// version if you add `/fcr:versions/` and its name to the path.
    History(commands::history::HistoryArgs),
    /// Make an earlier version of a resource the current one, or bring back what was deleted.
    ///
    /// The versions since then stay. A deleted container comes back with its contents; the command
    /// ends when that is done. To continue an interrupted one, name a time before the deletion and
    /// give --contents.
    Restore(commands::restore::RestoreArgs),
    /// Export volumes, or a tree of resources, with the bytes, descriptions and types of each: as a bag, or with
    /// all versions as OCFL.
    ///
    /// The folder has its name only when it is whole. Until then it is named `….unfinished`.
    Export(commands::export::ExportArgs),
    /// Load what `penates export` wrote: each resource with its bytes, description and type, and each
    /// volume. With --into, load what another program wrote.
    ///
    /// All of it is checked before anything is loaded. What is there already stays, and is compared;
    /// so the same command continues an interrupted load. OCFL is loaded with all versions; a load
    /// that makes the store keeps their times. The exit code is 1 if something could not be loaded,
    /// for example because the repository has a resource with other bytes there.
    Load(commands::load::LoadArgs),
    /// Read and write records, one by one or many at once.
    ///
    /// Records are small, have named attributes, and may expire by themselves. Servers offer them
    /// over the Redis protocol and over HTTP.
    Records(commands::records::RecordsArgs),
    /// Copy what can be read of a damaged store into a new one.
    ///
    /// This is for a data folder whose disk has broken blocks, or that Penates refuses to open. No
    /// server may hold it, and it is only read. What cannot be read is left out. The command names
    /// the volumes that lost something; import them again into the new folder. The exit code is 1
    /// if anything is lost.
    Salvage(commands::salvage::SalvageArgs),
    /// Back up a data folder, and check, restore and delete backups.
    ///
    /// A server that holds the store goes on meanwhile. A folder of backups has each file once, so a
    /// further backup takes only the time and the space of what is new.
    Backup(commands::backup::BackupArgs),
    /// Copy everything from one store into another, with any engines.
    ///
    /// The source may serve meanwhile. It becomes read-only for the last changes and stays so,
    /// because the target replaces it. To continue an interrupted copy, give the same command
    /// again. At the end all of both stores is read and compared.
    ///
    /// With --follow the source stays as it is, and the target is kept up to date until the command
    /// is interrupted. Nobody reads the target meanwhile. The command without --follow, or `penates
    /// promote`, puts it in the place of the source.
    Copy(commands::copy::CopyArgs),
    /// Let a copy that was followed take the place of its source, which is lost.
    ///
    /// Changes that had not arrived are lost too. If the source is still there, run `penates copy`
    /// without --follow instead, which loses nothing.
    Promote(commands::promote::PromoteArgs),
    /// Make a store read-only, or writable again.
    ///
    /// Reading and the audit continue. Servers that share a cluster notice within half a minute.
    ReadOnly(commands::read_only::ReadOnlyArgs),
    /// Show or move the home data center, where changes are decided.
    ///
    /// This is for a store in a Cassandra cluster with cassandra.serial = "LOCAL_SERIAL" and copies
    /// in several data centers. To move the home, leave it, repair the keyspace, and name the new
    /// one. Servers learn of it within seconds.
    #[cfg(feature = "cassandra")]
    Home(commands::home::HomeArgs),
    /// Raise the level of a store, so that this program writes its newest format.
    ///
    /// A new program reads and writes an older store as it is, so you can go back. After an upgrade
    /// you cannot: earlier programs refuse the store. Nothing stored is rewritten. A data folder
    /// must be held by no server. In a Cassandra cluster servers go on, and the command does
    /// nothing if one of them does not know the next level.
    Upgrade(commands::upgrade::UpgradeArgs),
    /// Make volumes for load tests from the pages of the bundled ones.
    ///
    /// Sizes and compressibility stay realistic, because the pages are real. The same seed makes
    /// the same volumes.
    Synth(commands::synth::SynthArgs),
    /// Print what was created, changed and deleted, oldest first.
    ///
    /// Each line is one event in JSON (Activity Streams 2.0). The id of an event ends with its
    /// cursor: give it with --from to go on behind that event, on any server of the store. With
    /// --follow the command waits for what happens next, until it is interrupted.
    Feed(commands::feed::FeedArgs),
    /// List, test and resume webhooks.
    ///
    /// A server sends them the events of the change feed (`feed.webhooks` in the configuration).
    /// This works only on the machine of the store, through its folder or its server's socket.
    Webhooks(commands::receivers::ReceiversArgs),
    /// List, test and resume bridges to brokers of messages.
    ///
    /// A server sends the events of the change feed over them (`feed.bridges` in the configuration),
    /// by STOMP 1.2 or AMQP 1.0. This works only on the machine of the store, through its folder or
    /// its server's socket.
    Bridges(commands::receivers::ReceiversArgs),
    /// Show the search index, or have it made anew.
    ///
    /// A server keeps it up to date by itself. This works only on the machine of the store, through
    /// its folder or its server's socket.
    Search(commands::search::SearchArgs),
    /// Show the audit: who requested, changed and read what, and who was refused.
    ///
    /// This works only on the machine of the store, through its folder or its server's socket.
    Audit(commands::audit::AuditArgs),
    /// Create, list and revoke access tokens.
    ///
    /// This works only on the machine of the store, through its folder or its server's socket.
    Token(commands::token::TokenArgs),
    /// Read tables of a store at each node of Cassandra, so that nodes that have just started find
    /// them in their caches.
    #[cfg(feature = "cassandra")]
    Warm(commands::warm::WarmArgs),
    /// Let a server read its configuration again.
    ///
    /// Connections go on. The certificate, the level of the log and most limits change at once. The
    /// command names settings that need a restart. SIGHUP does the same. The command uses the socket
    /// in the data folder, or that of `listen.admin`.
    Reload(commands::reload::ReloadArgs),
    /// Estimate what a store needs: a data folder, and the same on Cassandra.
    ///
    /// It prints disk, memory, processors and network. The sums are those of measured costs.
    /// `penates records plan` does the same for records alone.
    Plan(commands::plan::PlanArgs),
    /// Print the effective configuration, and where each value comes from.
    ///
    /// A value is a default, or comes from a file, the environment (PENATES_SECTION__KEY) or a
    /// flag. Each overrides the one before. The exit code is 2 if a file that it names is missing
    /// or wrong.
    Config(commands::config::ConfigArgs),
    /// Print a completion script for a shell.
    Completions(commands::completions::CompletionsArgs),
    /// Write manual pages: one for the program and one for each command.
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
    /// Set any other value of the configuration; may be repeated.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,
    /// Say how the store is reached.
    #[arg(short, long)]
    pub verbose: bool,
}

/// A number that may be written as `1e9`.
#[derive(Clone, Copy, Debug)]
pub struct Count(pub f64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number) if (0.0..=1e15).contains(&number) => Ok(Self(number)),
            _ => Err("a number from 0 to 1e15 is needed, such as 5000 or 1e9".to_owned()),
        }
    }
}

/// Bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct Rate(pub NonZeroU64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size: ByteSize = text.parse()?;
        NonZeroU64::new(size.as_u64()).map(Self).ok_or_else(|| "at least one byte per second is needed".to_owned())
    }
}

/// Parses the name of a table of the store.
pub fn table() -> impl TypedValueParser<Value = Table> {
    let by_name = |name: String| Table::ALL.into_iter().find(|table| table.name() == name);
    PossibleValuesParser::new(Table::ALL.map(Table::name))
        .try_map(move |name| by_name(name).ok_or("there is no such table"))
}

/// Where the data is: in a store on this machine, or with a server.
#[derive(Clone, Debug, Default, Args)]
pub struct ReachArgs {
    /// Which store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Use this server (http:// or https://) instead of a store on this machine.
    /// [env: PENATES_SERVER, unless --store is given]
    #[arg(long, value_name = "URL", conflicts_with = "store", help_heading = "Server")]
    server: Option<String>,
    /// The access token for the server.
    #[arg(long, env = "PENATES_TOKEN", hide_env_values = true, help_heading = "Server")]
    pub token: Option<String>,
    /// Trust the certificates in this file (PEM) instead of the system's.
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub ca_cert: Option<PathBuf>,
}

impl ReachArgs {
    /// The server to use, if any. A flag that names a store overrides the environment that names a
    /// server.
    pub fn server(&self) -> Option<String> {
        let from_environment = || std::env::var("PENATES_SERVER").ok().filter(|url| !url.is_empty());
        self.server.clone().or_else(|| if self.store.store.is_none() { from_environment() } else { None })
    }
}

/// Where data is written: in a store on this machine, which may have to be made, or with a server.
#[derive(Clone, Debug, Default, Args)]
pub struct WriteArgs {
    /// Where.
    #[command(flatten)]
    pub reach: ReachArgs,
    /// Make the store if the folder has none, as `penates init` does. Without this, one is made
    /// only in ./data, if no folder is named: one that is named may be a disk that is not mounted.
    #[arg(long, conflicts_with = "server", help_heading = "Store")]
    pub init: bool,
}

/// Volumes per processor to work on at once: most wait for the disk while one is processed.
pub const JOBS_PER_PROCESSOR: usize = 4;

/// How much to do at once.
#[derive(Clone, Copy, Debug, Args)]
pub struct JobsArgs {
    /// Volumes to work on at once [default: four per processor, because each waits for the disk at
    /// times; into Cassandra eight per processor, because each waits for the nodes most of the
    /// time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

impl JobsArgs {
    /// The number of jobs; by default this many per processor.
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

    /// The commands without subcommands.
    fn leaves(command: clap::Command) -> Vec<clap::Command> {
        if !command.has_subcommands() {
            return vec![command];
        }
        command.get_subcommands().cloned().flat_map(leaves).collect()
    }
}
