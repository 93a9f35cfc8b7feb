//! `penates records`: `export.rs` and `import.rs` move many at once, `format.rs` knows their
//! formats and `lines.rs` reads lines, `asking.rs` asks servers, `plan.rs` computes machines.

mod asking;
mod export;
mod format;
mod import;
mod lines;
mod plan;

use std::str::FromStr;

use bytes::Bytes;
use clap::{Args, Subcommand};
use futures::StreamExt;
use http::Method;
use http::header::CONTENT_TYPE;
use humantime::Duration;
use indexmap::IndexMap;
use serde_json::Value;

use self::asking::{Asking, DeadlineArgs};
use crate::cli::{OutputArgs, ReachArgs, WriteArgs};
use crate::client;
use crate::exit::CliError;
use crate::output::Output;
use crate::progress;
use crate::reach::Reached;

/// The media type of lines of JSON.
const LINES: &str = "application/x-ndjson";

/// Arguments of `penates records`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates records set user:1 city=Ulm visits=1 --ttl 30days
  penates records get user:1
  penates records scan --match 'user:*'
  penates records export > records.ndjson
  penates records import records.ndjson
  penates records plan --records 1e9 --reads 5000 --writes 5000")]
pub struct RecordsArgs {
    /// What to do.
    #[command(subcommand)]
    command: RecordsCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum RecordsCommand {
    /// Print a record.
    Get(GetArgs),
    /// Set attributes of a record.
    Set(SetArgs),
    /// List ids.
    Scan(ScanArgs),
    /// Print all records, as lines of JSON or as CSV.
    Export(export::ExportArgs),
    /// Store records that were exported, or made by other programs.
    Import(import::ImportArgs),
    /// Compute the machines that records need, from measured costs.
    Plan(plan::PlanArgs),
}

/// Arguments of `penates records get`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates records get user:1
  penates records get user:1 --attributes city,visits --json")]
struct GetArgs {
    /// The record.
    id: String,
    /// Only these attributes, separated by commas.
    #[arg(long, value_name = "NAMES")]
    attributes: Option<String>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// How long it may take.
    #[command(flatten)]
    deadline: DeadlineArgs,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Arguments of `penates records set`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates records set user:1 city=Ulm visits=1
  penates records set user:1 --unset visits --ttl 1h
  penates records set user:1 city=Ulm --replace")]
struct SetArgs {
    /// The record.
    id: String,
    /// Attributes and their values.
    #[arg(value_name = "NAME=VALUE")]
    attributes: Vec<Assignment>,
    /// Delete this attribute; can be repeated.
    #[arg(long, value_name = "NAME", conflicts_with = "replace")]
    unset: Vec<String>,
    /// The record expires after this time [default: its expiry stays as it is]
    #[arg(long, value_name = "TIME")]
    ttl: Option<Duration>,
    /// Replace the record, with its expiry: what is not named is deleted.
    #[arg(long)]
    replace: bool,
    /// How long it may take.
    #[command(flatten)]
    deadline: DeadlineArgs,
    /// Where.
    #[command(flatten)]
    write: WriteArgs,
}

/// Arguments of `penates records scan`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates records scan --match 'user:*'
  penates records scan --json")]
struct ScanArgs {
    /// Only ids of this pattern, as of Redis: `*`, `?` and `[a-z]`.
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// How long it may take.
    #[command(flatten)]
    deadline: DeadlineArgs,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

/// An attribute and its value.
#[derive(Clone, Debug)]
struct Assignment {
    name: String,
    value: String,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

/// Runs it.
pub async fn run(args: RecordsArgs) -> anyhow::Result<()> {
    match args.command {
        RecordsCommand::Get(args) => get(args).await,
        RecordsCommand::Set(args) => set(args).await,
        RecordsCommand::Scan(args) => scan(args).await,
        RecordsCommand::Export(args) => export::run(args).await,
        RecordsCommand::Import(args) => import::run(args).await,
        RecordsCommand::Plan(args) => plan::run(&args),
    }
}

/// The path of a record.
fn address(id: &str) -> String {
    format!("/records/{}", client::query_value(id))
}

/// The path of the list of records.
fn listing(pattern: Option<&str>, values: bool) -> String {
    let pattern = pattern.map(|pattern| format!("&match={}", client::query_value(pattern)));
    format!("/records/?values={values}{}", pattern.unwrap_or_default())
}

async fn get(args: GetArgs) -> anyhow::Result<()> {
    let query = args.attributes.as_ref().map(|names| format!("?attributes={}", client::query_value(names)));
    let path = address(&args.id) + &query.unwrap_or_default();
    let reached = Reached::open(&args.reach).await?;
    let found = Asking::new(&reached.client, args.deadline).json(&path).await;
    reached.close().await?;
    let found = found?;
    let mut output = Output::stdout();
    match &found {
        Value::String(text) if !args.output.json => output.line(text)?,
        found if args.output.json => output.json(found)?,
        found => output.fields(found)?,
    }
    output.finish()
}

async fn set(args: SetArgs) -> anyhow::Result<()> {
    if args.attributes.is_empty() && args.unset.is_empty() && (args.ttl.is_none() || args.replace) {
        return Err(CliError::Usage("name attributes as NAME=VALUE".to_owned()).into());
    }
    let set = args.attributes.iter().map(|Assignment { name, value }| (name, Some(value)));
    let record: IndexMap<&String, Option<&String>> = set.chain(args.unset.iter().map(|name| (name, None))).collect();
    let ttl = args.ttl.map(|ttl| format!("?ttl_ms={}", ttl.as_millis()));
    let path = address(&args.id) + &ttl.unwrap_or_default();
    let method = if args.replace { Method::PUT } else { Method::PATCH };
    let body = Bytes::from(serde_json::to_string(&record)?);
    let reached = Reached::open_or_make(&args.write).await?;
    let field = (CONTENT_TYPE, "application/json");
    let answered = Asking::new(&reached.client, args.deadline).ask(method, &path, field, body).await;
    reached.close().await?;
    answered?;
    Ok(())
}

async fn scan(args: ScanArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let listed = list(Asking::new(&reached.client, args.deadline), &args).await;
    reached.close().await?;
    listed
}

async fn list(asking: Asking, args: &ScanArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let bar = progress::printed_records();
    let mut lines = std::pin::pin!(asking.lines(&listing(args.pattern.as_deref(), false), &bar).await?);
    while let Some(line) = lines.next().await {
        let line = line?;
        if args.output.json {
            output.line(line)?;
            continue;
        }
        match &serde_json::from_str::<Value>(&line)?["id"] {
            Value::String(id) => output.line(id)?,
            other => output.json(other)?,
        }
    }
    bar.finish_and_clear();
    output.finish()
}
