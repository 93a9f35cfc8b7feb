//! Checks backups: whether each file is there, with the bytes that its digest names.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use serde::Serialize;

use crate::digest;
use crate::error::{BackupError, BackupResult};
use crate::folder::Backups;
use crate::manifest::{Entry, Line};

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The backup.
    pub id: String,
    /// The file in it; `None`: its description is damaged.
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
    /// Reads some backups whole. A damaged file is set aside if `sets_aside` is true: then the next
    /// backup copies it again.
    pub fn check(&self, ids: &[String], sets_aside: bool, took: &mut dyn FnMut(u64)) -> BackupResult<Checked> {
        let mut checked = Checked::default();
        // What was found of each file.
        let mut seen = HashMap::new();
        for id in ids {
            checked.backups += 1;
            if let Err(error) = self.check_one(id, sets_aside, &mut seen, &mut checked, took) {
                let BackupError::Damaged { what, .. } = error else { return Err(error) };
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
        let read = File::open(&path).and_then(|mut file| digest::copy(&mut file, &mut io::sink(), took));
        let wrong = match read {
            Ok(digests) if digests.sha256 == entry.sha256 && digests.bytes == entry.bytes => return None,
            Ok(_) => "it is damaged".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some("it is missing".to_owned()),
            Err(error) => format!("it cannot be read: {error}"),
        };
        if sets_aside && let Err(error) = std::fs::rename(&path, path.with_extension("damaged")) {
            return Some(format!("{wrong}, and cannot be set aside: {error}"));
        }
        Some(wrong)
    }
}
