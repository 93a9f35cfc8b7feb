//! `penates records export`

use clap::Args;
use futures::StreamExt;
use serde_json::Value;

use super::asking::{Asking, DeadlineArgs};
use super::format::{EXPIRES_AT, Format, ID, expiring, repeated, row_of};
use super::listing;
use crate::cli::ReachArgs;
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
    /// The attributes that are columns of CSV, separated by commas. They follow the columns `id`
    /// and `expires_at`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required_if_eq("format", "csv"))]
    attributes: Vec<String>,
    /// How long it may take.
    #[command(flatten)]
    deadline: DeadlineArgs,
    /// Where from.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: ExportArgs) -> anyhow::Result<()> {
    if args.format == Format::Csv
        && let Some(name) = repeated(columns(&args))
    {
        let hint = "lines of JSON have all attributes (--format ndjson)";
        let refused = format!("CSV would have the column `{name}` twice; `id` and `expires_at` are its own: {hint}");
        return Err(CliError::Usage(refused).into());
    }
    let reached = Reached::open(&args.reach).await?;
    let exported = export(Asking::new(&reached.client, args.deadline), &args).await;
    reached.close().await?;
    exported
}

/// The columns of CSV.
fn columns(args: &ExportArgs) -> impl Iterator<Item = &str> {
    [ID, EXPIRES_AT].into_iter().chain(args.attributes.iter().map(String::as_str))
}

async fn export(asking: Asking, args: &ExportArgs) -> anyhow::Result<()> {
    let mut output = Output::stdout();
    let bar = progress::printed_records();
    if args.format == Format::Csv {
        output.bytes(&csv_line(columns(args))?)?;
    }
    let (mut left_out, mut expiries) = (0_u64, 0);
    let mut lines = std::pin::pin!(asking.lines(&listing(args.pattern.as_deref(), true), &bar).await?);
    while let Some(line) = lines.next().await {
        let line = line?;
        let value: Value = serde_json::from_str(&line)?;
        let row = || row_of(&value, &args.attributes);
        match args.format {
            // A record that has no form in JSON is a line that says so.
            _ if value.get("kind").is_some() => {
                left_out += 1;
                bar.suspend(|| note!("left out: {}: {}", value[ID], value["detail"]));
            }
            Format::Ndjson => output.line(line)?,
            Format::Csv => match row() {
                Some(row) => {
                    expiries += expiring(&value, &args.attributes);
                    output.bytes(&csv_line(row)?)?;
                }
                None => {
                    left_out += 1;
                    bar.suspend(|| note!("left out: {}: CSV has no form for it", value[ID]));
                }
            },
        }
    }
    bar.finish_and_clear();
    output.finish()?;
    if expiries > 0 {
        note!("left out: expiries of attributes, which CSV does not have: {expiries}");
    }
    if left_out > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

fn csv_line(cells: impl IntoIterator<Item = impl AsRef<[u8]>>) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells)?;
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}
