//! `penates load`

mod bag;
mod loader;

use std::path::PathBuf;

use clap::Args;

use crate::cli::ReachArgs;
use crate::exit::CliError;
use crate::output::{Output, human_bytes};
use crate::reach::Reached;
use crate::resources::{BaseArgs, repository};
use loader::{Counts, Loader};

/// Arguments of `penates load`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates load letters-2026
  penates load letters-2026 --server https://books.example.org")]
pub struct LoadArgs {
    /// The folder that `penates export` made: a bag.
    source: PathBuf,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: LoadArgs) -> anyhow::Result<()> {
    let bag = bag::checked(&args.source).await?;
    let reached = Reached::open_or_make(&args.reach).await?;
    let outcome = async {
        let root = repository(&reached.client, &args.base).await?;
        let loader = Loader { client: reached.client.clone(), base: args.base.clone(), root };
        bag::load(bag, &loader).await
    }
    .await;
    reached.close().await?;
    let Counts { new, unchanged, failed, bytes } = outcome?;
    let mut output = Output::stdout();
    let bytes = human_bytes(bytes);
    output.line(format!("loaded {new} resources ({bytes} of bytes), {unchanged} unchanged, {failed} failed"))?;
    output.finish()?;
    if failed > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}
