//! `penates records export`

use clap::Args;
use futures::StreamExt;
use serde_json::Value;

use super::format::{EXPIRES_AT, Format, ID, row_of};
use super::{LINES, listing};
use crate::cli::ReachArgs;
use crate::client::Client;
use crate::exit::CliError;
use crate::output::Output;
use crate::progress;
use crate::reach::Reached;

/// Arguments of `penates records export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates records export > records.ndjson
  penates records export --match 'user:*' --format csv --attributes city,visits > users.csv")]
pub struct ExportArgs {
    /// Only ids of this pattern, as of Redis: `*`, `?` and `[a-z]`.
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// The format. Lines of JSON have everything; CSV has no texts, and no expiries of attributes.
    #[arg(long, value_enum, default_value = "ndjson")]
    format: Format,
    /// The columns of CSV, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required_if_eq("format", "csv"))]
    attributes: Vec<String>,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: ExportArgs) -> anyhow::Result<()> {
    let reached = Reached::open(&args.reach).await?;
    let exported = export(&reached.client, &args).await;
    reached.close().await?;
    exported
}

async fn export(client: &Client, args: &ExportArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let bar = progress::records();
    if args.format == Format::Csv {
        let columns = [ID, EXPIRES_AT].into_iter().chain(args.attributes.iter().map(String::as_str));
        output.bytes(&csv_line(columns)?)?;
    }
    let mut left_out = 0_u64;
    let mut lines = std::pin::pin!(client.get_lines(&listing(args.pattern.as_deref(), true), LINES).await?);
    while let Some(line) = lines.next().await {
        let line = line?;
        let value: Value = serde_json::from_str(&line)?;
        let row = || row_of(&value, &args.attributes);
        match args.format {
            // A record that has no form in JSON is a line that says so.
            _ if value.get("kind").is_some() => {
                left_out += 1;
                note!("left out: {}: {}", value[ID], value["detail"]);
            }
            Format::Ndjson => output.line(line)?,
            Format::Csv => match row() {
                Some(row) => output.bytes(&csv_line(row)?)?,
                None => {
                    left_out += 1;
                    note!("left out: {}: CSV has no form for it", value[ID]);
                }
            },
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    output.finish()?;
    if left_out > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

fn csv_line(cells: impl IntoIterator<Item = impl AsRef<[u8]>>) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells)?;
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}
