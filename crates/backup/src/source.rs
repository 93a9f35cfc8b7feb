//! What a backup is made from: a cut.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use store::Cut;

use crate::error::{BackupError, BackupResult, io_error};
use crate::lock::Lock;
use crate::manifest::{Entry, in_order};

/// A cut that this process reads. It is deleted with the value.
#[derive(Debug)]
pub struct Source {
    root: PathBuf,
    cut: Cut,
    /// Keeps the cut.
    _lock: Lock,
}

/// Something in a cut.
#[derive(Debug)]
pub(crate) enum Found {
    File(FoundFile),
    /// A folder without files.
    Folder(String),
}

/// A file of a cut.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) modified: u64,
    pub(crate) checksum: Option<String>,
}

impl FoundFile {
    /// Whether an earlier backup has the same bytes. Files of rows are those that the engine names
    /// by a checksum. Contents of a cut never change. All other files are small or change.
    pub(crate) fn is(&self, entry: &Entry) -> bool {
        let is_named = match (&self.checksum, &entry.checksum) {
            (Some(checksum), Some(known)) => checksum == known,
            (None, None) => self.path.starts_with("contents/") && self.modified == entry.modified,
            _ => false,
        };
        is_named && self.path == entry.path && self.bytes == entry.bytes
    }
}

impl Source {
    /// Takes over a cut of the store in `data`.
    pub fn open(data: &Path, cut: Cut) -> BackupResult<Self> {
        let root = data.join(&cut.folder);
        let lock = File::open(root.join(Cut::LOCK)).map_err(|source| io_error("opening the cut in", &root, source))?;
        lock.lock_shared().map_err(|source| io_error("locking the cut in", &root, source))?;
        let source = Self { root, cut, _lock: Lock::of(lock) };
        if !source.root.join("format").exists() {
            return Err(BackupError::Busy("the cut of the store was given up: try again".to_owned()));
        }
        Ok(source)
    }

    /// What the cut is of.
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> BackupResult<u64> {
        let mut bytes = 0;
        self.walk(&mut |found| {
            if let Found::File(file) = found {
                bytes += file.bytes;
            }
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Visits everything, in the order of the paths.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(Found) -> BackupResult<()>) -> BackupResult<()> {
        self.walk_folder(&self.root, visit)
    }

    fn walk_folder(&self, folder: &Path, visit: &mut dyn FnMut(Found) -> BackupResult<()>) -> BackupResult<()> {
        let listing = |source| io_error("listing", folder, source);
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(listing)? {
            let path = entry.map_err(listing)?.path();
            if path != self.root.join(Cut::LOCK) {
                paths.push((self.name(&path), path));
            }
        }
        if paths.is_empty() {
            return visit(Found::Folder(self.name(folder)));
        }
        paths.sort_by(|(one, _), (other, _)| in_order(one, other));
        for (name, path) in paths {
            let metadata = fs::symlink_metadata(&path).map_err(|source| io_error("looking at", &path, source))?;
            if metadata.is_dir() {
                self.walk_folder(&path, visit)?;
                continue;
            }
            let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let modified = modified.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or_default();
            let bytes = self.cut.lengths.get(&name).copied().unwrap_or(metadata.len());
            let checksum = self.cut.checksums.get(&name).cloned();
            visit(Found::File(FoundFile { path: name, bytes, modified, checksum }))?;
        }
        Ok(())
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Where a file is.
    pub(crate) fn place(&self, file: &FoundFile) -> PathBuf {
        self.root.join(&file.path)
    }

    /// The bytes of a file that belong to the cut.
    pub(crate) fn read(&self, file: &FoundFile) -> io::Result<impl Read + use<>> {
        Ok(File::open(self.place(file))?.take(file.bytes))
    }
}

impl Drop for Source {
    /// Other readers of the cut there are none. If this fails, the store deletes it.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
