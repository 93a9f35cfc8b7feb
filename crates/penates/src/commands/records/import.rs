//! `penates records import`

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytes::Bytes;
use bytesize::ByteSize;
use clap::Args;
use http::Method;
use http::header::CONTENT_TYPE;
use indicatif::ProgressBar;
use serde_json::Value;

use super::LINES;
use super::asking::{Asking, DeadlineArgs};
use super::format::{Format, ID, line_of, repeated};
use super::lines::{Line, next_line, too_long};
use crate::cli::WriteArgs;
use crate::client;
use crate::exit::CliError;
use crate::output::Output;
use crate::progress;
use crate::reach::Reached;

/// Lines of one request. A request that fails is reported with the lines that it had.
const LINES_AT_ONCE: usize = 1_000;

/// And bytes of them.
const BYTES_AT_ONCE: usize = 4 << 20;

/// The kind of the refusal of a line that is longer than the server takes (`records.request_max`).
/// No answer follows it.
const TOO_LARGE: &str = "too-large";

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
    /// Refuse longer lines without sending them. A server takes lines of `records.request_max`.
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    line_max: ByteSize,
    /// How long it may take.
    #[command(flatten)]
    deadline: DeadlineArgs,
    /// Where to.
    #[command(flatten)]
    write: WriteArgs,
}

