//! Standard output: lines, tables and JSON, for people and for programs.

use std::io::{self, Write};
use std::os::fd::AsFd;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

use crate::exit::CliError;

/// Writes a line to standard error. A standard error that takes nothing (its reader has left, or
/// its disk is full) ends no command: `eprintln!` would panic.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {{
        use ::std::io::Write as _;
        let _ = writeln!(::std::io::stderr(), $($text)*);
    }};
}

/// Standard output. If its reader has left, the error is [`CliError::OutputClosed`], which ends the
/// program quietly.
pub struct Output {
    stdout: io::BufWriter<io::Stdout>,
}

impl Output {
    /// Standard output, buffered; [`Output::finish`] flushes it.
    pub fn stdout() -> Self {
        Self { stdout: io::BufWriter::with_capacity(64 << 10, io::stdout()) }
    }

    /// Writes bytes unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.stdout.write_all(bytes).map_err(closed)
    }

    /// Writes a line.
    pub fn line(&mut self, line: impl AsRef<str>) -> anyhow::Result<()> {
        self.bytes(line.as_ref().as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes a value as one line of JSON.
    pub fn json(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(value).context("encoding JSON")?;
        self.line(line)
    }

    /// Writes an object, one field per line. Control characters become spaces.
    pub fn fields(&mut self, object: &Value) -> anyhow::Result<()> {
        let fields = flatten(object);
        let width = fields.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
        fields.iter().try_for_each(|(key, value)| self.line(in_line(&format!("{key:<width$}  {value}"))))
    }

    /// Writes rows under headings, aligned. Control characters become spaces.
    pub fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) -> anyhow::Result<()> {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.max().unwrap_or(0).max(headings[column].chars().count())
        };
        let widths: Vec<usize> = (0..headings.len()).map(width).collect();
        let headings = headings.iter().map(|heading| heading.to_uppercase()).collect();
        std::iter::once(&headings).chain(rows).try_for_each(|row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            self.line(in_line(&cells.collect::<Vec<_>>().join("  ")).trim_end())
        })
    }

    /// Lets a reader have what was written so far.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.stdout.flush().map_err(closed)
    }

    /// Flushes what is buffered.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.stdout.flush().map_err(closed)
    }
}

/// Completes when the reader of standard output has left. It never does if that cannot be known: it
/// can of pipes.
pub async fn reader_left() {
    let stdout = io::stdout().as_fd().try_clone_to_owned().and_then(Sender::from_owned_fd_unchecked);
    let has_left = match stdout {
        Ok(stdout) => stdout.ready(Interest::ERROR).await.is_ok(),
        Err(_) => false,
    };
    if !has_left {
        std::future::pending::<()>().await;
    }
}

/// The error if nothing more can be printed. A reader that left is no failure.
pub fn closed(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed.into(),
        _ => anyhow::Error::new(error).context("writing standard output"),
    }
}

/// The fields of an object with those of objects in it, under dotted names; lists are joined by
/// commas, null is left out.
fn flatten(value: &Value) -> Vec<(String, String)> {
    let Value::Object(fields) = value else { return vec![(String::new(), cell(value))] };
    let mut flat = Vec::new();
    for (key, value) in fields {
        match value {
            Value::Null => {}
            Value::Object(_) => {
                flat.extend(flatten(value).into_iter().map(|(inner, text)| (format!("{key}.{inner}"), text)))
            }
            _ => flat.push((key.clone(), cell(value))),
        }
    }
    flat
}

/// The text of a value for people.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A text from outside as a part of a line. It must not command the terminal: control characters
/// become spaces.
pub fn in_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A number of bytes for people, in decimal units, like the progress bars.
pub fn human_bytes(len_bytes: u64) -> String {
    bytesize::ByteSize::b(len_bytes).display().si().to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_from_outside_commands_no_terminal() {
        assert_eq!(in_line("red \u{1b}[31m\u{9b}2J\nend"), "red  [31m 2J end");
    }

    #[test]
    fn nested_fields_are_shown_under_dotted_names_and_null_is_left_out() {
        let shown = flatten(&json!({"id": "a.b", "rights": {"attributes": "pd"}, "title": null, "tags": ["x", "y"]}));
        let expected = [("id", "a.b"), ("rights.attributes", "pd"), ("tags", "x, y")];
        let expected: Vec<_> = expected.iter().map(|(key, text)| (key.to_string(), text.to_string())).collect();
        let mut shown = shown;
        shown.sort();
        assert_eq!(shown, expected);
    }
}
