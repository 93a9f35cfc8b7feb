//! What Linux holds of files in memory.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{Advice, fadvise};
use walkdir::WalkDir;

/// The files of a folder and of all within it, open, in the order of their names.
pub fn files(folder: &Path) -> impl Iterator<Item = Result<File>> {
    let entries = WalkDir::new(folder).sort_by_file_name().into_iter();
    let files = entries.filter(|entry| entry.as_ref().map_or(true, |entry| entry.file_type().is_file()));
    files.map(|entry| Ok(File::open(entry?.path())?))
}

/// Asks Linux to forget what it holds of a folder's files (posix_fadvise(2)); what is not on the disk yet gets there first. Pages that
/// some process has mapped are kept.
pub fn forget(folder: &Path) -> Result<()> {
    for file in files(folder) {
        let file = file?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}
