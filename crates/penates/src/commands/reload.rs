//! `penates reload`

use clap::Args;
use http::Method;
use server::Reloaded;

use crate::cli::{OutputArgs, StoreArgs};
use crate::client::Client;
use crate::exit::CliError;
use crate::output::Output;
use crate::reach;
use crate::settings::{self, Flags, StoreLocation};

/// Arguments of `penates reload`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates reload --store /srv/penates")]
pub struct ReloadArgs {
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: ReloadArgs) -> anyhow::Result<()> {
    let settings = settings::load(&args.store, Flags::of(&args.store)?)?.settings;
    let StoreLocation::Folder(folder) = settings.place() else {
        let why = "a server of a Cassandra store has no socket: send the process SIGHUP";
        return Err(CliError::Usage(why.to_owned()).into());
    };
    let socket = reach::socket_path(folder);
    if !socket.exists() {
        return Err(CliError::Unreachable(format!("no server holds {}", folder.display())).into());
    }
    let reloaded: Reloaded = Client::socket(socket).ask_json(Method::POST, "/admin/reload").await?;
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
