//! The folder of a portal: written beside its place and renamed, or changed in place if an earlier
//! publication wrote it. Files and folders of runs are replaced as a whole.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

use super::PortalError;

/// The file that marks a portal. It holds the form of the other files: what another version wrote is
/// made again.
const MARK: &str = "portal.json";
/// The form that this version writes.
const FORM: &str = "{\"portal\":6}\n";
/// The folder of the runs.
const RUNS: &str = "runs";
/// What begins so is not finished.
const UNFINISHED: &str = ".portal-";

/// The folder of a portal that is being written.
pub(super) struct Folder {
    place: PathBuf,
    /// Where it is written, if there is none yet.
    new: Option<TempDir>,
    /// Nobody else writes a folder that is there already as long as this is open.
    _lock: Option<File>,
}

impl Folder {
    /// Opens the folder of a portal, or begins one if it is missing or empty.
    ///
    /// # Errors
    /// It holds something else than a portal, somebody else writes it, or it cannot be read or written.
    pub(super) fn open(place: &Path) -> Result<Self, PortalError> {
        let lock = lock(place)?;
        let names = names(place)?;
        if names.is_empty() {
            let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            fs::create_dir_all(parent).map_err(failed(parent))?;
            let new = unfinished().permissions(Permissions::from_mode(0o755)).tempdir_in(parent);
            let folder = Self { place: place.to_owned(), new: Some(new.map_err(failed(parent))?), _lock: lock };
            folder.create_runs()?;
            return Ok(folder);
        }
        let is_own = |name: &&String| {
            [MARK, RUNS, "index.html", "runs.json"].contains(&name.as_str()) || name.starts_with(UNFINISHED)
        };
        let is_marked = names.contains(MARK);
        if let Some(other) = names.iter().find(|name| !is_marked || !is_own(name)) {
            return Err(PortalError::Foreign { folder: place.to_owned(), name: other.clone() });
        }
        let folder = Self { place: place.to_owned(), new: None, _lock: lock };
        for name in names.iter().filter(|name| name.starts_with(UNFINISHED)) {
            let path = place.join(name);
            fs::remove_file(&path).map_err(failed(&path))?;
        }
        folder.create_runs()?;
        if fs::read_to_string(place.join(MARK)).ok().as_deref() != Some(FORM) {
            folder.retain_runs(&BTreeSet::new())?;
        }
        Ok(folder)
    }

    fn path(&self) -> &Path {
        self.new.as_ref().map_or(&self.place, TempDir::path)
    }

    fn create_runs(&self) -> Result<(), PortalError> {
        let runs = self.path().join(RUNS);
        fs::create_dir_all(&runs).map_err(failed(&runs))
    }

    /// The folder of a run that an earlier publication may have written.
    pub(super) fn run(&self, id: &str) -> PathBuf {
        self.path().join(RUNS).join(id)
    }

    /// A folder that becomes that of a run by [`Folder::add_run`].
    pub(super) fn begin_run(&self) -> Result<TempDir, PortalError> {
        let runs = self.path().join(RUNS);
        let folder = unfinished().permissions(Permissions::from_mode(0o755)).tempdir_in(&runs);
        folder.map_err(failed(&runs))
    }

    /// Adds or replaces a run.
    pub(super) fn add_run(&self, id: &str, folder: TempDir) -> Result<(), PortalError> {
        let place = self.run(id);
        remove(&place)?;
        fs::rename(folder.path(), &place).map_err(failed(&place))?;
        // It has moved: there is nothing to delete.
        let _ = folder.keep();
        Ok(())
    }

    /// Deletes all other runs.
    pub(super) fn retain_runs(&self, ids: &BTreeSet<&str>) -> Result<(), PortalError> {
        let runs = self.path().join(RUNS);
        let names = names(&runs)?;
        names.iter().filter(|name| !ids.contains(name.as_str())).try_for_each(|name| remove(&runs.join(name)))
    }

    /// Writes or replaces a file.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<(), PortalError> {
        let path = self.path().join(name);
        let written = unfinished()
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(self.path())
            .and_then(|mut file| file.write_all(content).map(|()| file))
            .and_then(|file| Ok(file.persist(&path)?));
        written.map(drop).map_err(failed(&path))
    }

    /// Marks the folder as a portal, and puts a new one in its place.
    pub(super) fn finish(self) -> Result<(), PortalError> {
        self.write(MARK, FORM.as_bytes())?;
        let Some(new) = self.new else { return Ok(()) };
        fs::rename(new.path(), &self.place).map_err(|error| match error.kind() {
            // Another publication has begun later and was ready earlier.
            ErrorKind::DirectoryNotEmpty => PortalError::Busy(self.place.clone()),
            _ => failed(&self.place)(error),
        })?;
        // It has moved: there is nothing to delete.
        let _ = new.keep();
        Ok(())
    }
}

/// Keeps others from writing a folder; `None` if it is missing.
fn lock(place: &Path) -> Result<Option<File>, PortalError> {
    let folder = match File::open(place) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        folder => folder.map_err(failed(place))?,
    };
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => Err(PortalError::Busy(place.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(place)(error)),
    }
}

fn unfinished() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(UNFINISHED);
    builder
}

/// The names in a folder; none if it is missing.
fn names(folder: &Path) -> Result<BTreeSet<String>, PortalError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.map_err(failed(folder))?,
    };
    let name = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name().to_string_lossy().into_owned());
    entries.map(name).collect::<Result<_, _>>().map_err(failed(folder))
}

fn remove(folder: &Path) -> Result<(), PortalError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(folder)(error)),
        _ => Ok(()),
    }
}

pub(super) fn failed(path: &Path) -> impl FnOnce(io::Error) -> PortalError {
    |error| PortalError::Io { path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn one_publication_at_a_time_writes_a_folder() {
        let parent = tempfile::tempdir().unwrap();
        let place = parent.path().join("portal");
        // Two begin a new folder: the first that is ready has it.
        let (one, two) = (Folder::open(&place).unwrap(), Folder::open(&place).unwrap());
        one.finish().unwrap();
        assert!(matches!(two.finish(), Err(PortalError::Busy(folder)) if folder == place));
        // Two go on with one that is there.
        let one = Folder::open(&place).unwrap();
        let run = one.begin_run().unwrap();
        assert!(matches!(Folder::open(&place), Err(PortalError::Busy(_))));
        assert!(run.path().exists());
        drop(run);
        one.finish().unwrap();
        Folder::open(&place).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
