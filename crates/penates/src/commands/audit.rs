//! `penates audit`

use clap::Args;
use futures::StreamExt;
use serde_json::Value;

use crate::cli::{OutputArgs, ReachArgs};
use crate::client::{Client, query_value};
use crate::output::{Output, cell};
use crate::reach::Reached;

/// Tells who asked for what. Only on the machine of the store: by its folder or its server's socket.
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
    /// Tell the N volumes that are asked for most.
    #[arg(long, value_name = "N")]
    top: Option<u32>,
    /// Where.
    #[command(flatten)]
    reach: ReachArgs,
    /// How.
    #[command(flatten)]
    output: OutputArgs,
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
    let reached = Reached::open(&args.reach).await?;
    let outcome = tell(&args, &reached.client).await;
    reached.close().await?;
    outcome
}

async fn tell(args: &AuditArgs, client: &Client) -> anyhow::Result<()> {
    let lines = client.get_lines(&format!("/admin/audit?{}", args.query()), "application/x-ndjson").await?;
    let mut lines = std::pin::pin!(lines);
    let mut output = Output::stdout();
    while let Some(line) = lines.next().await {
        let line = line?;
        if args.output.json {
            output.line(line)?;
        } else {
            output.line(told(&serde_json::from_str(&line)?))?;
        }
    }
    output.finish()
}

/// A record as a line for a person: its fields' values, in their order.
fn told(record: &Value) -> String {
    match record {
        Value::Object(fields) => fields.values().map(cell).collect::<Vec<_>>().join("  "),
        other => cell(other),
    }
}
