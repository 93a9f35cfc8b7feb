//! Files and folders: how they are made, opened and made durable.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{BackupResult, io_error};

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
