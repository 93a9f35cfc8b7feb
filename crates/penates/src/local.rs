//! A store that this process opens itself.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use budget::usable_memory;
use library::Library;
use rustix::process::geteuid;
use server::config::Config;
use store::copying;
use store::limited::Limited;
use store::read_only::ReadOnlyGate;
use store::{Limits, Store, StoreError, StoreResult, SystemClock};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::cassandra::{CassandraOptions, CassandraStore};
use crate::cli::StoreArgs;
use crate::exit::CliError;
use crate::loading::{self, LoadMark};
use crate::settings::{self, Flags, Settings, StoreLocation};

/// How often a process checks whether a shared store has become read-only.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// How long a store is assumed to be writable while it cannot be checked.
const LOOK_TRUSTED: Duration = Duration::from_secs(10);

/// How long processes that share a store may take to learn that it is read-only, or where its heads
/// have their home. Nodes may apply what was sent by then for some seconds more.
const LEARN_WITHIN: Duration = Duration::from_secs(25);

/// The time limit of changes that no setting limits, those of tokens for example.
const FIXED_LIMIT: Duration = Duration::from_secs(10);

/// How long changes may wait for their sync while a folder is loaded. A load that is repeated makes
/// again what a power failure undid.
const LOAD_SYNC_DELAY: Duration = Duration::from_secs(1);

/// The folder that a new file system has.
const LOST_AND_FOUND: &str = "lost+found";

/// The file that a process locks that has a data folder open. It is made before all others.
const LOCK: &str = "lock";

/// What is in a data folder in which a process died while it made a store.
const HALF_MADE: [&str; 5] = [LOCK, "contents", "making", LOST_AND_FOUND, loading::PART];

/// How long processes that share a store may take to learn that it is read-only, or where its heads
/// have their home, and to end the changes that they have begun. They have the same settings as
/// this process.
pub fn others_learn_within(settings: &Settings) -> Duration {
    let Config { store, records, .. } = &settings.server;
    let limits = [FIXED_LIMIT, store.call_timeout, records.deadline, records.deadline_max];
    LEARN_WITHIN + limits.into_iter().max().unwrap_or_default()
}

/// Opens the configured store. In an empty folder it makes one. A read-only store refuses changes.
/// An unfinished copy is not opened, because it looks like a library that has lost most of its
/// data.
pub async fn open_store(settings: &Settings) -> StoreResult<Arc<dyn Store>> {
    let store = open_gated(settings, Duration::ZERO).await?;
    match finished_load(settings) {
        Ok(None) => {}
        Ok(Some(folder)) => LoadMark::remove(folder).map_err(|error| unreadable_mark(folder, &error))?,
        Err(error) => {
            store.close().await?;
            return Err(error);
        }
    }
    Ok(store)
}

/// The folder with the mark of a finished load, if there is one. An unfinished one is refused.
fn finished_load(settings: &Settings) -> StoreResult<Option<&Path>> {
    let StoreLocation::Folder(folder) = settings.place() else { return Ok(None) };
    match LoadMark::find(folder).map_err(|error| unreadable_mark(folder, &error))? {
        None => Ok(None),
        Some(mark) if mark.is_finished => Ok(Some(folder)),
        Some(mark) => {
            let (source, location, or_abandon) = (&mark.source, folder.display().to_string(), mark.or_abandon());
            let detail = format!(
                "it is an unfinished load of {source}; `penates load {source} --store {location}` continues it{or_abandon}"
            );
            Err(StoreError::Unreadable { location, detail })
        }
    }
}

fn unreadable_mark(folder: &Path, error: &io::Error) -> StoreError {
    StoreError::Unreadable { location: folder.display().to_string(), detail: error.to_string() }
}

/// The same for a load, which leaves a mark there.
pub async fn open_store_of_loads(settings: &Settings) -> StoreResult<Arc<dyn Store>> {
    open_gated(settings, LOAD_SYNC_DELAY).await
}

