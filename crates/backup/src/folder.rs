//! A folder of backups: its form, its locks and its backups.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{BackupError, BackupResult, io_error};
use crate::file::{create, create_or_open, make_folders, remove, sync_folder};
use crate::manifest::{Reader, Summary};

/// The file that says what the folder is.
const FORM_FILE: &str = "penates-backups";

/// What it says.
const FORM: &str = "penates-backups 1\n";

/// The extension of files that were set aside.
pub(crate) const SET_ASIDE: &str = "damaged";

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Make backups. The folder is made if it is missing.
    Add,
    /// Read backups.
    Read,
    /// Delete backups, or set files aside.
    Delete,
}

/// A folder of backups.
#[derive(Debug)]
pub struct Backups {
    pub(crate) path: PathBuf,
    /// Keeps the files from being deleted, or from being used. `None`: the folder cannot be written
    /// to, so nobody deletes anything.
    _lock: Option<File>,
}

impl Backups {
    /// Opens a folder of backups.
    ///
    /// Errors: [`BackupError::NoBackups`] if it is none, or a later program has made it;
    /// [`BackupError::Busy`] if somebody deletes backups, or if backups are to be deleted that
    /// somebody uses.
    pub fn open(path: &Path, access: Access) -> BackupResult<Self> {
        let form = path.join(FORM_FILE);
        match fs::read_to_string(&form) {
            Ok(found) if found == FORM => {}
            Ok(found) => {
                let what = format!("{} has backups in another form ({})", path.display(), found.trim_end());
                return Err(BackupError::NoBackups(what));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && access == Access::Add => make(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BackupError::NoBackups(format!("there are no backups in {}", path.display())));
            }
            Err(source) => return Err(io_error("reading", &form, source)),
        }
        Ok(Self { path: path.to_path_buf(), _lock: lock(path, access)? })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The ids of the backups, oldest first.
    pub fn ids(&self) -> BackupResult<Vec<String>> {
        let listing = |source| io_error("listing the backups in", &self.path, source);
        let mut ids = Vec::new();
        for entry in fs::read_dir(self.manifests()).map_err(listing)? {
            let name = entry.map_err(listing)?.file_name();
            ids.extend(name.to_str().and_then(|name| name.strip_suffix(".jsonl")).map(str::to_owned));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// A backup in brief. Its description is read whole, and is not damaged then.
    pub fn summary(&self, id: &str) -> BackupResult<Summary> {
        let mut reader = self.reader(id)?;
        let end = reader.end()?;
        Ok(Summary { header: reader.header, end })
    }

    /// The newest backup whose header can be read.
    pub(crate) fn newest(&self) -> BackupResult<Option<Reader>> {
        Ok(self.ids()?.into_iter().rev().find_map(|id| self.reader(&id).ok()))
    }

    pub(crate) fn reader(&self, id: &str) -> BackupResult<Reader> {
        if id.contains('/') {
            return Err(BackupError::Absent(id.to_owned()));
        }
        Reader::open(&self.manifest(id))
    }

    pub(crate) fn manifests(&self) -> PathBuf {
        self.path.join("backups")
    }

    pub(crate) fn manifest(&self, id: &str) -> PathBuf {
        self.manifests().join(format!("{id}.jsonl"))
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.path.join("files")
    }

    pub(crate) fn unfinished(&self) -> PathBuf {
        self.path.join("unfinished")
    }

    /// Where the bytes with a SHA-256 are.
    pub(crate) fn file(&self, sha256: &str) -> PathBuf {
        let shard = sha256.get(..2).unwrap_or_default();
        self.files().join(shard).join(sha256)
    }
}

/// Makes an empty folder of backups. A folder that has something else is left alone.
fn make(path: &Path) -> BackupResult<()> {
    let making = |source| io_error("making", path, source);
    make_folders(path).map_err(making)?;
    let is_ours = |name: &str| ["lock", "backups", "files", "unfinished", FORM_FILE].contains(&name);
    for entry in fs::read_dir(path).map_err(making)? {
        let name = entry.map_err(making)?.file_name();
        if !name.to_str().is_some_and(|name| is_ours(name) || name == "lost+found" || name.starts_with(".penates")) {
            let what = format!("{} has other files: name an empty folder for backups", path.display());
            return Err(BackupError::NoBackups(what));
        }
    }
    for folder in ["backups", "files", "unfinished"] {
        make_folders(&path.join(folder)).map_err(making)?;
    }
    let unfinished = path.join(".penates-backups.unfinished");
    remove(&unfinished)?;
    let mut file = create(&unfinished).map_err(making)?;
    file.write_all(FORM.as_bytes()).and_then(|()| file.sync_all()).map_err(making)?;
    fs::rename(&unfinished, path.join(FORM_FILE)).map_err(making)?;
    sync_folder(path)
}

fn lock(path: &Path, access: Access) -> BackupResult<Option<File>> {
    let path = path.join("lock");
    let locking = |source| io_error("locking", &path, source);
    let file = match create_or_open(&path) {
        Ok(file) => file,
        Err(error) if access == Access::Read && is_read_only(&error) => return Ok(None),
        Err(source) => return Err(locking(source)),
    };
    let locked = if access == Access::Delete { file.try_lock() } else { file.try_lock_shared() };
    match locked {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::Error(source)) => Err(locking(source)),
        Err(TryLockError::WouldBlock) if access == Access::Delete => {
            Err(BackupError::Busy("the backups are in use: delete some of them later".to_owned()))
        }
        Err(TryLockError::WouldBlock) => {
            Err(BackupError::Busy("somebody is just deleting backups there: try again".to_owned()))
        }
    }
}

/// Whether an error says that nothing can be written there.
fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}
