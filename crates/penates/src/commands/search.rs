//! `penates search`

use clap::{Args, Subcommand};
use http::Method;
use serde_json::Value;

use crate::cli::{OutputArgs, StoreArgs};
use crate::exit::CliError;
use crate::output::{Output, cell};
use crate::reach::Reached;

/// Arguments of `penates search`.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

/// What to do with the search index.
#[derive(Debug, Subcommand)]
enum Action {
    /// Show how the index is.
    Status(StatusArgs),
    /// Have the index made anew. The present one answers meanwhile.
    Rebuild(RebuildArgs),
}

/// What a client elsewhere can do instead.
const ELSEWHERE: &str = "this command runs on the machine of a server, or of a store: log in there. From elsewhere, the \
                         metrics penates_search_* of a server show how the index is, and each search says if results may be missing";

/// Arguments of `search status`.
#[derive(Debug, Args)]
#[command(after_help = "It runs on the machine of the server. From elsewhere, see the metrics penates_search_*.

Example:
  penates search status --json")]
struct StatusArgs {
    /// Not offered.
    #[arg(long, hide = true)]
    server: Option<String>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Arguments of `search rebuild`.
#[derive(Debug, Args)]
#[command(after_help = "It runs on the machine of the server.

Example:
  penates search rebuild")]
struct RebuildArgs {
    /// Not offered.
    #[arg(long, hide = true)]
    server: Option<String>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub async fn run(args: SearchArgs) -> anyhow::Result<()> {
    let (method, path, output, store, server) = match args.action {
        Action::Status(args) => (Method::GET, "/admin/search", args.output, args.store, args.server),
        Action::Rebuild(args) => (Method::POST, "/admin/search/rebuild", args.output, args.store, args.server),
    };
    if server.is_some() {
        return Err(CliError::Usage(ELSEWHERE.to_owned()).into());
    }
    let is_rebuild = method == Method::POST;
    let reached = Reached::open_local(&store).await?;
    let status = reached.client.ask_json::<Value>(method, path).await;
    reached.close().await?;
    let status = status?;
    let form = output;
    let mut output = Output::stdout();
    if form.json {
        output.json(&status)?;
        return output.finish();
    }
    if is_rebuild {
        output.line("a server makes the index anew; `penates search status` shows how far it is")?;
        return output.finish();
    }
    for column in ["state", "resources", "bytes", "shards", "until"] {
        output.line(format!("{column}: {}", cell(&status[column])))?;
    }
    let building = &status["building"];
    if !building.is_null() {
        let (why, since, resources) = (cell(&building["why"]), cell(&building["since"]), cell(&building["resources"]));
        output.line(format!("being made anew since {since} ({why}): {resources} resources so far"))?;
    }
    output.finish()
}