async fn open_gated(settings: &Settings, sync_delay: Duration) -> StoreResult<Arc<dyn Store>> {
    let store = open_engine(settings, sync_delay).await?;
    if let Some(origin) = copying::unfinished(store.as_ref()).await? {
        store.close().await?;
        return Err(unfinished_copy(settings, &origin));
    }
    let gate = Arc::new(ReadOnlyGate::new(store).await?);
    if gate.capabilities().is_shared {
        tokio::spawn(keep_looking(Arc::downgrade(&gate)));
    }
    Ok(gate)
}

/// Why an unfinished copy is not opened, and what to do about it.
pub fn unfinished_copy(settings: &Settings, origin: &str) -> StoreError {
    let (location, remove) = match settings.place() {
        StoreLocation::Folder(folder) => (folder.display().to_string(), "delete the folder"),
        StoreLocation::Cluster(address) => (address.to_owned(), "drop the keyspace"),
    };
    let detail = format!(
        "it is an unfinished copy of {origin}; `penates copy --from {origin} --to {location}` continues it, or {remove} to abandon it"
    );
    StoreError::Unreadable { location, detail }
}

/// Checks regularly whether a shared store has become read-only, as long as it is open. A store
/// that cannot be checked may have.
async fn keep_looking(gate: Weak<ReadOnlyGate>) {
    let mut looked_at = Instant::now();
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let Some(gate) = gate.upgrade() else { return };
        match gate.look().await {
            Ok(()) => looked_at = Instant::now(),
            Err(_) if looked_at.elapsed() > LOOK_TRUSTED => gate.close_until_known().await,
            Err(_) => {}
        }
    }
}

/// Opens the configured store for a copy or a backup, which may write where others may not. A copy of
/// an unfinished load would look like a whole store.
pub async fn open_ungated(settings: &Settings) -> StoreResult<Arc<dyn Store>> {
    let store = open_engine(settings, Duration::ZERO).await?;
    if let Err(error) = finished_load(settings) {
        store.close().await?;
        return Err(error);
    }
    Ok(store)
}

/// Opens the engine. In a folder changes may wait so long for their sync.
async fn open_engine(settings: &Settings, sync_delay: Duration) -> StoreResult<Arc<dyn Store>> {
    let engine: Arc<dyn Store> = match settings.place() {
        StoreLocation::Folder(folder) => open_folder(folder, settings, sync_delay).await?,
        StoreLocation::Cluster(address) => {
            let options = settings.cassandra.options(address, settings.server.store.clock_skew_max)?;
            CassandraStore::open(options, Arc::new(SystemClock)).await?
        }
    };
    Ok(Arc::new(Limited::new(engine, Limits::default())))
}

async fn open_folder(folder: &Path, settings: &Settings, sync_delay: Duration) -> StoreResult<Arc<EmbeddedStore>> {
    let folder = folder.to_owned();
    let usable = usable_memory();
    let options = settings.embedded.options(settings.server.limits.memory_bytes(usable), usable);
    let options = EmbeddedOptions { sync_delay, ..options };
    let opening = move || {
        refuse_root(&folder)?;
        EmbeddedStore::open(&folder, options, Arc::new(SystemClock))
    };
    let store = tokio::task::spawn_blocking(opening).await;
    store.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// The library in a store.
pub async fn open_library(settings: &Settings, store: Arc<dyn Store>) -> anyhow::Result<Library> {
    Ok(Library::open(store, Arc::new(SystemClock), settings.server.library_options()).await?)
}

/// How to open the configured store, for a command that needs a cluster: only a store there does
/// what `only_there` says.
pub fn cassandra_options(args: &StoreArgs, only_there: &str) -> anyhow::Result<CassandraOptions> {
    let settings = settings::load(args, Flags::of(args)?)?.settings;
    let StoreLocation::Cluster(address) = settings.place() else {
        let folder = settings.path.display();
        let why = format!("{folder} is a folder: only a store in a Cassandra cluster {only_there}");
        return Err(CliError::Usage(why).into());
    };
    let options = settings.cassandra.options(address, settings.server.store.clock_skew_max);
    options.map_err(cannot_open)
}

/// Why a store cannot be opened, with the exit code for it.
pub fn cannot_open(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Held { .. } => {
            let hint = "stop that, or name another folder with --store";
            CliError::Unreachable(format!("{error} (a server, perhaps): {hint}")).into()
        }
        StoreError::Invalid(what) => CliError::Usage(what).into(),
        // What can be read of it is of different moments.
        StoreError::Unreadable { .. } if store_embedded::is_refused_copy(&error) => {
            CliError::Unreachable(format!("{error}\nNothing was changed.")).into()
        }
        StoreError::Unreadable { .. } => {
            let hint = "Nothing was changed. Put back what is missing from a backup of the whole folder, or copy what can be \
                        read into a new store: penates salvage --store OLD --to NEW";
            CliError::Unreachable(format!("{error}\n{hint}")).into()
        }
        error => CliError::Unreachable(error.to_string()).into(),
    }
}

