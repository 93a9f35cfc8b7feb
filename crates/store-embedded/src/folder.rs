//! The data folder: its lock, its format and its creation.
//!
//! ```text
//! format     name of the format and the store's level, one line
//! lock       locked by the process that has the folder open; says how it was used last
//! db/        for each lane (`text`, `service`) a database of rows, its record, and a list of its
//!            files: see [`crate::opening`]
//! contents/  large contents, one file each, in up to 256 folders by the first byte of their id
//! reserve    disk space that is reserved for the audit: see [`crate::room`]
//! cuts/      copies of all names of files for backups under way: see [`crate::cut`]
//! making/    `format` and `db` while they are made, or what a dead process left of them
//! restoring/ all of this while a backup is restored, or what a dead process left of it
//! ```
//!
//! A store is made within `making` and moved to its place when it is complete: first `db`, then
//! `format`. So whenever the process dies, the next start makes it again or finishes it. A `db`
//! with neither `format` nor `making/format` beside it has lost its own. A `making` or `cuts` with
//! neither `lock` nor `format` nor a database in `db` beside it is somebody else's: `lock` is made
//! first.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use store::{Cut, FormatLevel, Lane, StoreError, StoreResult};

use crate::at_once::at_once;
use crate::cut::folder::clear;
use crate::files::{io_error, sync_folder};
use crate::last_use::{self, COPY_OF_OPEN, LastUse};
use crate::private;

/// The folder in which a backup is restored.
const RESTORING: &str = "restoring";

/// The folder in which a store is made.
const MAKING: &str = "making";

/// Whether a backup was begun to be restored into a folder, and the store is not there yet.
///
/// Errors: the folder cannot be looked into, as that of another user.
pub fn has_unfinished_restore(folder: &Path) -> io::Result<bool> {
    Ok(folder.join(RESTORING).try_exists()? && !folder.join("format").try_exists()?)
}

/// The name of the format. The number behind it is the store's level.
const FORMAT_NAME: &str = "penates-folder";

/// The name that builds before 0.1.0 wrote, whose numbers are no levels.
const UNRELEASED_NAME: &str = "penates-embedded";

/// A data folder that this process holds until the value is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    level: FormatLevel,
    /// The newest level that this program knows.
    newest: FormatLevel,
    /// The operating system releases the lock if the process is killed.
    lock: File,
    /// What the folder was when it was locked.
    last_use: LastUse,
    /// Whether `lock` says that this process has the folder open.
    is_noted: bool,
}

impl Drop for Folder {
    /// Closing the file would release the lock too, but not while a child process that is just
    /// starting shares it. The databases have ended by now, so no more files are made.
    fn drop(&mut self) {
        self.close_to_others();
        if self.is_noted {
            let databases = Lane::ALL.map(|lane| (lane, self.database(lane)));
            let lanes = databases.iter().map(|(lane, database)| (*lane, database.as_path()));
            if let Err(error) = last_use::closed(&self.lock, lanes) {
                tracing::warn!(%error, folder = %self.path.display(), "copies of the data folder will be refused");
            }
        }
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, folder = %self.path.display(), "the lock of the data folder could not be released");
        }
    }
}

impl Folder {
    /// Locks a folder, makes a store of the newest level in it if there is none, and checks its
    /// format before anything else is opened. `make` makes the database of a lane, those of all lanes
    /// at the same time.
    ///
    /// Errors: [`StoreError::Invalid`] if no process ever made a store there, and the folder has
    /// something that a store would delete.
    pub(crate) fn hold(
        path: &Path,
        newest: FormatLevel,
        make: impl Fn(&Path, Lane) -> StoreResult<()> + Sync,
    ) -> StoreResult<Self> {
        private::create_folders(path).map_err(|source| io_error("making the data folder", path, source))?;
        refuse_foreign(path)?;
        // A folder that is refused stays as it is.
        recorded_level(path, newest)?;
        let mut folder = Self::locked(path, newest)?;
        folder.finish_making()?;
        clear(path);
        match recorded_level(path, newest)? {
            Some(level) => folder.level = level,
            None => folder.make(make)?,
        }
        folder.forget_restore()?;
        folder.close_to_others();
        Ok(folder)
    }

