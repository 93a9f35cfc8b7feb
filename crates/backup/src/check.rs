//! Checks backups: whether each file is there, with the bytes that its digest names.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::digest;
use crate::error::{BackupError, BackupResult, io_error};
use crate::file::{open_regular, require_folder};
use crate::folder::{Backups, SET_ASIDE};
use crate::manifest::{Entry, Line};

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The backup.
    pub id: String,
    /// The file in it; `None`: its description is damaged, or cannot be read.
    pub path: Option<String>,
    /// What is wrong.
    pub what: String,
}

/// What was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Backups.
    pub backups: u64,
    /// Files that were read. One that several backups have is read once.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl Backups {
    /// Reads some backups whole. A file with other bytes than its digest names is set aside if
    /// `sets_aside` is true: then the next backup copies it again. The folder is open for
    /// [`Access::Delete`](crate::Access) in that case, so that nobody uses the file.
    pub fn check(&self, ids: &[String], sets_aside: bool, took: &mut dyn FnMut(u64)) -> BackupResult<Checked> {
        let mut checked = Checked::default();
        // What was found of each file.
        let mut seen = HashMap::new();
        for id in ids {
            checked.backups += 1;
            if let Err(error) = self.check_one(id, sets_aside, &mut seen, &mut checked, took) {
                let what = match error {
                    BackupError::Damaged { what, .. } => what,
                    // The disk may read it the next time. Others are checked all the same.
                    BackupError::Io { .. } => format!("it cannot be read: {error}"),
                    error => return Err(error),
                };
                checked.problems.push(Problem { id: id.clone(), path: None, what });
            }
        }
        Ok(checked)
    }

    fn check_one(
        &self,
        id: &str,
        sets_aside: bool,
        seen: &mut HashMap<String, Option<String>>,
        checked: &mut Checked,
        took: &mut dyn FnMut(u64),
    ) -> BackupResult<()> {
        let mut reader = self.reader(id)?;
        loop {
            let entry = match reader.next()? {
                Line::File(entry) => entry,
                Line::Folder { .. } => continue,
                Line::End { .. } => return Ok(()),
            };
            let wrong = match seen.get(&entry.sha256) {
                Some(wrong) => wrong.clone(),
                None => {
                    checked.files += 1;
                    checked.bytes += entry.bytes;
                    let wrong = self.check_file(&entry, sets_aside, took);
                    seen.insert(entry.sha256.clone(), wrong.clone());
                    wrong
                }
            };
            let path = Some(entry.path);
            checked.problems.extend(wrong.map(|what| Problem { id: id.to_owned(), path, what }));
        }
    }

    /// What is wrong with a file, if anything is.
    fn check_file(&self, entry: &Entry, sets_aside: bool, took: &mut dyn FnMut(u64)) -> Option<String> {
        let path = self.file(&entry.sha256);
        let read = open_regular(&path).and_then(|mut file| digest::of(&mut file, took));
        match read {
            Ok(digests) if digests.sha256 == entry.sha256 && digests.bytes == entry.bytes => None,
            Ok(_) if sets_aside => match set_aside(&path) {
                Ok(()) => Some("it is damaged, and was set aside".to_owned()),
                Err(error) => Some(format!("it is damaged, and cannot be set aside: {error}")),
            },
            Ok(_) => Some("it is damaged".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some("it is missing".to_owned()),
            // The disk may read it the next time.
            Err(error) => Some(format!("it cannot be read: {error}")),
        }
    }
}

/// Renames a damaged file, so that no backup takes it for what its name says.
fn set_aside(path: &Path) -> BackupResult<()> {
    path.parent().map_or(Ok(()), require_folder)?;
    fs::rename(path, path.with_extension(SET_ASIDE)).map_err(|source| io_error("renaming", path, source))
}
