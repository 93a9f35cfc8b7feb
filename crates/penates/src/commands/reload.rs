//! `penates reload`

use clap::Args;
use http::Method;
use server::Reloaded;

use crate::cli::{OutputArgs, StoreArgs};
use crate::output::Output;
use crate::reach;
use crate::settings::{self, Flags};

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
    let server = reach::holder(&settings, "send the process SIGHUP")?;
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