    /// Locks a folder, unless it is a copy that mixes moments.
    fn locked(path: &Path, newest: FormatLevel) -> StoreResult<Self> {
        let lock = lock(path)?;
        let last_use = LastUse::read(&lock).map_err(|source| io_error("reading the lock of", path, source))?;
        if last_use == LastUse::CopyOfOpen {
            let detail = format!(
                "{COPY_OF_OPEN} when it was copied, so its files are of different moments. Restore a backup (penates \
                 backup), or stop the process and copy again. If nothing can have changed while it was copied, because \
                 its server had died, delete the file `lock` in the copy"
            );
            return Err(StoreError::Unreadable { location: path.display().to_string(), detail });
        }
        Ok(Self { path: path.to_path_buf(), level: newest, newest, lock, last_use, is_noted: false })
    }

    /// Notes in the folder that a process has it open, once the checks refuse nothing in it: a folder
    /// that they refuse stays as it was, and a copy among them is refused the next time too.
    pub(crate) fn note_open(&mut self) -> StoreResult<()> {
        last_use::opened(&self.lock).map_err(|source| io_error("writing the lock of", &self.path, source))?;
        self.is_noted = true;
        Ok(())
    }

    /// What the folder was when it was locked.
    pub(crate) fn last_use(&self) -> &LastUse {
        &self.last_use
    }

    /// Locks a folder that has a store.
    pub(crate) fn hold_made(path: &Path, newest: FormatLevel) -> StoreResult<Self> {
        Self::look_at_level(path, newest)?;
        let mut folder = Self::locked(path, newest)?;
        folder.level = Self::look_at_level(path, newest)?;
        Ok(folder)
    }

    /// The level of the store in a folder that any process may hold.
    pub(crate) fn look_at_level(path: &Path, newest: FormatLevel) -> StoreResult<FormatLevel> {
        recorded_level(path, newest)?.ok_or_else(|| {
            let detail = "there is no store in it".to_owned();
            StoreError::Unreadable { location: path.display().to_string(), detail }
        })
    }

