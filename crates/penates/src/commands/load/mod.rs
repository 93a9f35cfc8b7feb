//! `penates load`

mod bag;
mod loader;
mod ocfl;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use preservation::ocfl::is_root;
use store::ManualClock;

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
    /// The folder that `penates export` made: a bag, or a storage root of OCFL.
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
    let source = &args.source;
    let (reached, counts) = match () {
        () if source.join("bagit.txt").exists() => {
            let bag = bag::checked(source).await?;
            let reached = Reached::open_or_make(&args.reach).await?;
            let counts = async { bag::load(bag, &loader(&args, &reached).await?).await }.await;
            (reached, counts)
        }
        () if is_root(source) => {
            let archive = ocfl::checked(source).await?;
            let clock = Arc::new(ManualClock::new(archive.begin()));
            let (reached, keeps_times) = Reached::open_or_make_with(&args.reach, clock.clone()).await?;
            let clock = keeps_times.then_some(clock);
            let counts = async { ocfl::load(&archive, &loader(&args, &reached).await?, clock).await }.await;
            (reached, counts)
        }
        () => {
            let what = "neither a bag nor a storage root of OCFL";
            bail!("{} is {what}: there is no bagit.txt and no 0=ocfl_1.1", source.display());
        }
    };
    reached.close().await?;
    let Counts { new, unchanged, failed, bytes } = counts?;
    let mut output = Output::stdout();
    let bytes = human_bytes(bytes);
    output.line(format!("loaded {new} resources ({bytes} of bytes), {unchanged} unchanged, {failed} failed"))?;
    output.finish()?;
    if failed > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

async fn loader(args: &LoadArgs, reached: &Reached) -> anyhow::Result<Loader> {
    let root = repository(&reached.client, &args.base).await?;
    Ok(Loader { client: reached.client.clone(), base: args.base.clone(), root })
}