/// Refuses root in a data folder of another user: root would leave files there that its owner cannot
/// open. A store belongs to the owner of its lock. Where there is no store yet, the folder says whose
/// it is to be; where there is no folder yet, the one around it does, if nobody else may enter that.
///
/// Errors: [`StoreError::Held`] if another process holds the folder: a server then does the work as its
/// own user; otherwise [`StoreError::Invalid`].
pub fn refuse_root(folder: &Path) -> StoreResult<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let Some((place, found)) = nearest(folder) else { return Ok(()) };
    let lock = folder.join(LOCK);
    let owner = match fs::metadata(&lock) {
        // Root may have made it in a folder that a container has from its host.
        Ok(lock) => lock.uid(),
        Err(_) if folder.exists() || found.mode() & 0o077 == 0 => found.uid(),
        Err(_) => return Ok(()),
    };
    if owner == 0 {
        return Ok(());
    }
    if UnixStream::connect(folder.join(server::SOCKET_NAME)).is_ok() || is_locked(&lock) {
        return Err(StoreError::Held { folder: folder.display().to_string() });
    }
    match owner_of_new(place) {
        Ok(new) if new == owner => Ok(()),
        _ => Err(StoreError::Invalid(of_another_user(folder, owner, true))),
    }
}

/// A folder, or the nearest one around it that can be looked at.
fn nearest(folder: &Path) -> Option<(&Path, Metadata)> {
    folder.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        fs::metadata(path).ok().map(|found| (path, found))
    })
}

/// Whose the files are that this process makes in a folder. Some file systems give them all to one
/// user, and some those of root.
fn owner_of_new(folder: &Path) -> io::Result<u32> {
    let made = tempfile::Builder::new().prefix(".penates.").suffix(".owner").tempfile_in(folder)?;
    Ok(made.as_file().metadata()?.uid())
}

/// Whether another process has locked a file.
fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Why a data folder is not used, and who can use it. `is_root`: whether this process is root's.
fn of_another_user(folder: &Path, owner: u32, is_root: bool) -> String {
    let name = name_of(owner);
    let how = match (&name, is_root) {
        (Some(name), true) => format!("(runuser -u {name} -- penates ...)"),
        (Some(name), false) => format!("(sudo -u {name} -- penates ...)"),
        (None, true) => format!("(in a container: --user {owner}), or give the folder to root (chown -R)"),
        (None, false) => format!("(in a container: --user {owner})"),
    };
    let owner = name.unwrap_or_else(|| format!("uid {owner}"));
    format!("{} belongs to another user ({owner}): run the command as that user {how}", folder.display())
}

/// The name of a user of this machine; `None` if /etc/passwd does not have it.
fn name_of(user: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse::<u32>() == Ok(user)).then(|| name.to_owned())
    })
}

/// Why a data folder cannot be `used` (written, for example). A folder that this user may not use is
/// another user's, as a rule.
pub fn no_access(folder: &Path, used: &str, error: &io::Error) -> CliError {
    let user = geteuid();
    let owner = nearest(folder).map(|(_, found)| found.uid()).filter(|owner| *owner != user.as_raw());
    CliError::Unreachable(match owner {
        Some(owner) if error.kind() == io::ErrorKind::PermissionDenied => {
            of_another_user(folder, owner, user.is_root())
        }
        _ => format!("the data folder {} cannot be {used}: {error}", folder.display()),
    })
}

