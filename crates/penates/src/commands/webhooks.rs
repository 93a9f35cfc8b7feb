//! `penates webhooks`

use clap::{Args, Subcommand};
use http::Method;
use serde_json::Value;

use crate::cli::{OutputArgs, StoreArgs};
use crate::client::query_value;
use crate::exit::CliError;
use crate::output::{Output, cell};
use crate::reach::Reached;

/// Arguments of `penates webhooks`.
#[derive(Debug, Args)]
pub struct WebhooksArgs {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What to do with webhooks.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the webhooks, and how far each is.
    List(ListArgs),
    /// Send a webhook a message of the type `webhook.test`. The exit code is 1 if it does not accept it.
    Test(TestArgs),
    /// Send to a webhook again, also if it is parked.
    Resume(ResumeArgs),
}

/// Arguments of `webhooks list`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates webhooks list --json")]
struct ListArgs {
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `webhooks test`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates webhooks test index")]
struct TestArgs {
    /// Its name.
    name: String,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `webhooks resume`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates webhooks resume index
  penates webhooks resume index --skip
  penates webhooks resume index --from 2026-11-01T00:00:00Z")]
struct ResumeArgs {
    /// Its name.
    name: String,
    /// Go on behind this cursor, at this time (RFC 3339), at `start` or `now` [default: where it was]
    #[arg(long, value_name = "CURSOR|TIME")]
    from: Option<String>,
    /// Leave out the event that was not accepted.
    #[arg(long, conflicts_with = "from")]
    skip: bool,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: WebhooksArgs) -> anyhow::Result<()> {
    match args.action {
        Action::List(args) => list(args).await,
        Action::Test(args) => test(args).await,
        Action::Resume(args) => resume(args).await,
    }
}

async fn list(args: ListArgs) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let webhooks = reached.client.get_json::<Vec<Value>>("/admin/webhooks").await;
    reached.close().await?;
    show(&webhooks?, &args.output)
}

async fn test(args: TestArgs) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let path = format!("/admin/webhooks/{}/test", query_value(&args.name));
    let tested = reached.client.ask_json::<Value>(Method::POST, &path).await;
    reached.close().await?;
    let tested = tested?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&tested)?;
    } else if tested["accepted"] == true {
        output.line(format!("{} accepted it", args.name))?;
    } else {
        output.line(format!("{} did not accept it: {}", args.name, cell(&tested["detail"])))?;
    }
    output.finish()?;
    if tested["accepted"] == true { Ok(()) } else { Err(CliError::Incomplete.into()) }
}

async fn resume(args: ResumeArgs) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let from = args.from.as_deref().map(|from| format!("?from={}", query_value(from)));
    let query = from.unwrap_or_else(|| if args.skip { "?skip=true".to_owned() } else { String::new() });
    let path = format!("/admin/webhooks/{}/resume{query}", query_value(&args.name));
    let resumed = reached.client.ask_json::<Value>(Method::POST, &path).await;
    reached.close().await?;
    show(&[resumed?], &args.output)
}

/// Prints how far webhooks are.
fn show(webhooks: &[Value], form: &OutputArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if form.json {
        webhooks.iter().try_for_each(|webhook| output.json(webhook))?;
        return output.finish();
    }
    let columns = ["name", "origin", "path", "state", "delivered", "cursor", "why"];
    let row = |webhook: &Value| {
        let why = if webhook["parked"].is_null() { &webhook["failing"]["why"] } else { &webhook["parked"]["why"] };
        columns.map(|column| cell(if column == "why" { why } else { &webhook[column] })).to_vec()
    };
    output.table(&columns, &webhooks.iter().map(row).collect::<Vec<_>>())?;
    output.finish()
}
