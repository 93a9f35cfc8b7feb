//! The description of a backup: lines of JSON.
//!
//! 1. a [`Header`];
//! 2. a line for each file ([`Entry`]) and each folder without files, in the order of their paths;
//! 3. an [`End`] with the SHA-256 of all lines before it.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{BackupError, BackupResult, io_error};
use crate::file::open_regular;

/// The form of the lines that this program writes, and the newest that it reads.
pub(crate) const FORM: u32 = 1;

/// No line is longer: the longest is the header, which has the path of a data folder.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// What a backup is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The form of the lines. Builds before 0.1.0 named it otherwise.
    pub format: u32,
    /// The name of the backup: when it was made.
    pub id: String,
    /// When the store was as it is in the backup, in RFC 3339.
    pub time: String,
    /// Identifies the store, and all copies of its data folder.
    pub store: String,
    /// The number of the store's level.
    pub level: u32,
    /// The program that made it, with its version.
    pub program: String,
    /// The data folder, as it was named then.
    pub folder: String,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path in the data folder.
    pub path: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Their SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// When it was changed last: nanoseconds since 1970.
    pub modified: u64,
    /// The XXH3-128 that the engine stored of it, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checksum: Option<String>,
}

/// What a whole backup has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The files among them whose bytes no earlier backup had.
    pub copied_files: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// The SHA-256 of all lines before this one, in hexadecimal digits.
    pub sha256: String,
}

/// A line behind the header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    File(Entry),
    Folder {
        /// The path of a folder that has no files.
        folder: String,
    },
    End {
        end: End,
    },
}

/// A backup, in brief.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// What it is of.
    #[serde(flatten)]
    pub header: Header,
    /// What it has.
    #[serde(flatten)]
    pub end: End,
}

/// The order of the files in a backup: folder by folder.
pub(crate) fn in_order(one: &str, other: &str) -> Ordering {
    Path::new(one).cmp(Path::new(other))
}

/// Whether a path stays within the folder that it is relative to.
pub(crate) fn is_within(path: &str) -> bool {
    !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Whether a text is a SHA-256 as it is written here. It becomes a part of a path.
fn is_digest(sha256: &str) -> bool {
    sha256.len() == 64 && sha256.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads a line with its end; behind the last line it is empty. A line that is too long, or is no
/// text, is an error of the kind [`InvalidData`](io::ErrorKind::InvalidData).
fn read_line(lines: &mut impl BufRead) -> io::Result<String> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut line = Vec::new();
    let read = lines.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if read as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
        return Err(invalid(&format!("a line has more than {} KiB", LINE_BYTES_MAX >> 10)));
    }
    String::from_utf8(line).map_err(|_| invalid("a line is no text"))
}

/// Why a line was not read: the description is damaged, or the system could not read it.
fn unread(backup: &str, path: &Path, error: io::Error) -> BackupError {
    match error.kind() {
        io::ErrorKind::InvalidData => BackupError::Damaged { backup: backup.to_owned(), what: error.to_string() },
        _ => io_error("reading", path, error),
    }
}

/// Reads the lines of a backup.
#[derive(Debug)]
pub(crate) struct Reader {
    backup: String,
    path: PathBuf,
    lines: BufReader<File>,
    pub(crate) header: Header,
    sum: Sha256,
    last: String,
}

impl Reader {
    /// Reads the header of a backup.
    pub(crate) fn open(path: &Path) -> BackupResult<Self> {
        let backup = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let damaged = |what: &str| BackupError::Damaged { backup: backup.clone(), what: what.to_owned() };
        let file = match open_regular(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BackupError::Absent(backup)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(damaged(&error.to_string())),
            file => file.map_err(|source| io_error("opening", path, source))?,
        };
        let mut lines = BufReader::new(file);
        let line = read_line(&mut lines).map_err(|error| unread(&backup, path, error))?;
        #[derive(Deserialize)]
        struct Form {
            form: Option<u32>,
            format: Option<u32>,
        }
        let no_header = |_| damaged("its first line is no header");
        match serde_json::from_str(&line).map_err(no_header)? {
            Form { format: Some(format), .. } if format > FORM => {
                let newer = format!("backup {backup} was made by a later version of Penates (form {format})");
                return Err(BackupError::NoBackups(newer));
            }
            Form { form: Some(_), format: None } => {
                return Err(BackupError::Unreleased(format!("backup {backup} was")));
            }
            Form { .. } => {}
        }
        let header: Header = serde_json::from_str(&line).map_err(no_header)?;
        let mut sum = Sha256::new();
        sum.update(&line);
        Ok(Self { backup, path: path.to_owned(), lines, header, sum, last: String::new() })
    }

