//! `penates rm`

use clap::Args;
use http::Method;
use serde_json::json;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client;
use crate::output::Output;
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// Arguments of `penates rm`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates rm letters/scan.png")]
pub struct RmArgs {
    /// The resources, from the root of the repository on; a container goes with all that is in it.
    #[arg(required = true)]
    resources: Vec<String>,
    /// Take away what says that they were, too: the names can be used again.
    #[arg(long)]
    forget: bool,
    /// Where the repository is.
    #[command(flatten)]
    base: BaseArgs,
    /// How what was done is told.
    #[command(flatten)]
    output: OutputArgs,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: RmArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let mut output = Output::stdout();
    for resource in &args.resources {
        let address = args.base.address(resource);
        let request = || http::Request::builder().method(Method::DELETE);
        reached.client.ask(&address, request(), client::empty()).await?;
        if args.forget {
            reached.client.ask(&format!("{address}/fcr:tombstone"), request(), client::empty()).await?;
        }
        match args.output.json {
            true => output.json(&json!({"resource": resource, "deleted": true}))?,
            false => output.line(format!("deleted {resource}"))?,
        }
    }
    output.finish()?;
    reached.close().await
}
