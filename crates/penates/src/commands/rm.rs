//! `penates rm`

use clap::Args;
use http::{Method, StatusCode};
use serde_json::json;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Client, ClientError};
use crate::commands::report_failure;
use crate::exit::CliError;
use crate::output::Output;
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// Arguments of `penates rm`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates rm letters/scan.png
  penates rm --forget letters")]
pub struct RmArgs {
    /// Paths of the resources from the root of the repository. Deleting a container deletes
    /// everything in it.
    #[arg(required = true)]
    resources: Vec<String>,
    /// Delete their tombstones too, so that the names can be used again.
    #[arg(long)]
    forget: bool,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: RmArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let outcome = remove_all(&reached.client, &args).await;
    reached.close().await?;
    outcome
}

async fn remove_all(client: &Client, args: &RmArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let mut failed = false;
    for resource in &args.resources {
        match remove(client, &args.base.address(resource), args.forget).await {
            Ok(()) if args.output.json => output.json(&json!({"resource": resource, "deleted": true}))?,
            Ok(()) => output.line(format!("deleted {resource}"))?,
            Err(error) => {
                failed = true;
                report_failure("resource", resource, error, args.output, &mut output)?;
            }
        }
    }
    output.finish()?;
    if failed { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

async fn remove(client: &Client, address: &str, forget: bool) -> Result<(), ClientError> {
    let request = || http::Request::builder().method(Method::DELETE);
    match client.ask(address, request(), client::empty()).await {
        // It was deleted before; that can still be forgotten.
        Err(error) if forget && error.status() == Some(StatusCode::GONE) => {}
        deleted => _ = deleted?,
    }
    if forget {
        client.ask(&format!("{address}/fcr:tombstone"), request(), client::empty()).await?;
    }
    Ok(())
}
