//! `penates stat`

use clap::Args;
use serde_json::Value;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Client};
use crate::commands::report_failure;
use crate::exit::CliError;
use crate::ids::IdArgs;
use crate::output::Output;
use crate::reach::Reached;

/// Arguments of `penates stat`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates stat
  penates stat --json uc2.ark:/13960/t8ff3zh99")]
pub struct StatArgs {
    /// Which volumes; by default the whole store.
    #[command(flatten)]
    volumes: IdArgs,
    /// How.
    #[command(flatten)]
    output: OutputArgs,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: StatArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let outcome = report(&args, &reached.client).await;
    reached.close().await?;
    outcome
}

async fn report(args: &StatArgs, client: &Client) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let mut failed = false;
    if args.volumes.is_empty() {
        print(&client.get_json("/stat").await?, args.output, &mut output)?;
    } else {
        for id in args.volumes.volumes()? {
            match client.get_json(&format!("/volumes/{}", client::segment(&id))).await {
                Ok(volume) => print(&volume, args.output, &mut output)?,
                Err(error) => {
                    failed = true;
                    report_failure("id", id.as_str(), error, args.output, &mut output)?;
                }
            }
        }
    }
    output.finish()?;
    if failed { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

fn print(value: &Value, form: OutputArgs, output: &mut Output) -> anyhow::Result<()> {
    if form.json { output.json(value) } else { output.fields(value) }
}
