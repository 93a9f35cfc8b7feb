//! `penates tokens`

use std::borrow::Cow;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http_body_util::BodyExt;

use crate::cli::ReachArgs;
use crate::client::{Client, ClientError, query_value};
use crate::download::{PatienceArgs, joined, parse_duration};
use crate::exit::CliError;
use crate::ids::IdArgs;
use crate::output::Output;
use crate::reach::Reached;
use crate::wanted::WhereArgs;

/// Arguments of `penates tokens`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates tokens yale.39002015008130 --words --sort count --desc > zachary.csv
  penates tokens --where 'year<1850' --json --level page")]
pub struct TokensArgs {
    /// Which volumes.
    #[command(flatten)]
    volumes: IdArgs,
    /// Which volumes, by their records.
    #[command(flatten)]
    which: WhereArgs,
    /// Count for each volume, or for each page.
    #[arg(long, value_enum, default_value_t)]
    level: Level,
    /// Count words without punctuation and case, instead of what white space separates.
    #[arg(long)]
    words: bool,
    /// The order of tokens.
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// The greatest first.
    #[arg(long)]
    desc: bool,
    /// Print an object of JSON per line, instead of CSV.
    #[arg(long)]
    json: bool,
    /// How long it tries.
    #[command(flatten)]
    patience: PatienceArgs,
    /// How long it may take in all. What arrived by then is printed, perhaps with a last row that is
    /// cut.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    max_time: Option<Duration>,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

/// The unit of a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Level {
    /// A volume.
    #[default]
    Volume,
    /// A page.
    Page,
}

/// The order of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// By code points.
    #[default]
    Token,
    /// By how often they occur.
    Count,
}

/// Runs it.
pub async fn run(args: TokensArgs) -> anyhow::Result<()> {
    args.which.check()?;
    if args.which.text().is_some() != args.volumes.is_empty() {
        return Err(CliError::Usage("name volumes, or conditions with --where".to_owned()).into());
    }
    let named = if args.volumes.is_empty() { None } else { Some(args.volumes.volumes()?) };
    let reached = Reached::open(&args.reach).await?;
    let printing = print(&args, named, &reached.client);
    let outcome = match args.max_time {
        Some(max_time) => {
            let late = |_| Err(anyhow::anyhow!("counting took longer than {max_time:?} (--max-time)"));
            tokio::time::timeout(max_time, printing).await.unwrap_or_else(late)
        }
        None => printing.await,
    };
    reached.close().await?;
    outcome
}

async fn print(args: &TokensArgs, named: Option<Vec<hathi::VolumeId>>, client: &Client) -> anyhow::Result<()> {
    let patience = args.patience.patience();
    let ids = match named {
        Some(ids) => ids,
        None => args.which.volumes(client, patience).await?,
    };
    let form = format!(
        "volumeIDs={}&level={}&sortBy={}&sortOrder={}&tokens={}",
        query_value(&joined(&ids)),
        if args.level == Level::Page { "page" } else { "volume" },
        if args.sort == Sort::Count { "count" } else { "token" },
        if args.desc { "desc" } else { "asc" },
        if args.words { "words" } else { "written" },
    );
    let accept = if args.json { "application/x-ndjson" } else { "text/csv" };
    let post = || client.post_form("/tokencount", form.clone(), accept);
    let mut body = patience.retried(post).await?.into_body();
    let mut output = Output::stdout();
    let (mut is_incomplete, mut line) = (false, Vec::new());
    loop {
        let next = async { body.frame().await.transpose().map_err(|error| ClientError::Broken(error.into())) };
        let Some(frame) = patience.with(next).await? else { break };
        let Ok(piece) = frame.into_data() else { continue };
        output.bytes(&piece)?;
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                is_incomplete |= has_problem(&line, args.json);
                line.clear();
            }
        }
    }
    output.finish()?;
    match is_incomplete {
        true => {
            note!("Some volumes or pages are missing or damaged: their rows have a `problem`.");
            Err(CliError::Incomplete.into())
        }
        false => Ok(()),
    }
}

/// Whether a row says what is missing instead of a count.
fn has_problem(line: &[u8], is_json: bool) -> bool {
    let line: Cow<'_, str> = String::from_utf8_lossy(line);
    match is_json {
        // A row with a problem has no count, which is a number.
        true => line.contains("\"problem\":\"") && !line.contains("\"count\":"),
        false => line.trim_end().contains(",,,") && !line.trim_end().ends_with(','),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_a_problem_are_noticed() {
        for (line, is_json, expected) in [
            ("a.b,the,7,\r\n", false, false),
            ("a.b,\",,,\",7,\r\n", false, false),
            ("a.b,,,it is damaged\r\n", false, true),
            ("a.b,7,,,it is damaged\r\n", false, true),
            ("volume,token,count,problem\r\n", false, false),
            ("{\"count\":7,\"token\":\"\\\"problem\\\":\\\"\",\"volume\":\"a.b\"}\n", true, false),
            ("{\"problem\":\"it is damaged\",\"volume\":\"a.b\"}\n", true, true),
        ] {
            assert_eq!(has_problem(line.as_bytes(), is_json), expected, "{line}");
        }
    }
}
