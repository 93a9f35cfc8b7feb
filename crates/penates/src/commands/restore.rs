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
    /// The version: its name in `penates history`, or a time (RFC 3339). A time without a fraction
    /// means the whole second. Not needed for something deleted, which comes back as it was last.
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
    let which = match &args.at {
        None => Which::Last,
        Some(at) => match at.parse::<Timestamp>() {
            Ok(time) if at.contains(['.', ',']) => Which::within_second(&begun(client, args).await?, time),
            Ok(time) => Which::AtEndOf(time),
            // Names of versions begin with a digit; the server checks the rest.
            Err(_) if at.starts_with(|first: char| first.is_ascii_digit()) && !at.contains(':') => {
                Which::Named(at.clone())
            }
            Err(error) => {
                let hint = "--at takes the name of a version (20250615150640) or a time (2025-06-15T15:06:40Z)";
                return Err(CliError::Usage(format!("{hint}: {error}")).into());
            }
        },
    };
    let contents = if args.contents { "&contents=true" } else { "" };
    let mut request = http::Request::builder().method(Method::POST);
    let version = match &which {
        Which::Named(version) => version.as_str(),
        Which::AtEndOf(time) => {
            let datetime = time.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            request = request.header("accept-datetime", datetime);
            ""
        }
        Which::Last => "",
    };
    let address = format!("{list}?restore={}{contents}", client::query_value(version));
    let response = client.ask(&address, request, client::empty()).await?;
    let made = name_in(&response).unwrap_or_default();
    let mut output = Output::stdout();
    match args.output.json {
        true => output.json(&json!({"resource": args.resource, "restored": true, "version": made}))?,
        false => output.line(format!("restored {}", args.resource))?,
    }
    output.finish()
}

/// Which version the server is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Which {
    /// That with a name.
    Named(String),
    /// That which was in force at the end of the second of a time.
    AtEndOf(Timestamp),
    /// What was deleted, as it was last.
    Last,
}

impl Which {
    /// That which was in force at a time within a second, given the names and times of all versions,
    /// oldest first. A header has whole seconds, and would lead to a version that began later in
    /// this one.
    fn within_second(versions: &[(String, Timestamp)], time: Timestamp) -> Self {
        let in_second = versions.iter().filter(|(_, began)| began.as_second() == time.as_second());
        let (by_then, later): (Vec<_>, Vec<_>) = in_second.partition(|(_, began)| *began <= time);
        match by_then.last() {
            _ if later.is_empty() => Self::AtEndOf(time),
            Some((name, _)) => Self::Named(name.clone()),
            None => Self::AtEndOf(Timestamp::from_second(time.as_second() - 1).unwrap_or(Timestamp::MIN)),
        }
    }
}

/// The names of the versions and when they began, oldest first; none if the server keeps none, which
/// it then says itself.
async fn begun(client: &Client, args: &RestoreArgs) -> anyhow::Result<Vec<(String, Timestamp)>> {
    let versions: Vec<(String, String)> = match args.volume {
        true => {
            let id = history::volume_id(&args.resource)?;
            let found = history::versions_of_volume(client, &id).await?.map(|found| found.versions);
            found.unwrap_or_default().into_iter().map(|version| (version.revision, version.time)).collect()
        }
        false => {
            let found = history::versions(client, &args.base.address(&args.resource)).await?;
            found.unwrap_or_default().versions
        }
    };
    Ok(versions.into_iter().filter_map(|(name, time)| Some((name, time.parse().ok()?))).collect())
}

/// The last name in `Location`.
fn name_in(response: &http::Response<client::Body>) -> Option<String> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    location.rsplit('/').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_version_that_began_later_in_the_second_is_not_the_one_that_was_in_force() {
        let at = |time: &str| format!("2025-06-15T15:06:{time}Z").parse::<Timestamp>().unwrap();
        let versions = ["39.5", "40.1", "40.9", "42"].map(|time| (time.to_owned(), at(time)));
        let which = |time: &str| Which::within_second(&versions, at(time));
        assert_eq!(which("40.1"), Which::Named("40.1".to_owned()));
        assert_eq!(which("40.899"), Which::Named("40.1".to_owned()));
        // The server knows whether it was deleted meanwhile.
        assert_eq!(which("40.05"), Which::AtEndOf(at("39")));
        for time in ["38.5", "39.7", "40.9", "41.0", "42.0", "59.999"] {
            assert_eq!(which(time), Which::AtEndOf(at(time)), "no version begins later in its second");
        }
    }
}
