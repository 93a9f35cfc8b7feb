//! `penates ls`

use clap::Args;
use futures::StreamExt;
use hathi::VolumeId;
use serde_json::Value;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Client};
use crate::exit::CliError;
use crate::output::{Output, cell};
use crate::reach::Reached;

/// Arguments of `penates ls`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates ls
  penates ls uc2.ark:/13960/t8ff3zh99
  penates ls --json --server http://127.0.0.1:8080")]
pub struct LsArgs {
    /// List the pages of this volume.
    #[arg(value_name = "ID")]
    volume: Option<String>,
    /// How.
    #[command(flatten)]
    output: OutputArgs,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: LsArgs) -> anyhow::Result<()> {
    let volume = args.volume.as_deref().map(VolumeId::parse).transpose();
    let volume = volume.map_err(|error| CliError::Usage(error.to_string()))?;
    let reached = Reached::open(&args.reach).await?;
    let outcome = match volume {
        Some(id) => pages(&reached.client, &id, args.output).await,
        None => volumes(&reached.client, args.output).await,
    };
    reached.close().await?;
    outcome
}

async fn volumes(client: &Client, form: OutputArgs) -> anyhow::Result<()> {
    let accept = if form.json { "application/x-ndjson" } else { "text/plain" };
    let mut output = Output::stdout();
    let mut lines = std::pin::pin!(client.get_lines("/volumes/", accept).await?);
    while let Some(line) = lines.next().await {
        output.line(line?)?;
    }
    output.finish()
}

async fn pages(client: &Client, id: &VolumeId, form: OutputArgs) -> anyhow::Result<()> {
    let pages: Vec<Value> = client.get_json(&format!("/volumes/{}/pages/", client::segment(id))).await?;
    let mut output = Output::stdout();
    if form.json {
        pages.iter().try_for_each(|page| output.json(page))?;
    } else {
        let columns = ["seq", "size_bytes", "label", "features"];
        let rows: Vec<Vec<String>> =
            pages.iter().map(|page| columns.iter().map(|column| cell(&page[column])).collect()).collect();
        output.table(&columns, &rows)?;
    }
    output.finish()
}