    /// The level of a folder to be salvaged; `None`: its `format` cannot be read. Refuses a folder
    /// that holds no database, or that has another format.
    pub(crate) fn salvageable(path: &Path) -> StoreResult<Option<FormatLevel>> {
        if !path.join("db").is_dir() {
            let detail = "there is no database in it".to_owned();
            return Err(StoreError::Unreadable { location: path.display().to_string(), detail });
        }
        let found = fs::read(path.join("format")).unwrap_or_default();
        let found = String::from_utf8_lossy(&found);
        match number_behind(FORMAT_NAME, &found).or(number_behind(UNRELEASED_NAME, &found)) {
            Some(_) => level_of(path, &found, FormatLevel::NEWEST).map(Some),
            None => Ok(None),
        }
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the database of a lane.
    pub(crate) fn database(&self, lane: Lane) -> PathBuf {
        self.databases().join(lane.name())
    }

    fn databases(&self) -> PathBuf {
        self.path.join("db")
    }

    /// The path of the large contents.
    pub(crate) fn contents(&self) -> PathBuf {
        self.path.join("contents")
    }

    fn format(&self) -> PathBuf {
        self.path.join("format")
    }

    fn making(&self) -> PathBuf {
        self.path.join(MAKING)
    }

    fn restoring(&self) -> PathBuf {
        self.path.join(RESTORING)
    }

    /// The store's level.
    pub(crate) fn level(&self) -> FormatLevel {
        self.level
    }

    /// Raises the level by one. Afterwards earlier programs refuse the folder.
    pub(crate) fn raise(&mut self) -> StoreResult<()> {
        let (format, next) = (self.format(), self.level.next());
        write_whole(&format, format_line(next).as_bytes()).map_err(|source| io_error("writing", &format, source))?;
        sync_folder(&self.path)?;
        self.level = next;
        Ok(())
    }

    /// Makes a store in a folder that has none. A database without a format is not ours, or has
    /// lost it: it is not changed.
    fn make(&self, make: impl Fn(&Path, Lane) -> StoreResult<()> + Sync) -> StoreResult<()> {
        if self.databases().exists() {
            return Err(another_format(&self.path, "unknown (there is no `format` file)", self.newest));
        }
        if self.restoring().exists() {
            let detail = "a restore into it did not finish: repeat its command (penates backup restore), or delete the \
                          folder";
            return Err(StoreError::Unreadable {
                location: self.path.display().to_string(),
                detail: detail.to_owned(),
            });
        }
        let making = self.making();
        let databases = making.join("db");
        for folder in [&self.contents(), &databases] {
            private::create_folders(folder).map_err(|source| io_error("making", folder, source))?;
        }
        // Each is mostly waiting for syncs.
        at_once(Lane::ALL.map(|lane| (lane, ())), |lane, ()| make(&databases.join(lane.name()), lane))?;
        sync_folder(&databases)?;
        let format = making.join("format");
        write_whole(&format, format_line(self.newest).as_bytes())
            .map_err(|source| io_error("writing", &format, source))?;
        sync_folder(&making)?;
        move_to(&databases, &self.databases())?;
        sync_folder(&self.path)?;
        self.finish_making()
    }

    /// Handles what a process left that died while it made a store: a complete store is finished,
    /// anything else is deleted.
    fn finish_making(&self) -> StoreResult<()> {
        let making = self.making();
        if !making.exists() {
            return Ok(());
        }
        let format = making.join("format");
        if format.exists() && !making.join("db").exists() && self.databases().exists() {
            move_to(&format, &self.format())?;
            sync_folder(&self.path)?;
        }
        fs::remove_dir_all(&making).map_err(|source| io_error("removing", &making, source))
    }

    /// Deletes what a restore left that died after it put the store in its place. A later restore
    /// would take the databases for its own if `format` were lost.
    fn forget_restore(&self) -> StoreResult<()> {
        let restoring = self.restoring();
        match fs::remove_dir_all(&restoring) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|source| io_error("removing", &restoring, source)),
        }
    }

    /// Nobody else on this machine may read the folder; others ask the server. fjall makes its
    /// files with the default modes of the process, so they are closed here. Nobody can reach them
    /// in any case.
    fn close_to_others(&self) {
        let closed = private::close(&self.path);
        match closed.and_then(|was_open| private::close_all(&self.databases()).map(|()| was_open)) {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                folder = %self.path.display(),
                "other users of this machine could look into the data folder; now only its owner can (0700)"
            ),
            Err(error) => tracing::warn!(
                %error,
                folder = %self.path.display(),
                "other users of this machine can look into the data folder: close it to them"
            ),
        }
    }
}

/// Refuses a folder in which no process made a store, if it has a folder whose contents a store
/// would delete as leftovers of its own.
fn refuse_foreign(path: &Path) -> StoreResult<()> {
    let is_there = |name: &&str| fs::symlink_metadata(path.join(name)).is_ok();
    // These first: a process that makes a store makes its lock before them.
    let foreign: Vec<&str> = [MAKING, Cut::FOLDER].into_iter().filter(is_there).collect();
    // Others name a folder `db` too.
    let has_database = || Lane::ALL.iter().any(|lane| path.join("db").join(lane.name()).is_dir());
    if foreign.is_empty() || ["lock", "format"].iter().any(is_there) || has_database() {
        return Ok(());
    }
    let (folder, names) = (path.display(), foreign.join("` and `"));
    Err(StoreError::Invalid(format!(
        "{folder} has no store, but it has `{names}`, which a store there would delete: name another folder, or rename \
         what is there"
    )))
}

fn another_format(folder: &Path, found: &str, newest: FormatLevel) -> StoreError {
    let found = found.trim_end().chars().take(80).collect();
    let expected = match newest {
        FormatLevel::FIRST => format!("{FORMAT_NAME} {newest}"),
        _ => format!("{FORMAT_NAME} {} to {newest}", FormatLevel::FIRST),
    };
    StoreError::Format { location: folder.display().to_string(), found, expected }
}

