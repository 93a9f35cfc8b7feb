//! `penates upgrade`

use clap::Args;
use serde_json::json;
use store::{FormatLevel, StoreError, SystemClock};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::cassandra::{CassandraStore, Upgrading};
use crate::cli::{OutputArgs, StoreArgs};
use crate::output::Output;
use crate::settings::{self, Flags, StoreLocation};
use crate::{audited, local};

/// Arguments of `penates upgrade`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates upgrade --check
  penates upgrade
  penates upgrade --store cassandra://node1/books")]
pub struct UpgradeArgs {
    /// Only report the level, the servers that have the store open, and what hinders an upgrade.
    #[arg(long)]
    check: bool,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: UpgradeArgs) -> anyhow::Result<()> {
    let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
    let (before, now) = match settings.place() {
        StoreLocation::Cluster(address) => {
            let options = settings.cassandra.options(address, settings.server.store.clock_skew_max);
            let options = options.map_err(local::cannot_open)?;
            match args.check {
                true => checked(CassandraStore::upgrading(&options, &SystemClock).await),
                false => CassandraStore::raise_level(&options, &SystemClock).await,
            }
        }
        StoreLocation::Folder(folder) => {
            let options = EmbeddedOptions::default();
            let alone = |level| Upgrading { level, servers: Vec::new() };
            match args.check {
                true => checked(EmbeddedStore::level_of(folder, &options).map(alone)),
                false => local::refuse_root(folder)
                    .and_then(|()| EmbeddedStore::raise_level(folder, &options))
                    .map(|[before, now]| (before, alone(now))),
            }
        }
    }
    .map_err(local::cannot_open)?;
    if before < now.level {
        let store = local::open_ungated(&settings).await.map_err(local::cannot_open)?;
        let noted = audited::note(&settings, store.clone(), "upgrade", Some(format!("to level {}", now.level))).await;
        store.close().await?;
        noted?;
    }
    let newest = FormatLevel::NEWEST;
    let next = now.level.next();
    let is_newest = now.level == newest;
    let hindering = if is_newest || before < now.level { Vec::new() } else { now.hindering(next) };
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&json!({
            "level": now.level.number(),
            "before": before.number(),
            "newest": newest.number(),
            "servers": names(&now.servers),
            "hindering": names(&hindering),
        }))?;
    } else {
        if before < now.level {
            output
                .line(format!("raised from level {before} to {}; earlier programs refuse the store now", now.level))?;
        }
        output.line(format!("level {}; this program knows level {newest}", now.level))?;
        for server in &now.servers {
            output.line(format!("open in {server}"))?;
        }
        if !is_newest {
            output.line(if before < now.level {
                "repeat the command to raise it further".to_owned()
            } else {
                format!("`penates upgrade` raises it to level {next}; then earlier programs refuse the store")
            })?;
        }
    }
    output.finish()?;
    if hindering.is_empty() {
        return Ok(());
    }
    let names = names(&hindering).join(", ");
    anyhow::bail!(
        "these servers do not know level {next}: {names}. Update or stop them; the lease of one that was killed ends \
         within ten minutes"
    )
}

fn checked(found: Result<Upgrading, StoreError>) -> Result<(FormatLevel, Upgrading), StoreError> {
    found.map(|found| (found.level, found))
}

fn names<'a>(servers: impl IntoIterator<Item = &'a (impl std::fmt::Display + 'a)>) -> Vec<String> {
    servers.into_iter().map(ToString::to_string).collect()
}
