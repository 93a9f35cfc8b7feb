//! A folder of backups: its form, its locks and its backups.

use std::ffi::OsStr;
use std::fs::{self, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{BackupError, BackupResult, io_error};
use crate::file::{create, create_or_open, make_folders, remove, require_folder, sync_folder};
use crate::lock::Lock;
use crate::manifest::{Reader, Summary};

/// The file that says what the folder is.
const FORM_FILE: &str = "penates-backups";

/// What it says.
const FORM: &str = "penates-backup-folder 1\n";

/// How it begins in a folder of a build before 0.1.0.
const UNRELEASED: &str = "penates-backups ";

/// The extension of files that were set aside.
pub(crate) const SET_ASIDE: &str = "damaged";

/// The file in the folder `unfinished` that a backup under way copies to.
pub(crate) const COPIED: &str = "copied";

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
    _lock: Option<Lock>,
}

impl Backups {
    /// Opens a folder of backups.
    ///
    /// Errors: [`BackupError::NoBackups`] if it is none, if a later program has made it, or if it
    /// has a link in the place of a folder in which files are made or deleted;
    /// [`BackupError::Unreleased`] if a build before 0.1.0 has made it;
    /// [`BackupError::Busy`] if somebody deletes backups, or if backups are to be deleted that
    /// somebody uses.
    pub fn open(path: &Path, access: Access) -> BackupResult<Self> {
        let form = path.join(FORM_FILE);
        match fs::read_to_string(&form) {
            Ok(found) if found == FORM => {}
            Ok(found) if found.starts_with(UNRELEASED) => {
                return Err(BackupError::Unreleased(format!("the backups in {} were", path.display())));
            }
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
        let opened = Self { path: path.to_path_buf(), _lock: lock(path, access)? };
        if access != Access::Read {
            [opened.manifests(), opened.files(), opened.unfinished()]
                .iter()
                .try_for_each(|path| require_folder(path))?;
        }
        Ok(opened)
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
        ids.sort_unstable_by(|one, other| order_of(one).cmp(&order_of(other)).then_with(|| one.cmp(other)));
        Ok(ids)
    }

    /// Refuses what takes the newest backup for the last one if that is of a later time than `now`,
    /// the id that a backup of this moment has: the clock is wrong, or was then.
    ///
    /// Errors: [`BackupError::Clock`].
    pub fn require_order(&self, now: &str) -> BackupResult<()> {
        match self.ids()?.pop() {
            Some(newest) if order_of(&newest).0 > order_of(now).0 => {
                Err(BackupError::Clock { newest, now: now.to_owned() })
            }
            _ => Ok(()),
        }
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

/// What backups are ordered by: the time in an id, and the number among those of the same second.
pub(crate) fn order_of(id: &str) -> (&str, u64) {
    match id.split_once('-') {
        Some((time, number)) => (time, number.parse().unwrap_or(0)),
        None => (id, 1),
    }
}

/// Whether a backup under way makes files with such a name in the folder `unfinished`.
pub(crate) fn is_left_behind(name: &OsStr) -> bool {
    name == "lock" || name == COPIED || is_description(name)
}

/// Whether a name is that of the description of a backup.
pub(crate) fn is_description(name: &OsStr) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "jsonl")
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

fn lock(path: &Path, access: Access) -> BackupResult<Option<Lock>> {
    let path = path.join("lock");
    let locking = |source| io_error("locking", &path, source);
    let file = match create_or_open(&path) {
        Ok(file) => file,
        Err(error) if access == Access::Read && is_read_only(&error) => return Ok(None),
        Err(source) => return Err(locking(source)),
    };
    let locked = if access == Access::Delete { file.try_lock() } else { file.try_lock_shared() };
    match locked {
        Ok(()) => Ok(Some(Lock::of(file))),
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