/// The level that the file `format` says; `None`: there is no such file. Fails for a level above
/// `newest`.
fn recorded_level(folder: &Path, newest: FormatLevel) -> StoreResult<Option<FormatLevel>> {
    let format = folder.join("format");
    match fs::read(&format) {
        Ok(found) => level_of(folder, &String::from_utf8_lossy(&found), newest).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("reading the format", &format, error)),
    }
}

/// The level that the text of the file `format` says. Fails for a level above `newest`.
fn level_of(folder: &Path, found: &str, newest: FormatLevel) -> StoreResult<FormatLevel> {
    if number_behind(UNRELEASED_NAME, found).is_some() {
        return Err(StoreError::Unreleased { location: folder.display().to_string() });
    }
    let level = number_behind(FORMAT_NAME, found).and_then(FormatLevel::of_number).filter(|level| *level <= newest);
    level.ok_or_else(|| another_format(folder, found, newest))
}

/// The text of the file `format`.
fn format_line(level: FormatLevel) -> String {
    format!("{FORMAT_NAME} {level}\n")
}

/// The number behind the name of a format.
fn number_behind(name: &str, format: &str) -> Option<u32> {
    format.trim_end().strip_prefix(name)?.strip_prefix(' ')?.parse().ok()
}

fn lock(folder: &Path) -> StoreResult<File> {
    let path = folder.join("lock");
    let file = private::open_or_create(&path).map_err(|source| io_error("opening", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Held { folder: folder.display().to_string() }),
        Err(TryLockError::Error(source)) => Err(io_error("locking", &path, source)),
    }
}

/// Writes a small file so that it is there whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    let mut file = private::create(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

