//! The folder that outlives clusters. It holds jars, and locks of the loopback networks in use.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{ClusterError, Doing, Result};

/// The pause between two tries to get a lock.
const PAUSE: Duration = Duration::from_millis(50);

/// The folder, created if missing: `PENATES_CASSANDRA_CACHE`, or `penates/cassandra` in the user's
/// cache folder (XDG Base Directory Specification: `XDG_CACHE_HOME`, or `.cache` in `HOME`).
pub(crate) fn folder() -> Result<PathBuf> {
    let folder = named("PENATES_CASSANDRA_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|cache| cache.join("penates/cassandra")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/penates/cassandra")))
        .ok_or(ClusterError::NoCacheFolder)?;
    std::fs::create_dir_all(&folder).doing("making the folder", &folder)?;
    folder.canonicalize().doing("finding", &folder)
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Opens a file and locks it for as long as this file, or a child process's copy of it, is open.
/// `None` if that is not possible within `patience`. The file keeps its content.
pub(crate) fn lock(path: &Path, patience: Duration) -> Result<Option<File>> {
    let file = OpenOptions::new().create(true).append(true).open(path).doing("opening", path)?;
    let deadline = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(error).doing("locking", path),
        }
    }
}

/// Writes a file as a whole or not at all.
pub(crate) fn write(path: &Path, contents: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let written = || -> io::Result<()> {
        let file = tempfile::NamedTempFile::new_in(folder)?;
        std::fs::write(file.path(), contents)?;
        file.persist(path)?;
        Ok(())
    };
    written().doing("writing", path)
}
