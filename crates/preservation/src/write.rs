//! Writing files so that they last: errors, and syncing.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why an export cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// There is something at its place.
    #[error("{0} exists already: name another place")]
    Exists(PathBuf),
    /// There is something at the place of an unfinished export.
    #[error("{0} is there, and not of an export of this form: delete or rename it, and export again")]
    Unfinished(PathBuf),
    /// Another export is at work.
    #[error("another export is at work on {0}")]
    Busy(PathBuf),
    /// The disk is full.
    #[error("no room on the disk for {0}: make room, and export again")]
    Full(PathBuf),
    /// A path that not all readers of bags understand.
    #[error("{0:?} is not a path that every reader of bags understands")]
    Path(String),
    /// A file of an earlier export is not what was written.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// An object has more versions and files than a load reads.
    #[error("{0} would have more than 256 MiB, which no load reads: keep fewer versions (history.volumes)")]
    TooLong(PathBuf),
    /// Another failure of the operating system.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// The result of writing.
pub type WriteResult<T> = Result<T, WriteError>;

pub(crate) fn failed(path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => WriteError::Full(path.to_owned()),
        _ => WriteError::Io { path: path.to_owned(), source },
    }
}

/// The place of an export that is being written to `place`.
pub(crate) fn unfinished(place: &Path) -> PathBuf {
    let mut unfinished = place.as_os_str().to_owned();
    unfinished.push(".unfinished");
    PathBuf::from(unfinished)
}

/// Locks a folder until the file is dropped, so that only one export works on it.
pub(crate) fn locked(folder: &Path) -> WriteResult<File> {
    let lock = File::open(folder).map_err(failed(folder))?;
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => WriteError::Busy(folder.to_owned()),
        TryLockError::Error(error) => failed(folder)(error),
    })?;
    Ok(lock)
}

pub(crate) fn synced(path: &Path, file: BufWriter<File>) -> WriteResult<()> {
    let file = file.into_inner().map_err(|error| failed(path)(error.into_error()))?;
    file.sync_all().map_err(failed(path))
}

/// Makes the names of the files in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> WriteResult<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(failed(path))
}

/// Makes the names of all files below a folder durable.
pub(crate) fn sync_folders(folder: &Path) -> WriteResult<()> {
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).map_err(failed(&folder))? {
            let entry = entry.map_err(failed(&folder))?;
            let is_folder = entry.file_type().map_err(failed(&folder))?.is_dir();
            waiting.extend(is_folder.then(|| entry.path()));
        }
        sync_folder(&folder)?;
    }
    Ok(())
}

/// Gives a finished export its name.
pub(crate) fn named(folder: &Path, place: &Path) -> WriteResult<()> {
    sync_folders(folder)?;
    fs::rename(folder, place).map_err(failed(place))?;
    sync_folder(place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_as_such() {
        // ENOSPC and EDQUOT (errno(3)).
        for code in [28, 122] {
            let error = failed(Path::new("bag/file"))(io::Error::from_raw_os_error(code));
            assert_eq!(error.to_string(), "no room on the disk for bag/file: make room, and export again");
        }
    }
}
