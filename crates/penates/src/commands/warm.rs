//! `penates warm`

use std::net::IpAddr;

use clap::Args;
use humantime::Duration;
use serde_json::json;
use store::Table;
use store_cassandra::{CassandraStore, Gap, WarmedNode, Warming};

use crate::cli::{OutputArgs, Rate, StoreArgs, table};
use crate::exit::CliError;
use crate::local;
use crate::output::Output;
use crate::progress;

/// Arguments of `penates warm`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates warm --store cassandra://node1/profiles
  penates warm --store cassandra://node1/profiles --node 10.0.0.2 --longest 2m
  penates warm --store cassandra://node1/books --table objects --table packs")]
pub struct WarmArgs {
    /// Only this node; may be repeated [default: all nodes of the data center]
    #[arg(long = "node", value_name = "IP")]
    nodes: Vec<IpAddr>,
    /// A table to read; may be repeated.
    #[arg(long = "table", value_name = "NAME", default_value = "records", value_parser = table())]
    tables: Vec<Table>,
    /// The longest time that this may take.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    longest: Duration,
    /// The most that each node reads in a second, for example `20MiB` of keys and values [default: no
    /// limit]
    #[arg(long, value_name = "SIZE")]
    rate: Option<Rate>,
    /// Which store.
    #[command(flatten)]
    store: StoreArgs,
    /// The form of the output.
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs it.
pub async fn run(args: WarmArgs) -> anyhow::Result<()> {
    let options = local::cassandra_options(&args.store, "has nodes")?;
    let bytes_per_second = args.rate.map_or(0, |Rate(bytes)| bytes.get());
    let warming = Warming { tables: args.tables, nodes: args.nodes, longest: *args.longest, bytes_per_second };
    let bar = progress::rows();
    let warmed = CassandraStore::warm(&options, &warming, &|rows| bar.inc(rows)).await.map_err(local::cannot_open)?;
    bar.finish_and_clear();
    print(&warmed, args.output)?;
    let failed = warmed.iter().any(|node| matches!(node.gap, Some(Gap::Failed(_))));
    if failed { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

fn print(warmed: &[WarmedNode], form: OutputArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let end = |node: &WarmedNode| match &node.gap {
        None => "all was read".to_owned(),
        Some(Gap::TimeOver) => "the time was over".to_owned(),
        Some(Gap::Failed(why)) => format!("failed: {why}"),
    };
    if form.json {
        for node in warmed {
            output.json(&json!({
                "node": node.node.to_string(),
                "rows": node.rows,
                "bytes": node.bytes,
                "seconds": node.took.as_secs_f64(),
                "complete": node.gap.is_none(),
                "end": end(node),
            }))?;
        }
    } else {
        let row = |node: &WarmedNode| {
            let seconds = format!("{:.1}", node.took.as_secs_f64());
            vec![node.node.to_string(), node.rows.to_string(), node.bytes.to_string(), seconds, end(node)]
        };
        let rows: Vec<_> = warmed.iter().map(row).collect();
        output.table(&["node", "rows", "bytes", "seconds", "end"], &rows)?;
    }
    output.finish()
}
