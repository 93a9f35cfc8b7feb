//! `penates token`

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use crate::cli::{OutputArgs, StoreArgs};
use crate::client::{self, query_value};
use crate::output::{Output, cell};
use crate::reach::{IfVacant, Reached};

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
#[command(after_help = "Example:
  penates token create importer")]
struct NamedToken {
    /// Its name, which the audit records with each request.
    name: String,
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
    let reached = Reached::open_local(&args.store, IfVacant::Create).await?;
    let path = format!("/admin/tokens?name={}", query_value(&args.name));
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
    eprintln!("The token is not shown again.");
    Ok(())
}

async fn list(args: ListTokens) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store, IfVacant::Refuse).await?;
    let tokens = reached.client.get_json::<Vec<Value>>("/admin/tokens").await;
    reached.close().await?;
    let tokens = tokens?;
    let mut output = Output::stdout();
    if args.output.json {
        tokens.iter().try_for_each(|token| output.json(token))?;
    } else {
        let columns = ["name", "created", "revoked"];
        let rows: Vec<Vec<String>> =
            tokens.iter().map(|token| columns.iter().map(|column| cell(&token[column])).collect()).collect();
        output.table(&columns, &rows)?;
    }
    output.finish()
}

async fn revoke(args: RevokedToken) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store, IfVacant::Refuse).await?;
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
