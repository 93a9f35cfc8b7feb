//! Writes the files of a backup.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::digest::{self, CopyError};
use crate::error::{BackupError, BackupResult, io_error};
use crate::file::{create, make_folders, open_regular, sync_all};
use crate::folder::Backups;
use crate::manifest::{Entry, Line, Summary};

/// A backup that was restored.
pub type Restored = Summary;

impl Backups {
    /// Writes all files of a backup into a folder, which must be empty or missing. Each file is
    /// compared with its digest. `took` learns of the bytes that were written.
    ///
    /// Errors: [`BackupError::Damaged`] if a file is missing or has other bytes. The folder is then
    /// to be deleted.
    pub fn restore(&self, id: &str, to: &Path, took: &mut dyn FnMut(u64)) -> BackupResult<Restored> {
        // Before anything is written: its description is whole.
        let summary = self.summary(id)?;
        make_folders(to).map_err(|source| io_error("making", to, source))?;
        let mut reader = self.reader(id)?;
        loop {
            match reader.next()? {
                Line::File(entry) => self.restore_file(id, &entry, to, took)?,
                Line::Folder { folder } => {
                    make_folders(&to.join(&folder)).map_err(|source| io_error("making", to, source))?;
                }
                Line::End { .. } => break,
            }
        }
        sync_all(to)?;
        Ok(summary)
    }

    fn restore_file(&self, id: &str, entry: &Entry, to: &Path, took: &mut dyn FnMut(u64)) -> BackupResult<()> {
        let damaged = |what: String| BackupError::Damaged { backup: id.to_owned(), what };
        let (from, to) = (self.file(&entry.sha256), to.join(&entry.path));
        let mut bytes = match open_regular(&from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(format!("{} is missing", entry.path)));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(damaged(format!("{}: {error}", entry.path)));
            }
            file => file.map_err(|source| io_error("opening", &from, source))?,
        };
        let writing = |source| io_error("writing", &to, source);
        to.parent().map_or(Ok(()), make_folders).map_err(writing)?;
        let mut file = create(&to).map_err(writing)?;
        let digests = digest::copy(&mut bytes, &mut file, took).map_err(|error| match error {
            CopyError::Reading(source) => io_error("reading", &from, source),
            CopyError::Writing(source) => writing(source),
        })?;
        if (digests.bytes, &digests.sha256) != (entry.bytes, &entry.sha256) {
            fs::remove_file(&to).map_err(writing)?;
            return Err(damaged(format!("{} does not have the bytes that its digest names", entry.path)));
        }
        // So that the next backup of the restored store finds what earlier ones have.
        file.set_modified(UNIX_EPOCH + Duration::from_nanos(entry.modified)).map_err(writing)
    }
}
