//! `penates home`

use clap::Args;
use store_cassandra::{CassandraOptions, CassandraStore, Home};

use crate::audited;
use crate::cli::StoreArgs;
use crate::local;
use crate::output::Output;
use crate::settings::{self, Flags, Settings};

/// Arguments of `penates home`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates home --store cassandra://node1/books
  penates home --leave --store cassandra://node1/books
  penates home dc2 --store cassandra://node1/books
  penates home dc2 --old-home-is-lost --store cassandra://node3/books")]
pub struct HomeArgs {
    /// The data center that becomes the home; without it, the command prints the current one.
    #[arg(value_name = "DATACENTER")]
    datacenter: Option<String>,
    /// Leave the current home: no data center takes changes until there is a new one.
    #[arg(long, conflicts_with = "datacenter")]
    leave: bool,
    /// The old home is lost and cannot be left. First make sure that no server runs there.
    #[arg(long, requires = "datacenter")]
    old_home_is_lost: bool,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: HomeArgs) -> anyhow::Result<()> {
    let options = local::cassandra_options(&args.store, "has a home")?;
    let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
    let said = match args.datacenter {
        None if args.leave => {
            leave(&options, &settings).await?;
            audited::note_in(&settings, "home", Some("left".to_owned())).await?;
            "no data center takes changes now: repair the keyspace, then name the new home".to_owned()
        }
        None => CassandraStore::home(&options).await.map_err(local::cannot_open)?.to_string(),
        Some(datacenter) if args.old_home_is_lost => {
            let there = CassandraOptions { local_datacenter: Some(datacenter.clone()), ..options };
            CassandraStore::take_home(&there).await.map_err(local::cannot_open)?;
            audited::note_in(&settings, "home", Some(format!("{datacenter}, the old one is lost"))).await?;
            Home::At(datacenter).to_string()
        }
        Some(datacenter) => {
            if CassandraStore::home(&options).await.map_err(local::cannot_open)? == Home::Unset {
                // All data centers have decided together so far, so none needs a repair.
                leave(&options, &settings).await?;
            }
            CassandraStore::settle_home(&options, &datacenter).await.map_err(local::cannot_open)?;
            audited::note_in(&settings, "home", Some(datacenter.clone())).await?;
            Home::At(datacenter).to_string()
        }
    };
    let mut output = Output::stdout();
    output.line(said)?;
    output.finish()
}

/// Leaves the home, and waits until no server switches heads any more.
async fn leave(options: &CassandraOptions, settings: &Settings) -> anyhow::Result<()> {
    CassandraStore::leave_home(options).await.map_err(local::cannot_open)?;
    let others_learn_within = local::others_learn_within(settings);
    note!("waiting {} s until every server has learned of it", others_learn_within.as_secs());
    tokio::time::sleep(others_learn_within).await;
    Ok(())
}
