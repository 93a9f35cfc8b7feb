//! Writes a storage root (OCFL 1.1, section 4).
//!
//! While it is written it is the folder `NAME.unfinished`; it has its name only when it is whole
//! and synced. The same export continues an interrupted one, and adds new versions and objects to a
//! finished one. A note in the unfinished folder says which object is being written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::inventory::User;
use super::layout;
use super::object::ObjectWriter;
use crate::write::{WriteError, WriteResult, failed, locked, named, sync_folder, unfinished};

/// The declaration of a storage root.
pub const DECLARATION: &str = "0=ocfl_1.1";

/// The identifier of the object that is being written, in an unfinished storage root.
const AT_WORK: &str = "at-work";

/// A storage root that is being written.
#[derive(Debug)]
pub struct RootWriter {
    place: PathBuf,
    folder: PathBuf,
    /// Who makes the versions.
    user: User,
    /// Locked, so that only one export works on the folder.
    _lock: File,
}

impl RootWriter {
    /// Begins a storage root at a place where nothing is yet, continues an interrupted one, or
    /// opens a finished one to add to it. `user` makes the versions.
    pub fn begin(place: &Path, user: User) -> WriteResult<Self> {
        let folder = unfinished(place);
        let is_there = fs::symlink_metadata(place).is_ok();
        let is_begun = fs::symlink_metadata(&folder).is_ok();
        match (is_there, is_begun) {
            (true, true) => return Err(WriteError::Unfinished(folder)),
            (true, false) if is_ours(place) && place.join(DECLARATION).exists() => {
                fs::rename(place, &folder).map_err(failed(&folder))?
            }
            (true, false) => return Err(WriteError::Exists(place.to_owned())),
            (false, true) if is_ours(&folder) || is_empty(&folder) => {}
            (false, true) => return Err(WriteError::Unfinished(folder)),
            (false, false) => fs::create_dir(&folder).map_err(failed(&folder))?,
        }
        let lock = locked(&folder)?;
        let this = Self { place: place.to_owned(), folder, user, _lock: lock };
        this.declare()?;
        this.finish_interrupted()?;
        Ok(this)
    }

    /// Finishes the object that an interrupted export was writing, with the versions that are
    /// whole, or removes it if it has none. What it is of may be gone since, so that this export
    /// does not come to it.
    fn finish_interrupted(&self) -> WriteResult<()> {
        let note = self.folder.join(AT_WORK);
        let id = match fs::read(&note) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            id => id.map_err(failed(&note))?,
        };
        match String::from_utf8(id) {
            // The note stays as it is: a stop in here must not lose it.
            Ok(id) if !id.is_empty() => self.open(&id)?.finish(),
            // The stop came while the note was written, before anything of the object.
            _ => Ok(()),
        }
    }

    fn declare(&self) -> WriteResult<()> {
        let extension = self.folder.join("extensions").join(layout::EXTENSION);
        fs::create_dir_all(&extension).map_err(failed(&extension))?;
        let description = "Objects are in folders named after the SHA-256 of their identifiers and the identifiers";
        let chosen = serde_json::json!({"extension": layout::EXTENSION, "description": description});
        write_once(&extension.join("config.json"), &format!("{:#}\n", layout::parameters()))?;
        write_once(&self.folder.join("ocfl_layout.json"), &format!("{chosen:#}\n"))?;
        write_once(&self.folder.join(DECLARATION), "ocfl_1.1\n")
    }

    /// Begins an object, or opens it to add versions. The one before must be finished.
    pub fn object(&self, id: &str) -> WriteResult<ObjectWriter> {
        let object = self.open(id)?;
        let note = self.folder.join(AT_WORK);
        fs::write(&note, id).map_err(failed(&note))?;
        Ok(object)
    }

    fn open(&self, id: &str) -> WriteResult<ObjectWriter> {
        ObjectWriter::open(self.folder.join(layout::place(id)), id, self.user.clone())
    }

    /// Syncs all of it, and gives it its name.
    pub fn finish(self) -> WriteResult<()> {
        let note = self.folder.join(AT_WORK);
        match fs::remove_file(&note) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&note)(error)),
            _ => {}
        }
        named(&self.folder, &self.place)
    }
}

/// Whether a folder is a storage root with the layout of this program.
fn is_ours(folder: &Path) -> bool {
    let chosen = fs::read(folder.join("ocfl_layout.json")).ok();
    let chosen: Option<serde_json::Value> = chosen.and_then(|text| serde_json::from_slice(&text).ok());
    let parameters = fs::read(folder.join("extensions").join(layout::EXTENSION).join("config.json")).ok();
    let parameters: Option<serde_json::Value> = parameters.and_then(|text| serde_json::from_slice(&text).ok());
    let is_chosen = chosen.is_some_and(|chosen| chosen["extension"] == layout::EXTENSION);
    is_chosen && parameters == Some(layout::parameters())
}

/// Whether nothing was exported into a folder yet: an export was interrupted at its begin.
fn is_empty(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().all(|entry| entry.file_name() == "extensions" || entry.file_name() == "ocfl_layout.json.part")
}

/// Writes a small file, unless it is there.
fn write_once(path: &Path, text: &str) -> WriteResult<()> {
    if path.exists() {
        return Ok(());
    }
    write_whole(path, text.as_bytes())
}

/// Writes a small file. It is there as a whole or not at all.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> WriteResult<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut file = File::create(&part).map_err(failed(&part))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed(&part))?;
    fs::rename(&part, path).map_err(failed(path))?;
    path.parent().map_or(Ok(()), sync_folder)
}
