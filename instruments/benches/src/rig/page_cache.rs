//! Controls Linux's page cache of files.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{Advice, fadvise};
use walkdir::WalkDir;

use super::work::is_not_found;

/// The files in a folder, at all depths, open, sorted by name.
pub fn files(folder: &Path) -> impl Iterator<Item = Result<File>> {
    let entries = WalkDir::new(folder).sort_by_file_name().into_iter();
    let files = entries.filter(|entry| entry.as_ref().map_or(true, |entry| entry.file_type().is_file()));
    files.map(|entry| Ok(File::open(entry?.path())?))
}

/// Asks Linux to drop a folder's files from the page cache (posix_fadvise(2)), after writing them
/// to the disk. Pages that a process has mapped are kept. Files that a server deletes meanwhile are
/// left out.
pub fn forget(folder: &Path) -> Result<()> {
    for file in files(folder) {
        let file = match file {
            Err(error) if is_gone(&error) => continue,
            file => file?,
        };
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Whether a file in the folder was deleted meanwhile. A folder that is missing is an error.
fn is_gone(error: &anyhow::Error) -> bool {
    let of_walk = error.downcast_ref::<walkdir::Error>().filter(|error| error.depth() > 0);
    is_not_found(error.downcast_ref::<io::Error>().or(of_walk.and_then(walkdir::Error::io_error)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn files_leave_the_cache_and_stay_and_one_that_is_deleted_meanwhile_is_no_error_but_a_missing_folder_is() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "text").unwrap();
        forget(folder.path()).unwrap();
        assert_eq!(std::fs::read(folder.path().join("file")).unwrap(), b"text");
        let missing = folder.path().join("missing");
        assert!(is_gone(&File::open(&missing).unwrap_err().into()));
        assert!(!is_gone(&anyhow::anyhow!("another error")));
        forget(&missing).unwrap_err();
    }
}
