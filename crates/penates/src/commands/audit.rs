//! `penates audit`

use std::pin::pin;

use ::audit::{AuditEntry, AuditRecord, AuditedVolume};
use clap::Args;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use store::UnixMillis;

use crate::cli::{OutputArgs, StoreArgs};
use crate::client::{Client, query_value};
use crate::exit::CliError;
use crate::output::Output;
use crate::reach::Reached;

/// Arguments of `penates audit`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates audit
  penates audit --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --json
  penates audit --top 20")]
pub struct AuditArgs {
    /// From this time on (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<jiff::Timestamp>,
    /// Until this time (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: Option<jiff::Timestamp>,
    /// List the N most requested volumes.
    #[arg(long, value_name = "N")]
    top: Option<u32>,
    /// How.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

fn parse_time(text: &str) -> Result<jiff::Timestamp, String> {
    text.parse().map_err(|error: jiff::Error| error.to_string())
}

impl AuditArgs {
    fn query(&self) -> String {
        let time =
            |name: &str, time: Option<jiff::Timestamp>| Some(format!("{name}={}", query_value(&time?.to_string())));
        let top = self.top.map(|top| format!("top={top}"));
        let parameters: Vec<String> =
            [time("from", self.from), time("to", self.to), top].into_iter().flatten().collect();
        parameters.join("&")
    }
}

/// Runs it.
pub async fn run(args: AuditArgs) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let outcome = tell(&args, &reached.client).await;
    reached.close().await?;
    outcome
}

async fn tell(args: &AuditArgs, client: &Client) -> anyhow::Result<()> {
    let mut lines = pin!(client.get_lines(&format!("/admin/audit?{}", args.query()), "application/x-ndjson").await?);
    let mut output = Output::stdout();
    let mut damaged = 0;
    while let Some(line) = lines.next().await {
        let line = line?;
        damaged += match args.top {
            Some(_) => tell_top(&serde_json::from_str(&line)?, args.output, &mut output)?,
            None => tell_entry(serde_json::from_str(&line)?, args.output, &mut output)?,
        };
    }
    output.finish()?;
    if damaged > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// Prints the records; returns how many cannot be read.
fn tell_entry(entry: AuditEntry, form: OutputArgs, output: &mut Output) -> anyhow::Result<u64> {
    match entry {
        AuditEntry::Record(record) => tell_record(record, form, output).map(|()| 0),
        AuditEntry::Damaged(damaged) => {
            let at = time(damaged.at)?;
            match form.json {
                true => output.json(&json!({"at": at, "damage": damaged.damage}))?,
                false => output.line(format!("{at}  a record cannot be read: {}", damaged.damage))?,
            }
            Ok(1)
        }
    }
}

fn tell_record(record: AuditRecord, form: OutputArgs, output: &mut Output) -> anyhow::Result<()> {
    let at = time(record.at)?;
    let action = record.action.as_str();
    if form.json {
        return output.json(&json!({
            "at": at,
            "action": action,
            "name": record.requester.name,
            "address": record.requester.address,
            "request_id": record.requester.request_id,
            "plan": record.plan,
            "part": record.part,
            "volumes": record.volumes,
        }));
    }
    let volumes: Vec<String> = record.volumes.iter().map(told).collect();
    output.line(format!("{at}  {}  {action}  {}", record.requester.identity(), volumes.join("|")))
}

/// A volume with its requested pages.
fn told(audited: &AuditedVolume) -> String {
    match &audited.pages {
        None => audited.volume.to_string(),
        Some(pages) => {
            let pages: Vec<String> = pages.iter().map(u32::to_string).collect();
            format!("{}[{}]", audited.volume, pages.join(","))
        }
    }
}

fn time(at: UnixMillis) -> anyhow::Result<String> {
    Ok(jiff::Timestamp::from_millisecond(i64::try_from(at.0)?)?.to_string())
}

/// The most requested volumes from the server, each with its number of requests.
#[derive(Deserialize)]
struct Top {
    requests: u64,
    /// Number of records that cannot be read.
    damaged: u64,
    volumes: Vec<(String, u64)>,
    requesters: Vec<(String, u64)>,
}

/// Prints the most requested volumes; returns how many records cannot be read.
fn tell_top(top: &Top, form: OutputArgs, output: &mut Output) -> anyhow::Result<u64> {
    if form.json {
        let counted = |what: &str, counts: &[(String, u64)]| -> Vec<Value> {
            counts.iter().map(|(name, requests)| json!({what: name, "requests": requests})).collect()
        };
        output.json(&json!({
            "requests": top.requests,
            "damaged": top.damaged,
            "volumes": counted("id", &top.volumes),
            "requesters": counted("name", &top.requesters),
        }))?;
        return Ok(top.damaged);
    }
    let rows = |counts: &[(String, u64)]| -> Vec<Vec<String>> {
        counts.iter().map(|(name, requests)| vec![requests.to_string(), name.clone()]).collect()
    };
    output.table(&["requests", "volume"], &rows(&top.volumes))?;
    output.line("")?;
    output.table(&["requests", "requester"], &rows(&top.requesters))?;
    if top.damaged > 0 {
        output.line(format!("\n{} records cannot be read and are not counted", top.damaged))?;
    }
    Ok(top.damaged)
}