/// Why it cannot be known what is in a data folder.
pub fn cannot_look(folder: &Path, error: &io::Error) -> CliError {
    no_access(folder, "looked into", error)
}

/// Whether there is a store in a folder, perhaps a damaged one. A folder that cannot be looked into
/// is an error.
pub fn has_store(folder: &Path) -> Result<bool, CliError> {
    let is_there = |name: &str| folder.join(name).try_exists();
    let found = is_there("format").and_then(|has_format| Ok(has_format || is_there("db")?));
    found.map_err(|error| cannot_look(folder, &error))
}

/// Whether a restore into a folder was begun that has not finished. A folder that cannot be looked
/// into is an error.
pub fn has_unfinished_restore(folder: &Path) -> Result<bool, CliError> {
    store_embedded::has_unfinished_restore(folder).map_err(|error| cannot_look(folder, &error))
}

/// Why a folder has no store, with what makes one.
pub fn no_store(folder: &Path, maker: &str) -> CliError {
    let shown = folder.display();
    match has_unfinished_restore(folder) {
        Ok(true) => CliError::Unreachable(format!(
            "a restore into {shown} did not finish: repeat its command (penates backup restore)"
        )),
        Ok(false) => CliError::Unreachable(format!("there is no store in {shown}: is its disk mounted? {maker}")),
        Err(error) => error,
    }
}

/// Refuses a folder without a store, for a command that makes none.
pub fn require_store(folder: &Path) -> Result<(), CliError> {
    match has_store(folder)? {
        true => Ok(()),
        false => Err(no_store(folder, "--store names another folder, and `penates init` makes a store")),
    }
}

/// Refuses a folder without a store, for a server. A disk that is not mounted must not look like an
/// empty library.
pub fn refuse_without_store(settings: &Settings) -> anyhow::Result<()> {
    let StoreLocation::Folder(folder) = settings.place() else { return Ok(()) };
    match has_store(folder)? {
        true => Ok(()),
        false => {
            let maker = format!("`penates init --store {}` makes a new one", folder.display());
            Err(no_store(folder, &maker).into())
        }
    }
}

/// Refuses to make a new store in a folder if the folder around it is missing: its disk may not be
/// mounted, and the store would come to the disk below. A folder that is there may be used. Whether
/// another disk belongs in its place cannot be known.
pub fn require_place(folder: &Path) -> Result<(), CliError> {
    let around = around(folder);
    match around.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(CliError::Unreachable(format!(
            "there is no folder {} for {}: is its disk mounted? If it is, make that folder first",
            around.display(),
            folder.display()
        ))),
        Err(error) => Err(cannot_look(around, &error)),
    }
}

