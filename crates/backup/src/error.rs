//! Why a backup failed.

use std::io;
use std::path::Path;

/// What backups return.
pub type BackupResult<T> = Result<T, BackupError>;

/// Why something failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was done, with the path.
        what: String,
        /// Its error.
        source: io::Error,
    },
    /// The disk with the backups, or with the restored store, is full.
    #[error("{0}: the disk is full")]
    Full(String),
    /// There is no folder of backups, or none that this program reads.
    #[error("{0}")]
    NoBackups(String),
    /// A build before the first release made it. Nothing in it was changed.
    #[error(
        "{0} made by a build before 0.1.0, which no release reads: restore with that build, export the store and load it \
         here"
    )]
    Unreleased(String),
    /// The folder has backups of another store.
    #[error(
        "{place} has backups of another store, for example {id} of {folder}: name another folder for the backups of \
         this one"
    )]
    OtherStore {
        /// The folder of backups.
        place: String,
        /// A backup of the other store.
        id: String,
        /// Its data folder, as it was named then.
        folder: String,
    },
    /// The newest backup is of a later time than now.
    #[error(
        "the newest backup is {newest}, and a backup of this moment would be {now}: the clock of this machine is wrong, \
         or was when that backup was made. If the clock is right now, delete that backup by its id (penates backup \
         delete), or name another folder"
    )]
    Clock {
        /// The id of the newest backup.
        newest: String,
        /// The id that a backup of this moment has.
        now: String,
    },
    /// There is no such backup.
    #[error("there is no backup {0}; `penates backup list` lists them")]
    Absent(String),
    /// Somebody else works there.
    #[error("{0}")]
    Busy(String),
    /// A backup is damaged.
    #[error("backup {backup} is damaged: {what}")]
    Damaged {
        /// Its id.
        backup: String,
        /// What is wrong.
        what: String,
    },
    /// The store is damaged.
    #[error(
        "{0} is damaged in the store: its bytes are not those that the engine wrote. No backup was made; earlier ones are as they were"
    )]
    DamagedSource(String),
    /// The folder for a restored store is in use.
    #[error("{0}")]
    Occupied(String),
}

/// Adds what was done to an error of the operating system.
pub(crate) fn io_error(what: &str, path: &Path, source: io::Error) -> BackupError {
    let what = format!("{what} {}", path.display());
    if source.kind() == io::ErrorKind::StorageFull || source.kind() == io::ErrorKind::QuotaExceeded {
        return BackupError::Full(what);
    }
    BackupError::Io { what, source }
}
