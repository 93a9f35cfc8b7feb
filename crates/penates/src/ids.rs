//! Volume ids from the command line, from a file, or from standard input.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use hathi::VolumeId;
use serde_json::Value;

use crate::exit::CliError;

/// Which volumes.
#[derive(Clone, Debug, Default, Args)]
pub struct IdArgs {
    /// Volume ids, e.g. uc2.ark:/13960/t8ff3zh99
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// A file with one volume id per line, or one object with an `id`; `-` is standard input.
    #[arg(long = "ids", value_name = "FILE")]
    pub ids_file: Option<PathBuf>,
}

impl IdArgs {
    /// Whether none were named.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.ids_file.is_none()
    }

    /// All of them, each once, in the order of first mention.
    pub fn volumes(&self) -> anyhow::Result<Vec<VolumeId>> {
        let mut text = self.ids.join("\n");
        if let Some(file) = &self.ids_file {
            text.push('\n');
            text.push_str(&read_text(file)?);
        }
        parse_lines(&text)
    }
}

/// The volume ids in a file, one per line.
pub fn read_ids(file: &Path) -> anyhow::Result<Vec<VolumeId>> {
    parse_lines(&read_text(file)?)
}

/// Lines of ids, or of objects with ids, as `penates import --failed` writes them.
fn parse_lines(text: &str) -> anyhow::Result<Vec<VolumeId>> {
    let lines = (1..).zip(text.lines()).map(|(number, line)| match line.trim().starts_with('{') {
        false => Ok(line.to_owned()),
        true => id_in(line).ok_or_else(|| CliError::Usage(format!("line {number} of the list has no volume id"))),
    });
    let text = &lines.collect::<Result<Vec<_>, _>>()?.join("\n");
    if text.trim().is_empty() {
        return Err(CliError::Usage("no volume id was given".to_owned()).into());
    }
    hathi::parse_volume_lines(text, || true).map_err(|error| CliError::Usage(error.to_string()).into())
}

fn id_in(line: &str) -> Option<String> {
    let object: Value = serde_json::from_str(line).ok()?;
    Some(object["id"].as_str()?.to_owned())
}

/// The text of a file without the byte order mark that some programs write first; `-` is standard
/// input.
fn read_text(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("reading standard input")?;
    } else {
        let unreadable =
            |error: std::io::Error| CliError::Usage(format!("the list {} cannot be read: {error}", file.display()));
        text = std::fs::read_to_string(file).map_err(unreadable)?;
    }
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_id() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("ids.txt");
        for first in ["b.2", "{\"id\": \"b.2\"}"] {
            std::fs::write(&list, format!("\u{feff}{first}\r\na.1\r\n")).unwrap();
            let args = IdArgs { ids: Vec::new(), ids_file: Some(list.clone()) };
            for ids in [read_ids(&list).unwrap(), args.volumes().unwrap()] {
                assert_eq!(ids.iter().map(VolumeId::as_str).collect::<Vec<_>>(), ["b.2", "a.1"], "{first}");
            }
        }
    }
}
