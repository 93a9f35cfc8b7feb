//! `penates load`

mod bag;
mod foreign;
mod loader;
mod ocfl;
mod ocfl_volume;
mod volumes;

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
use heads::ResourcePath;
use loader::{Counts, Loader};

/// Arguments of `penates load`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates load letters-2026
  penates load letters-2026 --server https://books.example.org
  penates load --into deposits/2026-7 /data/bags/deposit-7")]
pub struct LoadArgs {
    /// The folder that `penates export` made: a bag, or a storage root of OCFL.
    source: PathBuf,
    /// Load the files of any valid bag, or the objects of any storage root of OCFL, below this
    /// container, which is created.
    #[arg(long, value_name = "RESOURCE")]
    into: Option<String>,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

impl LoadArgs {
    /// Loads the files of a bag below a container.
    pub fn of_bag(source: PathBuf, into: String, base: BaseArgs, reach: ReachArgs) -> Self {
        Self { source, into: Some(into), base, reach }
    }
}

/// Runs it.
pub async fn run(args: LoadArgs) -> anyhow::Result<()> {
    let source = &args.source;
    let (reached, counts) = match &args.into {
        Some(into) => {
            let into =
                ResourcePath::parse(into.trim_matches('/')).map_err(|error| CliError::Usage(error.to_string()))?;
            if into.is_root() {
                return Err(CliError::Usage("name a container, as in --into letters".to_owned()).into());
            }
            load_foreign(&args, &into).await?
        }
        None if source.join("bagit.txt").exists() => {
            let bag = bag::checked(source).await?;
            let reached = Reached::open_or_make(&args.reach).await?;
            let counts = async {
                let counts = bag::load(bag, &loader(&args, &reached).await?).await?;
                volumes::load(source, &reached.client).await.map(|volumes| counts.with(&volumes))
            };
            let counts = counts.await;
            (reached, counts)
        }
        None if is_root(source) => {
            let archive = ocfl::checked(source).await?;
            let clock = Arc::new(ManualClock::new(archive.begin()));
            let (reached, keeps_times) = Reached::open_or_make_with(&args.reach, clock.clone()).await?;
            let clock = keeps_times.then_some(clock);
            let counts = async { ocfl::load(&archive, &loader(&args, &reached).await?, clock).await }.await;
            (reached, counts)
        }
        None => {
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

/// Loads what another program wrote. All of it is checked before a store is made.
async fn load_foreign(args: &LoadArgs, into: &ResourcePath) -> anyhow::Result<(Reached, anyhow::Result<Counts>)> {
    let source = &args.source;
    if is_root(source) {
        let objects = foreign::ocfl::checked(source).await?;
        let reached = Reached::open_or_make(&args.reach).await?;
        let counts = async { foreign::ocfl::load(&objects, into, &loader(args, &reached).await?).await }.await;
        return Ok((reached, counts));
    }
    let bag = foreign::bag::checked(source).await?;
    let reached = Reached::open_or_make(&args.reach).await?;
    let counts = async { foreign::bag::load(bag, into, &loader(args, &reached).await?).await }.await;
    Ok((reached, counts))
}

async fn loader(args: &LoadArgs, reached: &Reached) -> anyhow::Result<Loader> {
    let root = repository(&reached.client, &args.base).await?;
    Ok(Loader { client: reached.client.clone(), base: args.base.clone(), root })
}
