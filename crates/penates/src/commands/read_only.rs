//! `penates read-only`

use clap::{Args, ValueEnum};
use http::Method;
use serde_json::Value;
use store::read_only;

use crate::cli::{OutputArgs, StoreArgs};
use crate::client::query_value;
use crate::output::Output;
use crate::reach::Reached;

/// Arguments of `penates read-only`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates read-only
  penates read-only on --reason 'the disk is being replaced'
  penates read-only off --store cassandra://node1/books")]
pub struct ReadOnlyArgs {
    /// The new state of the store; without it, the command prints the current state.
    #[arg(value_enum)]
    to: Option<To>,
    /// The reason given to clients that want to change something.
    #[arg(long, value_name = "TEXT", default_value = "set by the administrator")]
    reason: String,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// The state of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum To {
    /// Read-only.
    On,
    /// Taking changes.
    Off,
}

/// Runs it.
pub async fn run(args: ReadOnlyArgs) -> anyhow::Result<()> {
    let reached = Reached::open_local(&args.store).await?;
    let (method, path) = match args.to {
        None => (Method::GET, "/admin/read-only".to_owned()),
        Some(To::On) => (Method::PUT, format!("/admin/read-only?reason={}", query_value(&args.reason))),
        Some(To::Off) => (Method::DELETE, "/admin/read-only".to_owned()),
    };
    let before = match args.to {
        Some(To::Off) => Some(reached.client.ask_json::<Value>(Method::GET, "/admin/read-only").await),
        _ => None,
    };
    let answer = reached.client.ask_json::<Value>(method, &path).await;
    reached.close().await?;
    let before = before.transpose()?;
    let answer = answer?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&answer)?;
    } else {
        match answer["reason"].as_str() {
            Some(reason) => output.line(format!("read-only: {reason}"))?,
            None => output.line("it takes changes")?,
        }
        let before = before.as_ref().and_then(|before| before["reason"].as_str());
        if before.is_some_and(|reason| read_only::lease_of(reason).1.is_some()) {
            output.line("the copy that had made it read-only, if it still runs, will end with an error")?;
        }
    }
    output.finish()
}
