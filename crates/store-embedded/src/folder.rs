//! The data folder: who holds it, and which format it has.
//!
//! ```text
//! format     name and version of the format, one line
//! lock       held with a lock of the operating system by the process that has the folder open
//! db/        a database of rows for each lane: `text`, `service`
//! contents/  large contents, one file each, in up to 256 folders by the first byte of their id
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use store::{Lane, StoreError, StoreResult};

/// The name of the format, without its version.
const FORMAT_NAME: &str = "penates-embedded";

/// The version that this program reads and writes. Raise it with any change of what is stored.
const FORMAT_VERSION: u32 = 4;

/// A data folder that this process holds until the value is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The operating system lets go of the lock for a killed process.
    lock: File,
}

impl Drop for Folder {
    /// Closing the file would let go of the lock too, but not as long as a child process that is just starting shares it.
    fn drop(&mut self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, folder = %self.path.display(), "the lock of the data folder could not be let go of");
        }
    }
}

impl Folder {
    /// Takes hold of a folder, making it if there is none, and checks its format before anything else is opened.
    pub(crate) fn hold(path: &Path) -> StoreResult<Self> {
        fs::create_dir_all(path).map_err(|source| io_error("making the data folder", path, source))?;
        let lock = lock(path)?;
        let folder = Self { path: path.to_path_buf(), lock };
        folder.check_or_write_format()?;
        Ok(folder)
    }

    /// Refuses a folder that holds no database, or says that it is of another format. Of a `format` that cannot be read it is
    /// assumed that it was this.
    pub(crate) fn check_salvageable(path: &Path) -> StoreResult<()> {
        if !path.join("db").is_dir() {
            let detail = "there is no database in it".to_owned();
            return Err(StoreError::Unreadable { location: path.display().to_string(), detail });
        }
        let found = fs::read(path.join("format")).unwrap_or_default();
        let found = String::from_utf8_lossy(&found).trim_end().to_owned();
        let version = found.strip_prefix(FORMAT_NAME).and_then(|version| version.trim_start().parse::<u32>().ok());
        match version {
            Some(version) if version != FORMAT_VERSION => {
                Err(StoreError::Format { location: path.display().to_string(), found, expected: format_line() })
            }
            _ => Ok(()),
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the database of a lane's rows is.
    pub(crate) fn database(&self, lane: Lane) -> PathBuf {
        self.databases().join(lane.name())
    }

    fn databases(&self) -> PathBuf {
        self.path.join("db")
    }

    /// Where large contents are.
    pub(crate) fn contents(&self) -> PathBuf {
        self.path.join("contents")
    }

    fn check_or_write_format(&self) -> StoreResult<()> {
        let path = self.path.join("format");
        match fs::read(&path) {
            Ok(found) => self.check_format(&String::from_utf8_lossy(&found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write_format(&path),
            Err(error) => Err(io_error("reading the format", &path, error)),
        }
    }

    fn check_format(&self, found: &str) -> StoreResult<()> {
        if found.trim_end() == format_line() {
            return Ok(());
        }
        Err(self.another_format(found.trim_end().chars().take(80).collect()))
    }

    /// Marks a fresh folder. A database without a format is none of ours, or has lost it: it is left as it is.
    fn write_format(&self, path: &Path) -> StoreResult<()> {
        if self.databases().exists() {
            return Err(self.another_format("that no `format` file tells".to_owned()));
        }
        let contents = self.contents();
        fs::create_dir_all(&contents).map_err(|source| io_error("making", &contents, source))?;
        write_whole(path, format!("{}\n", format_line()).as_bytes())
            .map_err(|source| io_error("writing", path, source))?;
        sync_folder(&self.path)
    }

    fn another_format(&self, found: String) -> StoreError {
        StoreError::Format { location: self.path.display().to_string(), found, expected: format_line() }
    }
}

fn format_line() -> String {
    format!("{FORMAT_NAME} {FORMAT_VERSION}")
}

fn lock(folder: &Path) -> StoreResult<File> {
    let path = folder.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|source| io_error("opening", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Held { folder: folder.display().to_string() }),
        Err(TryLockError::Error(source)) => Err(io_error("locking", &path, source)),
    }
}

/// Writes a small file so that it is there either whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    let mut file = File::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> StoreResult<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|source| io_error("syncing", path, source))
}

/// An error of the operating system, and where it happened.
pub(crate) fn io_error(what: &str, path: &Path, source: io::Error) -> StoreError {
    if source.kind() == io::ErrorKind::StorageFull {
        return StoreError::Full(format!("{what} {}: {source}", path.display()));
    }
    StoreError::Io { context: format!("{what} {}", path.display()), source }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_second_holder_is_told_that_the_folder_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let held = Folder::hold(folder.path()).unwrap();
        assert!(matches!(Folder::hold(folder.path()), Err(StoreError::Held { .. })));
        drop(held);
        Folder::hold(folder.path()).unwrap();
    }

    #[test]
    fn an_older_or_newer_format_is_named_in_the_error_and_left_untouched() {
        for version in [FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
            let folder = tempfile::tempdir().unwrap();
            let format = folder.path().join("format");
            let line = format!("penates-embedded {version}\n");
            fs::write(&format, &line).unwrap();
            let error = Folder::hold(folder.path()).unwrap_err();
            assert!(matches!(error, StoreError::Format { .. }));
            assert!(error.to_string().contains(line.trim_end()), "{error}");
            assert_eq!(fs::read_to_string(&format).unwrap(), line);
            assert!(!folder.path().join("contents").exists());
        }
    }

    #[test]
    fn a_database_without_a_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("db")).unwrap();
        assert!(matches!(Folder::hold(folder.path()), Err(StoreError::Format { .. })));
    }
}
