//! `penates cat`

use std::io::Write;

use clap::Args;
use http_body_util::BodyExt;

use crate::cli::ReachArgs;
use crate::client::{Client, ClientError};
use crate::output::closed;
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// Arguments of `penates cat`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates cat letters
  penates cat letters/scan.png > scan.png
  penates cat letters --accept application/ld+json")]
pub struct CatArgs {
    /// Path of the resource from the root of the repository.
    #[arg(default_value = "")]
    resource: String,
    /// The media type of a graph, for example text/turtle.
    #[arg(long, value_name = "TYPE", default_value = "*/*")]
    accept: String,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: CatArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let outcome = print(&reached.client, &args.base.address(&args.resource), &args.accept).await;
    reached.close().await?;
    outcome
}

async fn print(client: &Client, address: &str, accept: &str) -> anyhow::Result<()> {
    let mut body = client.get(address, accept).await?.into_body();
    let mut stdout = std::io::stdout().lock();
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(|error| ClientError::Broken(error.into()))?.into_data() {
            stdout.write_all(&piece).map_err(closed)?;
        }
    }
    stdout.flush().map_err(closed)
}
