//! What errors of fjall mean to callers of the store.

use std::io;
use std::path::Path;

use store::{StoreError, Table};

use crate::files::io_error;
use crate::space::Space;

pub(super) fn sync_error(error: fjall::Error) -> StoreError {
    StoreError::Io { context: "syncing a journal".to_owned(), source: io::Error::other(error) }
}

/// Maps a failed read: everything is damage but an error of the operating system that does not come
/// from the bytes or from the disk.
pub(super) fn read_error(space: Space, error: fjall::Error) -> StoreError {
    let table = match space {
        Space::Rows(table) => table,
        // These have no name above the seam. Nearly all rows that expire belong to selections.
        Space::Expiries | Space::Marks => Table::Selections,
    };
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            if is_damage(&source) {
                return StoreError::Corrupt { table, detail: source.to_string() };
            }
            StoreError::Io { context: format!("reading table {table}"), source }
        }
        error => StoreError::Corrupt { table, detail: error.to_string() },
    }
}

/// Whether an error of a read comes from the bytes that were read, because invalid lengths and
/// positions lead beyond a file's end, or from a disk that cannot read them.
fn is_damage(error: &io::Error) -> bool {
    is_unreadable(error)
        || matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
        )
}

/// Whether the disk could not read the bytes (`EIO`).
pub(crate) fn is_unreadable(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

pub(super) fn open_error(folder: &Path, error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            if is_damage(&source) {
                return unreadable(folder, source.to_string());
            }
            io_error("opening the database in", folder, source)
        }
        fjall::Error::Locked => StoreError::Held { folder: folder.display().to_string() },
        fjall::Error::InvalidVersion(found) => StoreError::Format {
            location: folder.display().to_string(),
            found: format!("fjall {found:?}"),
            expected: "fjall 3".to_owned(),
        },
        error => unreadable(folder, error.to_string()),
    }
}

pub(super) fn unreadable(folder: &Path, detail: String) -> StoreError {
    StoreError::Unreadable { location: folder.display().to_string(), detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_the_disk_cannot_read_are_damage_and_a_lack_of_memory_is_not() {
        let error = |errno: rustix::io::Errno| {
            read_error(
                Space::Rows(Table::Objects),
                fjall::Error::Io(io::Error::from_raw_os_error(errno.raw_os_error())),
            )
        };
        let unreadable = error(rustix::io::Errno::IO);
        assert!(matches!(unreadable, StoreError::Corrupt { table: Table::Objects, .. }), "{unreadable}");
        assert!(matches!(error(rustix::io::Errno::NOMEM), StoreError::Io { .. }));
    }
}
