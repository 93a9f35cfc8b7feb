//! Controls Linux's page cache of files.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{Advice, fadvise};
use walkdir::WalkDir;

/// The files in a folder, at all depths, open, sorted by name.
pub fn files(folder: &Path) -> impl Iterator<Item = Result<File>> {
    let entries = WalkDir::new(folder).sort_by_file_name().into_iter();
    let files = entries.filter(|entry| entry.as_ref().map_or(true, |entry| entry.file_type().is_file()));
    files.map(|entry| Ok(File::open(entry?.path())?))
}

/// Asks Linux to drop a folder's files from the page cache (posix_fadvise(2)), after writing them
/// to the disk. Pages that a process has mapped are kept.
pub fn forget(folder: &Path) -> Result<()> {
    for file in files(folder) {
        let file = file?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
