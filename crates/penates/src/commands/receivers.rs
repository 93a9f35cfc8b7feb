//! `penates webhooks`, `penates bridges`

use clap::{Args, Subcommand};
use http::Method;
use serde_json::Value;

use crate::cli::{OutputArgs, StoreArgs};
use crate::client::query_value;
use crate::exit::CliError;
use crate::output::{Output, cell};
use crate::reach::Reached;

/// Receivers of the change feed.
#[derive(Clone, Copy, Debug)]
pub enum Receivers {
    /// Webhooks.
    Webhooks,
    /// Bridges to brokers of messages.
    Bridges,
}

impl Receivers {
    fn path(self) -> &'static str {
        match self {
            Self::Webhooks => "/admin/webhooks",
            Self::Bridges => "/admin/bridges",
        }
    }
}

/// Arguments of `penates webhooks` and `penates bridges`.
#[derive(Debug, Args)]
pub struct ReceiversArgs {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
enum Action {
    /// List them, and how far each is.
    List(ListArgs),
    /// Send a webhook a message of the type `webhook.test`, or log in at a broker. The exit code is 1
    /// if that is not accepted.
    Test(TestArgs),
    /// Send again, also if it is parked.
    Resume(ResumeArgs),
}

/// Arguments of `list`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates webhooks list --json
  penates bridges list")]
struct ListArgs {
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates webhooks test index
  penates bridges test fedora")]
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

/// Arguments of `resume`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates webhooks resume index
  penates bridges resume fedora --skip
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
pub async fn run(receivers: Receivers, args: ReceiversArgs) -> anyhow::Result<()> {
    match args.action {
        Action::List(args) => list(receivers, args).await,
        Action::Test(args) => test(receivers, args).await,
        Action::Resume(args) => resume(receivers, args).await,
    }
}

async fn list(receivers: Receivers, args: ListArgs) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let listed = reached.client.get_json::<Vec<Value>>(receivers.path()).await;
    reached.close().await?;
    show(&listed?, &args.output)
}

async fn test(receivers: Receivers, args: TestArgs) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let path = format!("{}/{}/test", receivers.path(), query_value(&args.name));
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

async fn resume(receivers: Receivers, args: ResumeArgs) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let from = args.from.as_deref().map(|from| format!("?from={}", query_value(from)));
    let query = from.unwrap_or_else(|| if args.skip { "?skip=true".to_owned() } else { String::new() });
    let path = format!("{}/{}/resume{query}", receivers.path(), query_value(&args.name));
    let resumed = reached.client.ask_json::<Value>(Method::POST, &path).await;
    reached.close().await?;
    show(&[resumed?], &args.output)
}

/// Prints how far receivers are.
fn show(listed: &[Value], form: &OutputArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    if form.json {
        listed.iter().try_for_each(|receiver| output.json(receiver))?;
        return output.finish();
    }
    let columns = ["name", "origin", "path", "state", "delivered", "cursor", "why"];
    let row = |receiver: &Value| {
        let why = if receiver["parked"].is_null() { &receiver["failing"]["why"] } else { &receiver["parked"]["why"] };
        columns.map(|column| cell(if column == "why" { why } else { &receiver[column] })).to_vec()
    };
    output.table(&columns, &listed.iter().map(row).collect::<Vec<_>>())?;
    output.finish()
}
