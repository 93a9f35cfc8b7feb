//! `penates records import`

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use http::{Method, Request, header};
use indicatif::ProgressBar;
use serde_json::Value;

use super::LINES;
use super::format::{Format, line_of};
use crate::cli::ReachArgs;
use crate::client::{self, Client};
use crate::exit::CliError;
use crate::progress;
use crate::reach::Reached;

/// Lines of one request. A request that fails is reported with the lines that it had.
const LINES_AT_ONCE: usize = 1_000;

/// And bytes of them.
const BYTES_AT_ONCE: usize = 4 << 20;

/// Arguments of `penates records import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  penates records import records.ndjson
  penates records import users.csv
  penates records export --server http://old:8080 | penates records import - --format ndjson")]
pub struct ImportArgs {
    /// The file; `-` for standard input. Each record replaces the one with its id.
    file: PathBuf,
    /// Its format [default: by the ending of its name]. CSV needs a column `id`; `expires_at` has
    /// milliseconds since the Unix epoch, and each other column is an attribute.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Where to.
    #[command(flatten)]
    reach: ReachArgs,
}

/// Runs it.
pub async fn run(args: ImportArgs) -> anyhow::Result<()> {
    let format = args.format.or_else(|| Format::of(&args.file));
    let format = format.ok_or_else(|| CliError::Usage("name the format with --format".to_owned()))?;
    let (bar, source) = opened(&args.file)?;
    let reached = Reached::open_or_make(&args.reach).await?;
    let imported = import(&reached.client, format, source, &bar).await;
    bar.finish_and_clear();
    reached.close().await?;
    let Imported { stored, refused } = imported?;
    println!("{stored} stored, {refused} refused");
    if refused > 0 { Err(CliError::Incomplete.into()) } else { Ok(()) }
}

/// A source whose bytes the progress counts.
fn opened(file: &Path) -> anyhow::Result<(ProgressBar, Box<dyn Read + Send>)> {
    if file == Path::new("-") {
        let bar = progress::bytes(None);
        return Ok((bar.clone(), Box::new(bar.wrap_read(io::stdin()))));
    }
    let cannot = |error: io::Error| CliError::Usage(format!("{} cannot be read: {error}", file.display()));
    let opened = File::open(file).map_err(cannot)?;
    let bar = progress::bytes(Some(opened.metadata().map_err(cannot)?.len()));
    Ok((bar.clone(), Box::new(bar.wrap_read(opened))))
}

#[derive(Default)]
struct Imported {
    stored: u64,
    refused: u64,
}

async fn import(
    client: &Client,
    format: Format,
    source: Box<dyn Read + Send>,
    bar: &ProgressBar,
) -> anyhow::Result<Imported> {
    let mut imported = Imported::default();
    let mut batch = String::new();
    let (mut first, mut lines) = (1, 0);
    for line in lines_of(format, source)? {
        let line = line?;
        batch.push_str(&line);
        batch.push('\n');
        lines += 1;
        if lines == LINES_AT_ONCE || batch.len() >= BYTES_AT_ONCE {
            imported.add(write(client, std::mem::take(&mut batch), first, bar).await?);
            first += std::mem::take(&mut lines);
        }
    }
    if lines > 0 {
        imported.add(write(client, batch, first, bar).await?);
    }
    Ok(imported)
}

impl Imported {
    fn add(&mut self, other: Self) {
        self.stored += other.stored;
        self.refused += other.refused;
    }
}

/// The records of a source as lines of JSON.
fn lines_of(
    format: Format,
    source: Box<dyn Read + Send>,
) -> anyhow::Result<Box<dyn Iterator<Item = anyhow::Result<String>> + Send>> {
    match format {
        Format::Ndjson => {
            let lines = BufReader::new(source).lines().map(|line| line.context("reading the file"));
            Ok(Box::new(lines.filter(|line| line.as_ref().map_or(true, |line| !line.trim().is_empty()))))
        }
        Format::Csv => {
            let mut reader = csv::Reader::from_reader(source);
            let names = reader.headers().context("reading the names of the columns")?.clone();
            if !names.iter().any(|name| name == super::format::ID) {
                bail!(CliError::Usage("the first line has no column `id`".to_owned()));
            }
            Ok(Box::new(reader.into_records().map(move |row| {
                let row = row.context("reading the file")?;
                let at = row.position().map_or(0, csv::Position::line);
                let line = line_of(&names, &row).map_err(|why| CliError::Usage(format!("line {at}: {why}")))?;
                Ok(line.to_string())
            })))
        }
    }
}

/// Writes a batch, whose first record is the nth of all. Reports what is refused.
async fn write(client: &Client, batch: String, first: usize, bar: &ProgressBar) -> anyhow::Result<Imported> {
    let request = Request::builder().method(Method::POST).header(header::CONTENT_TYPE, LINES);
    let sent = batch.lines().count();
    let response = client.ask("/records:batchWrite", request, client::full(batch)).await;
    let before = || format!("the records before number {first} are stored; the import can be repeated");
    let response = response.with_context(before)?;
    let answers = client::whole(response).await.with_context(before)?;
    let mut imported = Imported::default();
    for (nth, line) in answers.lines().enumerate() {
        let line: Value = serde_json::from_str(&line.context("reading the answer")?)?;
        if line.get("kind").is_none() {
            imported.stored += 1;
            continue;
        }
        imported.refused += 1;
        let (id, detail) = (line["id"].as_str().unwrap_or("?"), line["detail"].as_str().unwrap_or_default());
        bar.suspend(|| note!("refused: number {}, {id}: {detail}", first + nth));
    }
    let answered = imported.stored + imported.refused;
    if answered < sent as u64 {
        bail!("the server answered {answered} of {sent} records; {}", before());
    }
    Ok(imported)
}
