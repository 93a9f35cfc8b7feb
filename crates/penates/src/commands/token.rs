//! `penates token`

use std::time::Duration;

use clap::{Args, Subcommand};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use server::Scopes;

use crate::cli::{OutputArgs, StoreArgs};
use crate::client::{self, query_value};
use crate::exit::CliError;
use crate::output::{Output, cell};
use crate::reach::Reached;

/// Arguments of `penates token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
enum Action {
    /// Create a token and show it once.
    Create(NamedToken),
    /// List the tokens' names.
    List(ListTokens),
    /// Revoke a token.
    Revoke(RevokedToken),
}

/// Arguments of `token create`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates token create importer
  penates token create prometheus --scope metrics
  penates token create guest --scope read --expires 30days
  penates token create maps --scope write --scope rest:/collections/maps
  penates token create harvard --scope read --scope 'volumes:hvd.*'")]
struct NamedToken {
    /// Its name, which the audit records with each request.
    name: String,
    /// What it allows: `read`, `write` (with reading), `metrics` (metrics and statistics alone) and
    /// `admin` (metrics, and what operators see, such as fixity). Give it several times for
    /// several. Without it, a token allows `read` and `write`. `volumes:PATTERN` (with `*` for any
    /// characters) and `rest:/PATH` limit reading and writing to these volumes and trees of the
    /// repository.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// After how long it is no longer valid, for example `12h` or `30days`. Without it, it does not
    /// expire.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    expires: Option<Duration>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `token revoke`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates token revoke importer")]
struct RevokedToken {
    /// Its name.
    name: String,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `token list`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  penates token list --json")]
struct ListTokens {
    /// How.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: TokenArgs) -> anyhow::Result<()> {
    match args.action {
        Action::Create(args) => create(args).await,
        Action::List(args) => list(args).await,
        Action::Revoke(args) => revoke(args).await,
    }
}

async fn create(args: NamedToken) -> anyhow::Result<()> {
    let expires = args.expires.map(|time| Timestamp::now().checked_add(time)).transpose();
    let expires = expires.map_err(|_| CliError::Usage("`--expires` is too far in the future".to_owned()))?;
    if !args.scopes.is_empty() {
        // Before a store is opened: a list may be too long for a request.
        args.scopes.join(" ").parse::<Scopes>().map_err(|error| CliError::Usage(error.to_string()))?;
    }
    let reached = Reached::open_local(&args.store).await?;
    let mut path = format!("/admin/tokens?name={}", query_value(&args.name));
    if !args.scopes.is_empty() {
        path += &format!("&scope={}", query_value(&args.scopes.join(" ")));
    }
    if let Some(expires) = expires {
        path += &format!("&expires={}", query_value(&expires.to_string()));
    }
    let created = reached.client.ask_json::<Value>(Method::POST, &path).await;
    reached.close().await?;
    let created = created?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&created)?;
    } else {
        output.line(cell(&created["token"]))?;
    }
    output.finish()?;
    note!("The token is not shown again.");
    Ok(())
}

async fn list(args: ListTokens) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let tokens = reached.client.get_json::<Vec<Value>>("/admin/tokens").await;
    reached.close().await?;
    let tokens = tokens?;
    let mut output = Output::stdout();
    if args.output.json {
        tokens.iter().try_for_each(|token| output.json(token))?;
    } else {
        let columns = ["name", "created", "scopes", "expires", "revoked"];
        let rows: Vec<Vec<String>> =
            tokens.iter().map(|token| columns.iter().map(|column| cell(&token[column])).collect()).collect();
        output.table(&columns, &rows)?;
    }
    output.finish()
}

async fn revoke(args: RevokedToken) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let request = http::Request::builder().method(Method::DELETE);
    let path = format!("/admin/tokens/{}", query_value(&args.name));
    let revoked = reached.client.ask(&path, request, client::empty()).await;
    reached.close().await?;
    revoked?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&json!({"name": args.name, "revoked": true}))?;
    } else {
        output.line(format!("revoked {}", args.name))?;
    }
    output.finish()
}