    fn damaged(&self, what: impl Into<String>) -> BackupError {
        BackupError::Damaged { backup: self.backup.clone(), what: what.into() }
    }

    /// The next line. Behind the last one, or where the file was cut, it is an error.
    pub(crate) fn next(&mut self) -> BackupResult<Line> {
        let line = read_line(&mut self.lines).map_err(|error| unread(&self.backup, &self.path, error))?;
        if line.is_empty() {
            return Err(self.damaged("its end is missing"));
        }
        let read: Line =
            serde_json::from_str(&line).map_err(|error| self.damaged(format!("a line cannot be read: {error}")))?;
        match &read {
            Line::End { end } if hex::encode(self.sum.clone().finalize()) != end.sha256 => {
                return Err(self.damaged("its list of files is not the one that was written"));
            }
            Line::End { .. } => {}
            Line::File(Entry { path, sha256, .. }) if !is_digest(sha256) => {
                return Err(self.damaged(format!("{sha256:?} of {path:?} is no SHA-256")));
            }
            Line::File(Entry { path, .. }) | Line::Folder { folder: path } => {
                if !is_within(path) || in_order(&self.last, path) != Ordering::Less {
                    return Err(self.damaged(format!("{path:?} is no path of a file of a store, or not in order")));
                }
                self.last.clone_from(path);
            }
        }
        self.sum.update(&line);
        Ok(read)
    }

    /// Reads all lines that are left, and returns the end: nothing is missing, and nothing differs.
    pub(crate) fn end(&mut self) -> BackupResult<End> {
        loop {
            if let Line::End { end } = self.next()? {
                return Ok(end);
            }
        }
    }
}

/// Finds entries of a backup, which are asked for in order.
#[derive(Debug)]
pub(crate) struct Known {
    reader: Option<Reader>,
    next: Option<Entry>,
}

impl Known {
    pub(crate) fn new(reader: Reader) -> Self {
        let mut known = Self { reader: Some(reader), next: None };
        known.advance();
        known
    }

    /// Takes the next entry. It ends where the file does, however that is.
    fn advance(&mut self) {
        self.next = None;
        while let Some(reader) = &mut self.reader {
            match reader.next() {
                Ok(Line::File(entry)) => {
                    self.next = Some(entry);
                    return;
                }
                Ok(Line::Folder { .. }) => {}
                Ok(Line::End { .. }) | Err(_) => self.reader = None,
            }
        }
    }

    /// The entry of a path that is not before those that were asked for earlier.
    pub(crate) fn find(&mut self, path: &str) -> Option<&Entry> {
        while self.next.as_ref().is_some_and(|next| in_order(&next.path, path) == Ordering::Less) {
            self.advance();
        }
        self.next.as_ref().filter(|next| next.path == path)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn a_description_that_the_system_cannot_read_is_not_taken_for_a_damaged_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("20261124T000000Z.jsonl");
        let header = Header {
            format: FORM,
            id: "20261124T000000Z".to_owned(),
            time: "2026-11-24T00:00:00Z".to_owned(),
            store: "ab".to_owned(),
            level: 1,
            program: "penates".to_owned(),
            folder: "/data".to_owned(),
        };
        fs::write(&path, serde_json::to_string(&header).unwrap() + "\n").unwrap();
        let mut reader = Reader::open(&path).unwrap();
        // A read of a folder fails.
        reader.lines = BufReader::new(File::open(folder.path()).unwrap());
        let error = reader.next().unwrap_err();
        assert!(matches!(&error, BackupError::Io { what, .. } if what.ends_with(".jsonl")), "{error}");
    }
}
