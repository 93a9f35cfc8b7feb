//! `penates delete`

use clap::Args;
use http::Method;
use serde_json::json;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Client};
use crate::commands::report_failure;
use crate::exit::CliError;
use crate::ids::IdArgs;
use crate::output::Output;
use crate::reach::Reached;

/// Arguments of `penates delete`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates delete uc2.ark:/13960/t8ff3zh99")]
pub struct DeleteArgs {
    /// Which volumes.
    #[command(flatten)]
    volumes: IdArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: DeleteArgs) -> anyhow::Result<()> {
    let volumes = args.volumes.volumes()?;
    let reached = Reached::open(&args.reach).await?;
    let outcome = delete(&reached.client, &volumes, args.output).await;
    reached.close().await?;
    outcome
}

async fn delete(client: &Client, volumes: &[hathi::VolumeId], form: OutputArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let mut failed = false;
    for id in volumes {
        let request = http::Request::builder().method(Method::DELETE);
        match client.ask(&format!("/volumes/{}", client::segment(id)), request, client::empty()).await {
            Ok(_) if form.json => output.json(&json!({"id": id, "deleted": true}))?,
            Ok(_) => output.line(format!("deleted {id}"))?,
            Err(error) => {
                failed = true;
                report_failure("id", id.as_str(), error, form, &mut output)?;
            }
        }
    }
    output.finish()?;
    if failed { Err(CliError::Incomplete.into()) } else { Ok(()) }
}
