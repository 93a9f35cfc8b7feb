//! `penates init`

use clap::Args;

use crate::cassandra::{CassandraStore, InitError, Initialised, Replication};
use crate::cli::StoreArgs;
use crate::exit::CliError;
use crate::local;
use crate::output::Output;
use crate::settings::{self, Flags, Settings, StoreLocation};

/// Arguments of `penates init`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates init --store ./data
  penates init --store cassandra://127.0.0.1/books
  penates init --store cassandra://node1,node2/books --replication dc1=3,dc2=3
  penates init --store cassandra://node1/books --replication dc1=3 --dry-run")]
pub struct InitArgs {
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
    /// Number of copies in each data center of a Cassandra cluster; required if it has several
    /// nodes.
    #[arg(long, value_name = "DC=N[,DC=N…]")]
    replication: Option<Replication>,
    /// Print the statements (CQL), and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Runs it.
pub async fn run(args: InitArgs) -> anyhow::Result<()> {
    let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
    let mut output = Output::stdout();
    match settings.place() {
        StoreLocation::Folder(_) => output.line(in_folder(&args, &settings).await?)?,
        StoreLocation::Cluster(address) => match in_cluster(&args, address, &settings).await? {
            Initialised::Made => output.line(format!("made {address}"))?,
            Initialised::WasThere => output.line(format!("{address} is there already"))?,
            Initialised::Planned(plan) => output.line(plan.to_string().trim_end())?,
        },
    }
    output.finish()
}

async fn in_folder(args: &InitArgs, settings: &Settings) -> anyhow::Result<String> {
    let folder = settings.path.display();
    if args.replication.is_some() || args.dry_run {
        let what = "--replication and --dry-run are for stores in a Cassandra cluster";
        return Err(CliError::Usage(format!("{folder} is a folder: {what}")).into());
    }
    let vacant = !local::has_store(&settings.path)?;
    let store = local::open_store(settings).await.map_err(local::cannot_open)?;
    store.close().await?;
    Ok(if vacant { format!("made a store in {folder}") } else { format!("the store in {folder} is there already") })
}

async fn in_cluster(args: &InitArgs, address: &str, settings: &Settings) -> anyhow::Result<Initialised> {
    let options = settings.cassandra.options(address, settings.server.store.clock_skew_max);
    let options = options.map_err(local::cannot_open)?;
    CassandraStore::initialise(&options, args.replication.as_ref(), args.dry_run).await.map_err(|error| match error {
        InitError::Store(error) => local::cannot_open(error),
        InitError::ReplicationNeeded { .. } | InitError::TooFewNodes { .. } => {
            CliError::Usage(error.to_string()).into()
        }
        InitError::Statement { .. } => anyhow::Error::new(error),
    })
}
