//! `penates reload`

use std::path::PathBuf;

use clap::Args;
use http::Method;
use server::Reloaded;

use crate::cli::{OutputArgs, StoreArgs};
use crate::output::Output;
use crate::reach;
use crate::settings::{self, Flags};

/// Arguments of `penates reload`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates reload --store /srv/penates
  penates reload --socket /run/penates/admin.sock")]
pub struct ReloadArgs {
    /// The administrator's socket of the server: that of `listen.admin`. Otherwise it is that of
    /// the data folder or, if the store is in Cassandra, that of the configuration.
    #[arg(long, value_name = "PATH", conflicts_with = "store")]
    socket: Option<PathBuf>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: ReloadArgs) -> anyhow::Result<()> {
    let server = match &args.socket {
        Some(socket) => reach::administrator(socket)?,
        None => {
            let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
            reach::holder(&settings, "SIGHUP lets it read its configuration again, too")?
        }
    };
    let reloaded: Reloaded = server.ask_json(Method::POST, "/admin/reload").await?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&reloaded)?;
        return output.finish();
    }
    output.line("the configuration was read again")?;
    if reloaded.certificate {
        output.line("read again: the certificate")?;
    }
    for key in &reloaded.changed {
        output.line(format!("changed: {key}"))?;
    }
    for key in &reloaded.restart {
        output.line(format!("needs a restart: {key}"))?;
    }
    output.finish()
}
