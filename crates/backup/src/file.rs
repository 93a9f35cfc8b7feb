//! Files and folders: how they are made, opened and made durable.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{BackupError, BackupResult, io_error};

/// Makes a file that only its owner may read. It is an error if there is something of that name:
/// it may be a link to a file of the store.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Deletes a file, if there is one.
pub(crate) fn remove(path: &Path) -> BackupResult<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| io_error("removing", path, source)),
    }
}

/// Opens a file to read it. Links and pipes are errors, of the kind
/// [`InvalidData`](io::ErrorKind::InvalidData).
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let refused = || io::Error::new(io::ErrorKind::InvalidData, "it is no regular file");
    // A pipe without a writer would wait for one.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(refused()),
        opened => File::from(opened?),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

/// Refuses a link in the place of a folder: what is behind it is somebody else's.
pub(crate) fn require_folder(path: &Path) -> BackupResult<()> {
    let found = fs::symlink_metadata(path).map_err(|source| io_error("looking at", path, source))?;
    if found.is_dir() { Ok(()) } else { Err(no_folder(path)) }
}

fn no_folder(path: &Path) -> BackupError {
    let what = "is no folder, or a link to one: nothing is written or deleted behind a link";
    BackupError::NoBackups(format!("{} {what}", path.display()))
}

/// A folder from which files are deleted. It is open, so nobody can put a link in its place.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    folder: OwnedFd,
    path: PathBuf,
}

impl OpenFolder {
    /// Opens a folder. A link is an error.
    pub(crate) fn open(path: &Path) -> BackupResult<Self> {
        Self::at(CWD, path, path.to_path_buf())
    }

    /// Opens a folder in this one.
    pub(crate) fn folder(&self, name: &OsStr) -> BackupResult<Self> {
        Self::at(&self.folder, name.as_ref(), self.path.join(name))
    }

    fn at(around: impl AsFd, name: &Path, path: PathBuf) -> BackupResult<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(around, name, flags, Mode::empty()) {
            Ok(folder) => Ok(Self { folder, path }),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(no_folder(&path)),
            Err(error) => Err(io_error("opening", &path, error.into())),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The names of what is in it.
    pub(crate) fn names(&self) -> BackupResult<Vec<OsString>> {
        let listing = |error: Errno| io_error("listing", &self.path, error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder).map_err(listing)? {
            let entry = entry.map_err(listing)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// The length of a regular file; `None`: it is something else.
    pub(crate) fn file_len(&self, name: &OsStr) -> BackupResult<Option<u64>> {
        let found = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let found = found.map_err(|error| io_error("looking at", &self.path.join(name), error.into()))?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        Ok(is_file.then(|| u64::try_from(found.st_size).unwrap_or_default()))
    }

    /// Deletes a file.
    pub(crate) fn remove(&self, name: &OsStr) -> BackupResult<()> {
        let removed = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
        removed.map_err(|error| io_error("removing", &self.path.join(name), error.into()))
    }
}

pub(crate) fn create_or_open(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Makes folders that only their owner may enter, where they are missing.
pub(crate) fn make_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes the names in a folder durable.
pub fn sync_folder(path: &Path) -> BackupResult<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|source| io_error("syncing", path, source))
}

/// Makes everything durable that was written to the file system of a folder.
pub(crate) fn sync_all(path: &Path) -> BackupResult<()> {
    let syncing = |source| io_error("syncing", path, source);
    let folder = File::open(path).map_err(syncing)?;
    rustix::fs::syncfs(&folder).map_err(|error| syncing(error.into()))
}