/// The folder around another one.
pub fn around(folder: &Path) -> &Path {
    folder.parent().filter(|around| !around.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a folder is on another disk than the folder around it. No other folder can then be
/// renamed to it.
pub fn is_mount_point(folder: &Path) -> bool {
    let disk = |path: &Path| fs::metadata(path).map(|found| found.dev());
    matches!((disk(folder), disk(around(folder))), (Ok(own), Ok(other)) if own != other)
}

/// Whether a folder is empty or missing.
pub fn is_empty(folder: &Path) -> bool {
    has_only(folder, &[])
}

/// Whether a folder is missing, or has no more than a new file system has, or than a load leaves that
/// died at its beginning: no store was ever made there.
pub fn is_vacant(folder: &Path) -> bool {
    has_only(folder, &[LOST_AND_FOUND, loading::PART])
}

/// Whether a process died in a folder while it made a store there, or before it loaded something
/// into it. The next process goes on.
pub fn is_half_made(folder: &Path) -> bool {
    let is_marked = || LoadMark::find(folder).is_ok_and(|mark| mark.is_some());
    // A store is made under its lock.
    let is_making = || folder.join(LOCK).exists() && has_only(folder, &HALF_MADE);
    is_marked() || is_making()
}

/// Whether a folder is missing, or has nothing else than this.
fn has_only(folder: &Path, names: &[&str]) -> bool {
    let is_known = |name: &OsStr| names.iter().any(|known| name == *known);
    match fs::read_dir(folder) {
        Ok(mut entries) => entries.all(|entry| entry.is_ok_and(|entry| is_known(&entry.file_name()))),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_is_waited_for_others_as_long_as_their_longest_change_may_take() {
        let seconds = Duration::from_secs;
        for (call_timeout, deadline_max, waited) in [(10, 60, 85), (100, 60, 125), (10, 120, 145), (1, 1, 35)] {
            let mut settings = Settings::default();
            settings.server.store.call_timeout = seconds(call_timeout);
            settings.server.records.deadline_max = seconds(deadline_max);
            assert_eq!(others_learn_within(&settings), seconds(waited));
        }
        assert_eq!(others_learn_within(&Settings::default()), seconds(85));
    }

    #[test]
    fn a_folder_that_cannot_be_looked_into_is_not_one_without_a_store() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_store(&folder.path().join("missing")).unwrap());
        // Root may look everywhere, but nobody looks into a file.
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = has_store(&file).unwrap_err();
        assert!(matches!(&refused, CliError::Unreachable(why) if why.contains("cannot be looked into")), "{refused}");
    }

    #[test]
    fn a_new_store_needs_a_folder_around_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for place in [path, path.join("missing").as_path(), Path::new("data"), Path::new("."), Path::new("/")] {
            require_place(place).unwrap();
        }
        let refused = require_place(&path.join("disk/data")).unwrap_err();
        let expected = format!("there is no folder {} for ", path.join("disk").display());
        assert!(matches!(&refused, CliError::Unreachable(why) if why.starts_with(&expected)), "{refused}");
        assert!(!is_mount_point(path) && !is_mount_point(&path.join("missing")) && is_mount_point(Path::new("/proc")));
    }

    #[test]
    fn a_user_is_named_and_one_without_a_name_has_a_number() {
        let of = |owner, is_root| of_another_user(Path::new("/srv/data"), owner, is_root);
        for (owner, is_root, named, how) in [
            (0, true, "root", "(runuser -u root -- penates ...)"),
            (0, false, "root", "(sudo -u root -- penates ...)"),
            (
                3_999_999_999,
                true,
                "uid 3999999999",
                "(in a container: --user 3999999999), or give the folder to root (chown -R)",
            ),
            (3_999_999_999, false, "uid 3999999999", "(in a container: --user 3999999999)"),
        ] {
            let expected = format!("/srv/data belongs to another user ({named}): run the command as that user {how}");
            assert_eq!(of(owner, is_root), expected);
        }
    }

    #[test]
    fn new_files_belong_to_their_maker_and_a_look_at_that_leaves_none() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(owner_of_new(folder.path()).unwrap(), fs::metadata(folder.path()).unwrap().uid());
        assert!(is_empty(folder.path()));
    }

    #[test]
    fn a_load_that_died_at_its_beginning_begins_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(loading::PART), "{").unwrap();
        assert!(is_vacant(folder.path()));
        assert!(LoadMark::of_load(folder.path(), "/one").unwrap().is_some());
        // Otherwise it has another name than the load gives it.
        assert!(!folder.path().join(loading::PART).exists());
    }

    #[test]
    fn a_new_disk_and_a_store_that_was_being_made_are_not_the_files_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(is_empty(path) && is_vacant(path) && is_empty(&path.join("missing")));
        fs::create_dir(path.join(LOST_AND_FOUND)).unwrap();
        assert!(is_vacant(path) && !is_empty(path) && !is_half_made(path));
        fs::create_dir(path.join("making")).unwrap();
        assert!(!is_vacant(path) && !is_half_made(path), "nobody made a store there");
        fs::write(path.join(LOCK), "").unwrap();
        assert!(is_half_made(path));
        fs::write(path.join("notes.txt"), "").unwrap();
        assert!(!is_half_made(path));
    }
}
