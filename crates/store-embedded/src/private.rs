//! Files and folders that only their owner may read.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The mode of a file: its owner reads and writes it.
const FILE_MODE: u32 = 0o600;

/// The mode of a folder.
const FOLDER_MODE: u32 = 0o700;

/// Makes a file that is not there yet.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Makes a file, or empties the one that is there.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
}

/// Opens a file to write to it, and makes it where it is missing.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(false).mode(FILE_MODE).open(path)
}

/// Makes a folder and those above it, where they are missing.
pub(crate) fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Closes a folder to everybody but its owner; true: it was open to others.
pub(crate) fn close_folder(path: &Path) -> io::Result<bool> {
    let is_open = fs::metadata(path)?.permissions().mode() & 0o077 != 0;
    if is_open {
        fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))?;
    }
    Ok(is_open)
}
