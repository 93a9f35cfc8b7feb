//! The lock that the engine holds while a database is open: the file `lock` in the folder of each
//! lane, beside that of the data folder.
//!
//! A process finds it held if somebody deleted the `lock` of the data folder that another process
//! has open. The engine itself takes it only after the checks, which cut a torn end off the newest
//! journal. In an open database that end is a group that is just being written, or that was
//! acknowledged since the journal was read. So the lock is taken before the checks too.
//!
//! The engine takes it through a file of its own, so it has to be released for that. A process that
//! takes it in between makes the engine refuse the database, and nothing is cut off any more. If
//! that process has written something and ended by then, the last group is not the expected one,
//! which is refused as well.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use store::{StoreError, StoreResult};

use crate::files::io_error;

/// How long the lock may stay held by a process that ends: as long as the engine waits for it.
const WAIT: Duration = Duration::from_millis(200);

/// How often it is tried meanwhile.
const POLL: Duration = Duration::from_millis(10);

/// The lock on a database that nobody has open. It is released with the value.
pub(crate) struct EngineLock {
    path: PathBuf,
    /// `None`: the file is missing, which the checks report.
    lock: Option<File>,
}

impl EngineLock {
    /// Takes the lock. Nothing is made or written.
    ///
    /// Errors: [`StoreError::Held`] if a process has the database open.
    pub(crate) fn take(database: &Path) -> StoreResult<Self> {
        let path = database.join("lock");
        let lock = match File::options().read(true).write(true).open(&path) {
            Ok(lock) => lock,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Self { path, lock: None });
            }
            Err(error) => return Err(io_error("opening", &path, error)),
        };
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { path, lock: Some(lock) }),
                Err(TryLockError::WouldBlock) if begun.elapsed() < WAIT => thread::sleep(POLL),
                Err(TryLockError::WouldBlock) => {
                    return Err(StoreError::Held { folder: database.display().to_string() });
                }
                Err(TryLockError::Error(error)) => return Err(io_error("locking", &path, error)),
            }
        }
    }
}

impl Drop for EngineLock {
    /// Closing the file would release the lock too, but not while a child process that is just
    /// starting shares it.
    fn drop(&mut self) {
        if let Some(Err(error)) = self.lock.as_ref().map(File::unlock) {
            tracing::warn!(%error, lock = %self.path.display(), "the lock of a database could not be released");
        }
    }
}