/// Runs it.
pub async fn run(args: ImportArgs) -> anyhow::Result<()> {
    let format = args.format.or_else(|| Format::of(&args.file));
    let format = format.ok_or_else(|| CliError::Usage("name the format with --format".to_owned()))?;
    let (bar, source) = opened(&args.file)?;
    let bytes_max = usize::try_from(args.line_max.as_u64()).unwrap_or(usize::MAX);
    let lines = lines_of(format, source, bytes_max).inspect_err(|_| bar.finish_and_clear())?;
    let reached = Reached::open_or_make(&args.write).await?;
    let imported = import(Asking::new(&reached.client, args.deadline), lines, &bar).await;
    bar.finish_and_clear();
    reached.close().await?;
    let Imported { stored, refused } = imported?;
    let mut output = Output::stdout();
    output.line(format!("{stored} stored, {refused} refused"))?;
    output.finish()?;
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

async fn import(asking: Asking, lines: Lines, bar: &ProgressBar) -> anyhow::Result<Imported> {
    let mut imported = Imported::default();
    let mut batch = Batch::default();
    for (number, line) in (1..).zip(lines) {
        match line? {
            Ok(line) => batch.push(number, &line),
            Err(why) => {
                imported.refused += 1;
                bar.suspend(|| note!("refused: {why}"));
            }
        }
        if batch.is_full() {
            imported.add(write(&asking, std::mem::take(&mut batch), bar).await?);
        }
    }
    if !batch.numbers.is_empty() {
        imported.add(write(&asking, batch, bar).await?);
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

    /// What is behind the first `count` records.
    fn behind(mut self, count: usize) -> Self {
        let bytes: usize = self.lines.split_inclusive('\n').take(count).map(str::len).sum();
        Self { lines: self.lines.split_off(bytes), numbers: self.numbers.split_off(count) }
    }
}

impl Imported {
    fn add(&mut self, other: Self) {
        self.stored += other.stored;
        self.refused += other.refused;
    }
}

/// Records as lines of JSON.
type Lines = Box<dyn Iterator<Item = anyhow::Result<Line>> + Send>;

/// The records of a source. An error of one is the end of them. A line that has more than
/// `bytes_max` is refused.
fn lines_of(format: Format, source: Box<dyn Read + Send>, bytes_max: usize) -> anyhow::Result<Lines> {
    match format {
        Format::Ndjson => {
            let mut source = BufReader::new(source);
            let lines = std::iter::from_fn(move || next_line(&mut source, bytes_max).transpose());
            let lines = (1_u64..).zip(lines).map(|(number, line)| -> anyhow::Result<Line> {
                Ok(line.context("reading the file")?.map_err(|why| format!("line {number}: {why}")))
            });
            // The server says what else is wrong with one.
            Ok(Box::new(lines.filter(|line| !matches!(line, Ok(Ok(line)) if line.trim().is_empty()))))
        }
        Format::Csv => {
            let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(source);
            let names = reader.headers().context("reading the names of the columns")?.clone();
            if !names.iter().any(|name| name == ID) {
                bail!(CliError::Usage("the first line has no column `id`".to_owned()));
            }
            if let Some(name) = repeated(names.iter()) {
                bail!(CliError::Usage(format!("the first line has the column `{name}` twice")));
            }
            Ok(Box::new(reader.into_records().map(move |row| {
                let (at, line) = match row {
                    Ok(row) => (row.position().map(csv::Position::line), line_of(&names, &row)),
                    Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => {
                        (error.position().map(csv::Position::line), Err("it is not UTF-8 text".to_owned()))
                    }
                    Err(error) => return Err(error).context("reading the file"),
                };
                let line = line.map(|line| line.to_string()).and_then(|line| match line.len() > bytes_max {
                    true => Err(too_long(bytes_max)),
                    false => Ok(line),
                });
                Ok(line.map_err(|why| format!("line {}: {why}", at.unwrap_or_default())))
            })))
        }
    }
}

/// Writes a batch. Reports what is refused. What is behind a line that is longer than the server
/// takes is sent again, because the server has not read it.
async fn write(asking: &Asking, mut batch: Batch, bar: &ProgressBar) -> anyhow::Result<Imported> {
    let mut imported = Imported::default();
    loop {
        let first = batch.numbers.first().copied().unwrap_or_default();
        let before = || format!("the records before number {first} are stored; the import can be repeated");
        let body = Bytes::from(batch.lines.clone());
        let response = asking.ask(Method::POST, "/records:batchWrite", (CONTENT_TYPE, LINES), body).await;
        let response = response.with_context(before)?;
        let answers = client::whole(response).await.with_context(before)?;
        let (mut answered, mut is_too_large) = (0, false);
        for (number, line) in batch.numbers.iter().zip(answers.lines()) {
            let line: Value = serde_json::from_str(&line.context("reading the answer")?)?;
            let kind = line.get("kind");
            (answered, is_too_large) = (answered + 1, kind.is_some_and(|kind| kind == TOO_LARGE));
            if kind.is_none() {
                imported.stored += 1;
                continue;
            }
            imported.refused += 1;
            let (id, detail) = (line["id"].as_str().unwrap_or("?"), line["detail"].as_str().unwrap_or_default());
            bar.suspend(|| note!("refused: number {number}, {id}: {detail}"));
        }
        if answered == batch.numbers.len() {
            return Ok(imported);
        }
        if !is_too_large {
            bail!("the server answered {answered} of {} records; {}", batch.numbers.len(), before());
        }
        batch = batch.behind(answered);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::progress::drawn::Drawn;

    #[test]
    fn the_bytes_that_are_read_of_all_bytes_are_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // More than is read at once.
        let line = format!("{{\"id\": \"{}\"}}\n", "x".repeat(600));
        std::fs::write(file.path(), line.repeat(500)).unwrap();
        let (bar, source) = opened(file.path()).unwrap();
        let drawn = Drawn::of(&bar);
        let of_all = "/305.50 kB";
        assert!(drawn.now(&bar).contains(&format!("0 B{of_all}")), "{}", drawn.now(&bar));
        let mut lines = lines_of(Format::Ndjson, source, line.len()).unwrap();
        lines.next().unwrap().unwrap().unwrap();
        assert!((1..305_500).contains(&bar.position()), "{}", bar.position());
        assert_eq!(lines.count(), 499);
        assert!(drawn.now(&bar).contains(&format!("305.50 kB{of_all}")), "{}", drawn.now(&bar));
    }
}
