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
    let mut batch = Batch::default();
    for (number, line) in (1..).zip(lines_of(format, source)?) {
        match line? {
            Ok(line) => batch.push(number, &line),
            Err(why) => {
                imported.refused += 1;
                bar.suspend(|| note!("refused: {why}"));
            }
        }
        if batch.is_full() {
            imported.add(write(client, std::mem::take(&mut batch), bar).await?);
        }
    }
    if !batch.numbers.is_empty() {
        imported.add(write(client, batch, bar).await?);
    }
    Ok(imported)
}

/// Records that are sent together.
#[derive(Default)]
struct Batch {
    lines: String,
    /// The number of each among all records of the source.
    numbers: Vec<usize>,
}

impl Batch {
    fn push(&mut self, number: usize, line: &str) {
        self.lines.push_str(line);
        self.lines.push('\n');
        self.numbers.push(number);
    }

    fn is_full(&self) -> bool {
        self.numbers.len() == LINES_AT_ONCE || self.lines.len() >= BYTES_AT_ONCE
    }
}

/// A record as a line of JSON, or why it is none.
type Line = Result<String, String>;

impl Imported {
    fn add(&mut self, other: Self) {
        self.stored += other.stored;
        self.refused += other.refused;
    }
}

/// The records of a source. An error of one is the end of them.
fn lines_of(
    format: Format,
    source: Box<dyn Read + Send>,
) -> anyhow::Result<Box<dyn Iterator<Item = anyhow::Result<Line>> + Send>> {
    match format {
        Format::Ndjson => {
            let lines = BufReader::new(source).lines().map(|line| line.context("reading the file"));
            let lines = lines.filter(|line| line.as_ref().map_or(true, |line| !line.trim().is_empty()));
            // The server says what is wrong with one.
            Ok(Box::new(lines.map(|line| line.map(Ok))))
        }
        Format::Csv => {
            let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(source);
            let names = reader.headers().context("reading the names of the columns")?.clone();
            if !names.iter().any(|name| name == super::format::ID) {
                bail!(CliError::Usage("the first line has no column `id`".to_owned()));
            }
            Ok(Box::new(reader.into_records().map(move |row| {
                let (at, line) = match row {
                    Ok(row) => (row.position().map(csv::Position::line), line_of(&names, &row)),
                    Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => {
                        (error.position().map(csv::Position::line), Err("it is not UTF-8 text".to_owned()))
                    }
                    Err(error) => return Err(error).context("reading the file"),
                };
                Ok(line.map(|line| line.to_string()).map_err(|why| format!("line {}: {why}", at.unwrap_or_default())))
            })))
        }
    }
}

/// Writes a batch. Reports what is refused.
async fn write(client: &Client, batch: Batch, bar: &ProgressBar) -> anyhow::Result<Imported> {
    let Batch { lines, numbers } = batch;
    let first = numbers.first().copied().unwrap_or_default();
    let request = Request::builder().method(Method::POST).header(header::CONTENT_TYPE, LINES);
    let response = client.ask("/records:batchWrite", request, client::full(lines)).await;
    let before = || format!("the records before number {first} are stored; the import can be repeated");
    let response = response.with_context(before)?;
    let answers = client::whole(response).await.with_context(before)?;
    let mut imported = Imported::default();
    for (number, line) in numbers.iter().zip(answers.lines()) {
        let line: Value = serde_json::from_str(&line.context("reading the answer")?)?;
        if line.get("kind").is_none() {
            imported.stored += 1;
            continue;
        }
        imported.refused += 1;
        let (id, detail) = (line["id"].as_str().unwrap_or("?"), line["detail"].as_str().unwrap_or_default());
        bar.suspend(|| note!("refused: number {number}, {id}: {detail}"));
    }
    let answered = imported.stored + imported.refused;
    if answered < numbers.len() as u64 {
        bail!("the server answered {answered} of {} records; {}", numbers.len(), before());
    }
    Ok(imported)
}
