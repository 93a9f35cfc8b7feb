//! Where a store is restored: in a folder `restoring` of the data folder, until it is whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{BackupError, BackupResult, io_error};
use crate::file::{make_folders, sync_folder};

/// The folder in which a store is restored.
const RESTORING: &str = "restoring";

/// What is moved to its place, in this order: `format` makes it a store.
const PARTS: [&str; 3] = ["contents", "db", "format"];

/// What a data folder may have into which a backup is restored.
pub const VACANT_FOR_RESTORE: &str = "an empty folder, or one that does not exist";

/// Begins to restore a store into a data folder. Returns where its files are written. What a
/// restore left that did not end is deleted.
///
/// Errors: [`BackupError::Occupied`] if there is something else.
pub fn begin(data: &Path) -> BackupResult<PathBuf> {
    let making = |source| io_error("making", data, source);
    make_folders(data).map_err(making)?;
    let restoring = data.join(RESTORING);
    let is_ours = restoring.exists() && !data.join("format").exists();
    let mut others = Vec::new();
    for entry in fs::read_dir(data).map_err(making)? {
        let name = entry.map_err(making)?.file_name().to_string_lossy().into_owned();
        if name != "lost+found" && !(is_ours && (name == RESTORING || PARTS.contains(&name.as_str()))) {
            others.push(name);
        }
    }
    if let Some(other) = others.first() {
        let what = format!("{} has files ({other}): a backup is restored into {VACANT_FOR_RESTORE}", data.display());
        return Err(BackupError::Occupied(what));
    }
    for part in [RESTORING].iter().chain(&PARTS).map(|part| data.join(part)).filter(|part| part.exists()) {
        fs::remove_dir_all(&part).map_err(|source| io_error("removing", &part, source))?;
    }
    make_folders(&restoring).map_err(making)?;
    Ok(restoring)
}

/// Puts a restored store in its place.
pub fn finish(data: &Path) -> BackupResult<()> {
    let restoring = data.join(RESTORING);
    for part in PARTS {
        let (from, to) = (restoring.join(part), data.join(part));
        match fs::rename(&from, &to) {
            // A store may have no large contents.
            Err(error) if error.kind() == io::ErrorKind::NotFound && part == "contents" => {}
            moved => moved.map_err(|source| io_error("moving to its place", &from, source))?,
        }
        sync_folder(data)?;
    }
    fs::remove_dir_all(&restoring).map_err(|source| io_error("removing", &restoring, source))
}
