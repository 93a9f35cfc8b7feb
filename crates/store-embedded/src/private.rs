//! Files and folders that only their owner may read.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The mode of a file: its owner reads and writes it.
const FILE_MODE: u32 = 0o600;

/// The mode of a folder.
const FOLDER_MODE: u32 = 0o700;

/// Makes a new file.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Makes a file, or truncates an existing one.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
}

/// Opens a file for reading and writing, and makes it if it is missing.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)
}

/// Makes a folder and its parents where they are missing.
pub(crate) fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Closes a file or folder to everybody but its owner. Returns whether it was open to others.
pub(crate) fn close(path: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(path)?;
    let is_open = !found.is_symlink() && found.permissions().mode() & 0o077 != 0;
    if is_open {
        let mode = if found.is_dir() { FOLDER_MODE } else { FILE_MODE };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(is_open)
}

/// Closes a folder with all its contents. Files that disappear meanwhile are ignored.
pub(crate) fn close_all(path: &Path) -> io::Result<()> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match close(path) {
        Err(error) if !is_gone(&error) => return Err(error),
        _ => {}
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::NotADirectory => return Ok(()),
        Err(error) => return Err(error),
    };
    entries.into_iter().try_for_each(|entry| close_all(&entry?.path()))
}
