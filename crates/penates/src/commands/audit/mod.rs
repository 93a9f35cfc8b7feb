//! `penates audit`: this file reads the audit, `follow.rs` follows it, `form.rs` prints it,
//! `erase.rs` erases a person.

mod erase;
mod follow;
mod form;

use std::net::IpAddr;
use std::pin::pin;

use ::audit::AuditEntry;
use clap::{Args, Subcommand};
use futures::StreamExt;

use crate::cli::{OutputArgs, StoreArgs};
use crate::client::{Client, query_value};
use crate::exit::CliError;
use crate::output::Output;
use crate::reach::Reached;
use form::Form;

/// Arguments of `penates audit`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  penates audit
  penates audit --kind change --token importer
  penates audit --target /rest/maps/ --result failed
  penates audit --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z --csv > january.csv
  penates audit --kind text --json > readings.ndjson
  penates audit --top 20
  penates audit --follow --kind change
  penates audit erase --token jane@example.org"
)]
pub struct AuditArgs {
    /// What to do besides reading.
    #[command(subcommand)]
    action: Option<Action>,
    /// What to list.
    #[command(flatten)]
    listed: Listed,
}

/// What to do besides reading.
#[derive(Debug, Subcommand)]
enum Action {
    /// Erase a person from past records: who did something becomes unknown, what was done stays.
    Erase(erase::EraseArgs),
}

/// What to list, and how.
#[derive(Debug, Args)]
struct Listed {
    /// From this time on (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<jiff::Timestamp>,
    /// Until this time (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: Option<jiff::Timestamp>,
    /// Only what was done with the token of this name.
    #[arg(long, value_name = "NAME")]
    token: Option<String>,
    /// Only what was done from this address.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// Only what concerns paths that begin so. A volume is at `/volumes/` and its id.
    #[arg(long, value_name = "PATH")]
    target: Option<String>,
    /// Only requests for text, changes, changes that a transaction staged, reads of resources and
    /// of the audit, or refusals.
    #[arg(long, value_parser = ["text", "change", "staged", "read", "refusal"])]
    kind: Option<String>,
    /// Only what ended so: `ok`, `failed`, `unknown`, or a status such as 412.
    #[arg(long, value_name = "RESULT", value_parser = parse_result)]
    result: Option<String>,
    /// List the N most requested volumes.
    #[arg(long, value_name = "N", conflicts_with_all = ["token", "address", "target", "kind", "result", "csv"])]
    top: Option<u32>,
    /// Print CSV, with a line of headings.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Wait for what is recorded next, until interrupted. Without --from, print only that.
    #[arg(long, conflicts_with_all = ["to", "top", "csv"])]
    follow: bool,
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

fn parse_result(text: &str) -> Result<String, String> {
    text.parse::<::audit::WantedResult>().map(|_| text.to_owned())
}

impl Listed {
    fn query(&self) -> String {
        self.query_from(self.from)
    }

    /// The query from another time on.
    fn query_from(&self, from: Option<jiff::Timestamp>) -> String {
        let parameters = [
            ("from", from.map(|time| time.to_string())),
            ("follow", self.follow.then(|| "true".to_owned())),
            ("to", self.to.map(|time| time.to_string())),
            ("token", self.token.clone()),
            ("address", self.address.map(|address| address.to_string())),
            ("target", self.target.clone()),
            ("kind", self.kind.clone()),
            ("result", self.result.clone()),
            ("top", self.top.map(|top| top.to_string())),
        ];
        let given = parameters.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", query_value(&value?))));
        given.collect::<Vec<_>>().join("&")
    }

    fn form(&self) -> Form {
        match (self.csv, self.output.json) {
            (true, _) => Form::Csv,
            (_, true) => Form::Json,
            _ => Form::Text,
        }
    }
}

/// Runs it.
pub async fn run(args: AuditArgs) -> anyhow::Result<()> {
    if let Some(Action::Erase(args)) = args.action {
        return erase::run(args).await;
    }
    let reached = Reached::open_local(&args.listed.store).await?;
    let outcome = match args.listed.follow {
        true => follow::run(&args.listed, &reached).await,
        false => list(&args.listed, &reached.client).await,
    };
    reached.close().await?;
    outcome
}

async fn list(args: &Listed, client: &Client) -> anyhow::Result<()> {
    let mut lines = pin!(client.get_lines(&format!("/admin/audit?{}", args.query()), "application/x-ndjson").await?);
    let mut output = Output::stdout();
    let form = args.form();
    if args.top.is_none() {
        form.begin(&mut output)?;
    }
    let mut damaged = 0;
    while let Some(line) = lines.next().await {
        let line = line?;
        damaged += match args.top {
            Some(_) => form::show_top(&serde_json::from_str(&line)?, args.output, &mut output)?,
            None => form.show(&serde_json::from_str::<AuditEntry>(&line)?, &mut output)?,
        };
    }
    output.finish()?;
    if damaged > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}
