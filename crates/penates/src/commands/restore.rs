//! `penates restore`

use clap::Args;
use http::Method;
use http::header::LOCATION;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{self, Client};
use crate::commands::history;
use crate::exit::CliError;
use crate::output::Output;
use crate::reach::Reached;
use crate::resources::BaseArgs;

/// Arguments of `penates restore`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates restore letters/first --at 20250615150640
  penates restore letters/first --at 2025-06-15T17:06:40+02:00
  penates restore letters
  penates restore letters --at 2025-06-15T15:06:40Z --contents
  penates restore --volume yale.39002015008130 --at 2025-06-15T15:06:40Z")]
pub struct RestoreArgs {
    /// Path of the resource from the root of the repository.
    resource: String,
    /// The version: its name in `penates history`, or a time (RFC 3339). Not needed for something
    /// deleted, which comes back as it was last.
    #[arg(long, value_name = "TIME|VERSION")]
    at: Option<String>,
    /// Bring back members that the container had then and has not now. This is done anyway if the
    /// container itself was deleted.
    #[arg(long)]
    contents: bool,
    /// RESOURCE is the id of a volume.
    #[arg(long, conflicts_with = "contents")]
    volume: bool,
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
pub async fn run(args: RestoreArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let outcome = restore(&reached.client, &args).await;
    reached.close().await?;
    outcome
}

async fn restore(client: &Client, args: &RestoreArgs) -> anyhow::Result<()> {
    let list = match args.volume {
        true => history::volume_versions(&args.resource)?,
        false => args.base.versions(&args.resource),
    };
    let (version, time) = match &args.at {
        None => (String::new(), None),
        Some(at) => match at.parse::<Timestamp>() {
            Ok(time) => (String::new(), Some(time)),
            // Names of versions begin with a digit; the server checks the rest.
            Err(_) if at.starts_with(|first: char| first.is_ascii_digit()) && !at.contains(':') => (at.clone(), None),
            Err(error) => {
                let hint = "--at takes the name of a version (20250615150640) or a time (2025-06-15T15:06:40Z)";
                return Err(CliError::Usage(format!("{hint}: {error}")).into());
            }
        },
    };
    let contents = if args.contents { "&contents=true" } else { "" };
    let address = format!("{list}?restore={}{contents}", client::query_value(&version));
    let mut request = http::Request::builder().method(Method::POST);
    if let Some(time) = time {
        let datetime = time.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        request = request.header("accept-datetime", datetime);
    }
    let response = client.ask(&address, request, client::empty()).await?;
    let made = name_in(&response).unwrap_or_default();
    let mut output = Output::stdout();
    match args.output.json {
        true => output.json(&json!({"resource": args.resource, "restored": true, "version": made}))?,
        false => output.line(format!("restored {}", args.resource))?,
    }
    output.finish()
}

/// The last name in `Location`.
fn name_in(response: &http::Response<client::Body>) -> Option<String> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    location.rsplit('/').next().map(str::to_owned)
}