fn move_to(from: &Path, to: &Path) -> StoreResult<()> {
    fs::rename(from, to).map_err(|source| io_error("moving to its place", from, source))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Makes only the folder.
    fn hold(folder: &Path) -> StoreResult<Folder> {
        Folder::hold(folder, FormatLevel::NEWEST, |path, _| {
            fs::create_dir(path).map_err(|source| io_error("making", path, source))
        })
    }

    #[test]
    fn the_databases_of_all_lanes_are_made_at_the_same_time() {
        let (folder, begun) = (tempfile::tempdir().unwrap(), AtomicUsize::new(0));
        let make = |path: &Path, _: Lane| {
            begun.fetch_add(1, Ordering::SeqCst);
            let since = Instant::now();
            while begun.load(Ordering::SeqCst) < Lane::ALL.len() {
                assert!(since.elapsed() < Duration::from_secs(60), "one waits for another");
                thread::yield_now();
            }
            fs::create_dir(path).map_err(|source| io_error("making", path, source))
        };
        let held = Folder::hold(folder.path(), FormatLevel::NEWEST, make).unwrap();
        assert!(Lane::ALL.iter().all(|lane| held.database(*lane).is_dir()));
    }

    #[test]
    fn a_second_holder_is_refused_because_the_folder_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let held = hold(folder.path()).unwrap();
        assert!(matches!(hold(folder.path()), Err(StoreError::Held { .. })));
        drop(held);
        hold(folder.path()).unwrap();
    }

    /// A folder with this format, and with what an open folder may have besides.
    fn of_format(line: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["making/db", "cuts/1", "db/text", "restoring"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("format"), line).unwrap();
        folder
    }

    /// The names of all that is in a folder, and the contents of its files.
    fn everything(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(everything(&path));
            }
            found.push((path.clone(), fs::read(&path).ok()));
        }
        found.sort();
        found
    }

    #[test]
    fn a_newer_level_is_named_in_the_error_and_nothing_is_changed() {
        for line in ["penates-folder 2\n", "penates-folder 0\n", "penates-folder\n", "another 1\n"] {
            let folder = of_format(line);
            let before = everything(folder.path());
            let error = hold(folder.path()).unwrap_err();
            assert!(matches!(error, StoreError::Format { .. }));
            assert!(error.to_string().contains(line.trim_end()), "{error}");
            assert!(everything(folder.path()) == before, "something was changed");
        }
    }

    /// Their numbers were 1 to 12.
    #[test]
    fn a_folder_of_a_build_before_the_first_release_is_refused_and_nothing_in_it_is_changed() {
        for number in 1..=12 {
            let folder = of_format(&format!("penates-embedded {number}\n"));
            let before = everything(folder.path());
            let opened = hold(folder.path()).map(drop);
            let raised = Folder::hold_made(folder.path(), FormatLevel::NEWEST).map(drop);
            let looked_at = Folder::look_at_level(folder.path(), FormatLevel::NEWEST).map(drop);
            let salvaged = Folder::salvageable(folder.path()).map(drop);
            for refused in [opened, raised, looked_at, salvaged] {
                let refused = refused.unwrap_err();
                assert!(matches!(refused, StoreError::Unreleased { .. }), "{refused}");
                assert!(refused.to_string().contains("written by a build before 0.1.0"), "{refused}");
            }
            assert!(everything(folder.path()) == before, "something was changed");
        }
    }

    #[test]
    fn a_database_without_a_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("db")).unwrap();
        assert!(matches!(hold(folder.path()), Err(StoreError::Format { .. })));
        assert!(folder.path().join("db").is_dir());
    }

    #[test]
    fn a_folder_without_a_store_keeps_what_has_the_name_of_a_part_of_a_store() {
        let dumps = Some("db/dumps");
        for (name, other) in [(MAKING, None), (Cut::FOLDER, None), (MAKING, dumps), (Cut::FOLDER, dumps)] {
            let folder = tempfile::tempdir().unwrap();
            let mine = folder.path().join(name).join("mine");
            fs::create_dir_all(&mine).unwrap();
            fs::write(mine.join("notes.txt"), "mine").unwrap();
            let other = other.map(|other| folder.path().join(other));
            other.iter().for_each(|other| fs::create_dir_all(other).unwrap());
            let refused = hold(folder.path()).unwrap_err();
            assert!(matches!(&refused, StoreError::Invalid(what) if what.contains(name)), "{refused}");
            assert_eq!(fs::read_to_string(mine.join("notes.txt")).unwrap(), "mine");
            assert!(other.iter().all(|other| other.is_dir()));
            let found = fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(found, 1 + other.iter().count(), "something was made there");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_looked_into_is_not_one_without_a_restore() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_unfinished_restore(&folder.path().join("missing")).unwrap());
        fs::create_dir(folder.path().join(RESTORING)).unwrap();
        assert!(has_unfinished_restore(folder.path()).unwrap());
        // Root may look everywhere, but nobody looks into a file.
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        has_unfinished_restore(&file).unwrap_err();
    }

    #[test]
    fn a_store_whose_making_was_interrupted_is_made_again_or_finished() {
        let whole = |folder: &Path| {
            assert!(Lane::ALL.iter().all(|lane| folder.join("db").join(lane.name()).is_dir()));
            assert_eq!(fs::read_to_string(folder.join("format")).unwrap(), format_line(FormatLevel::NEWEST));
            assert!(!folder.join("making").exists());
        };
        // The maker dies with the second lane, and then with half of the format written.
        for file in ["db/text/0.jnl", "format.unfinished", "format"] {
            let folder = tempfile::tempdir().unwrap();
            // The lock is the first file that a maker makes.
            fs::write(folder.path().join("lock"), "").unwrap();
            fs::create_dir_all(folder.path().join("making/db/text")).unwrap();
            fs::write(folder.path().join("making").join(file), "half").unwrap();
            hold(folder.path()).unwrap();
            whole(folder.path());
            assert!(!folder.path().join("db/text/0.jnl").exists(), "a half is taken for a whole");
        }
        // `db` is in its place.
        let folder = tempfile::tempdir().unwrap();
        hold(folder.path()).unwrap();
        fs::create_dir(folder.path().join("making")).unwrap();
        fs::rename(folder.path().join("format"), folder.path().join("making/format")).unwrap();
        fs::write(folder.path().join("db/text/kept"), "").unwrap();
        hold(folder.path()).unwrap();
        whole(folder.path());
        assert!(folder.path().join("db/text/kept").exists());
        // Everything is in its place.
        fs::create_dir(folder.path().join("making")).unwrap();
        hold(folder.path()).unwrap();
        whole(folder.path());
    }
}
