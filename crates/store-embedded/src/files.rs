//! What all files of a data folder need: errors with their paths, and names that are durable.

use std::fs::File;
use std::io;
use std::path::Path;

use store::{StoreError, StoreResult};

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> StoreResult<()> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|source| io_error("syncing", path, source))
}

/// An error of the operating system, with the operation and the path.
pub(crate) fn io_error(what: &str, path: &Path, source: io::Error) -> StoreError {
    if source.kind() == io::ErrorKind::StorageFull {
        return StoreError::Full(format!("{what} {}: {source}", path.display()));
    }
    StoreError::Io { context: format!("{what} {}", path.display()), source }
}
