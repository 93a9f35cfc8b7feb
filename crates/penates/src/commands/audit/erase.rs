//! `penates audit erase`

use std::net::IpAddr;

use clap::Args;
use serde_json::Value;

use super::parse_time;
use crate::cli::{OutputArgs, StoreArgs};
use crate::client::{json, query_value};
use crate::output::{Output, cell};
use crate::reach::Reached;

/// Arguments of `penates audit erase`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates audit erase --token jane@example.org
  penates audit erase --address 192.0.2.7 --before 2026-06-01T00:00:00Z
  penates audit erase --user jane --damaged")]
pub(super) struct EraseArgs {
    /// Erase the name of this token, and the addresses and programs that it was used from.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["address", "user"])]
    #[arg(required_unless_present_any = ["address", "user"])]
    token: Option<String>,
    /// Erase this address, and the programs at it. Names of tokens stay.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "user")]
    address: Option<IpAddr>,
    /// Erase the name of this user of the operating system, and the programs that it used here.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Replace the records that cannot be read too: nobody knows whom they name. Only their times
    /// stay.
    #[arg(long)]
    damaged: bool,
    /// Only in records before this time (RFC 3339).
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    before: Option<jiff::Timestamp>,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs it.
pub(super) async fn run(args: EraseArgs) -> anyhow::Result<()> {
    let fields = [
        ("token", args.token.clone()),
        ("address", args.address.map(|address| address.to_string())),
        ("user", args.user.clone()),
        ("damaged", args.damaged.then(|| "true".to_owned())),
        ("before", args.before.map(|before| before.to_string())),
    ];
    let given = fields.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", query_value(&value?))));
    let form = given.collect::<Vec<_>>().join("&");
    let reached = Reached::open_local(&args.store).await?;
    let erased = reached.client.post_form("/admin/audit/erase", form, "application/json").await;
    let erased = match erased {
        Ok(response) => json::<Value>(response).await,
        Err(error) => Err(error),
    };
    reached.close().await?;
    let erased = erased?;
    let mut output = Output::stdout();
    if args.output.json {
        output.json(&erased)?;
    } else {
        let (records, until) = (cell(&erased["records"]), cell(&erased["until"]));
        output.line(format!("erased in {records} records; none before {until} names this person any more"))?;
        if erased["damaged"] != 0 {
            let (damaged, outcome) =
                (cell(&erased["damaged"]), if args.damaged { "replaced" } else { "left (--damaged)" });
            output.line(format!("{damaged} records cannot be read and were {outcome}"))?;
        }
        output.line("backups, copies and logs are not changed")?;
    }
    output.finish()
}
