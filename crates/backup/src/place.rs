//! Where a store is restored: in a folder `restoring` of the data folder, until it is whole.
//!
//! The data folder is locked meanwhile, as a process locks it that has the store open: no server
//! makes a store there.

use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{BackupError, BackupResult, io_error};
use crate::file::{create_or_open, make_folders, sync_folder};
use crate::lock::Lock;

/// The folder in which a store is restored.
const RESTORING: &str = "restoring";

/// The file of a data folder that the process locks that has it open.
const LOCK: &str = "lock";

/// What is moved to its place, in this order: `format` makes it a store.
const PARTS: [&str; 3] = ["contents", "db", FORMAT];

/// The file that makes a folder a store. It is the last one that a restore writes.
const FORMAT: &str = "format";

/// What a data folder may have into which a backup is restored.
pub const VACANT_FOR_RESTORE: &str = "an empty folder, or one that does not exist";

/// A data folder into which a store is restored. Nobody else can open it while the value exists.
#[derive(Debug)]
pub struct Place {
    data: PathBuf,
    restoring: PathBuf,
    _lock: Lock,
}

impl Place {
    /// Begins to restore a store into a data folder. What a restore left that did not end is
    /// deleted.
    ///
    /// Errors: [`BackupError::Occupied`] if there is something else; [`BackupError::Busy`] if
    /// another process has the folder.
    pub fn begin(data: &Path) -> BackupResult<Self> {
        let making = |source| io_error("making", data, source);
        make_folders(data).map_err(making)?;
        // Before there is a lock in a folder that is somebody else's.
        left_in(data)?;
        let lock = lock(data)?;
        let left = left_in(data)?;
        let restoring = data.join(RESTORING);
        // It says to which restore the parts belong, so it is deleted after them.
        for part in left.iter().chain([&restoring]).filter(|part| part.exists()) {
            fs::remove_dir_all(part).map_err(|source| io_error("removing", part, source))?;
        }
        make_folders(&restoring).map_err(making)?;
        Ok(Self { data: data.to_path_buf(), restoring, _lock: lock })
    }

    /// The folder into which the files of the store are written.
    pub fn path(&self) -> &Path {
        &self.restoring
    }

    /// Puts the restored store in its place.
    pub fn finish(self) -> BackupResult<()> {
        for part in PARTS {
            let (from, to) = (self.restoring.join(part), self.data.join(part));
            match fs::rename(&from, &to) {
                // A store may have no large contents.
                Err(error) if error.kind() == io::ErrorKind::NotFound && part == "contents" => {}
                moved => moved.map_err(|source| io_error("moving to its place", &from, source))?,
            }
            sync_folder(&self.data)?;
        }
        fs::remove_dir_all(&self.restoring).map_err(|source| io_error("removing", &self.restoring, source))
    }
}

/// The parts that a restore left in a data folder that ended while it moved them. It is an error if
/// the folder has anything that no restore left.
fn left_in(data: &Path) -> BackupResult<Vec<PathBuf>> {
    let listing = |source| io_error("listing", data, source);
    let restoring = data.join(RESTORING);
    let was_moved = |part: &str| restoring.join(FORMAT).exists() && !restoring.join(part).exists();
    let mut left = Vec::new();
    for entry in fs::read_dir(data).map_err(listing)? {
        let entry = entry.map_err(listing)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_part = PARTS.contains(&name.as_str());
        match name.as_str() {
            "lost+found" => {}
            RESTORING if !data.join(FORMAT).exists() => {}
            // The lock of a store says how it was used.
            LOCK if entry.metadata().map_err(listing)?.len() == 0 => {}
            name if is_part && was_moved(name) => left.push(entry.path()),
            name => {
                let folder = data.display();
                let what = format!("{folder} has files ({name}): a backup is restored into {VACANT_FOR_RESTORE}");
                return Err(BackupError::Occupied(what));
            }
        }
    }
    Ok(left)
}

fn lock(data: &Path) -> BackupResult<Lock> {
    let path = data.join(LOCK);
    let locking = |source| io_error("locking", &path, source);
    let file = create_or_open(&path).map_err(locking)?;
    match file.try_lock() {
        Ok(()) => Ok(Lock::of(file)),
        Err(TryLockError::WouldBlock) => {
            Err(BackupError::Busy(format!("another process has {}: stop it first", data.display())))
        }
        Err(TryLockError::Error(source)) => Err(locking(source)),
    }
}
