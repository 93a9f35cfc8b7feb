//! A store that this process opens itself.

use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use library::Library;
use store::copying;
use store::limited::Limited;
use store::read_only::ReadOnlyGate;
use store::{Limits, Store, StoreError, StoreResult, SystemClock};
use store_cassandra::{CassandraOptions, CassandraStore};
use store_embedded::{EmbeddedOptions, EmbeddedStore};

use crate::cli::StoreArgs;
use crate::exit::CliError;
use crate::loading::LoadMark;
use crate::settings::{self, Flags, Settings, StoreLocation};

/// How often a process checks whether a shared store has become read-only.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// How long a store is assumed to be writable while it cannot be checked.
const LOOK_TRUSTED: Duration = Duration::from_secs(10);

/// How long processes that share a store may take to learn that it is read-only, or where its heads
/// have their home, and to end the changes that they have begun.
pub const OTHERS_LEARN_WITHIN: Duration = Duration::from_secs(35);

/// How long changes may wait for their sync while a folder is loaded. A load that is repeated makes
/// again what a power failure undid.
const LOAD_SYNC_DELAY: Duration = Duration::from_secs(1);

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
            let (source, location) = (mark.source, folder.display().to_string());
            let detail = format!(
                "it is an unfinished load of {source}; `penates load {source} --store {location}` continues it, or delete the \
                 folder to abandon it"
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
    let options = EmbeddedOptions { sync_delay, ..settings.embedded.options(settings.server.limits.memory) };
    let opening = move || EmbeddedStore::open(&folder, options, Arc::new(SystemClock));
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

/// Whether there is a store in a folder, perhaps a damaged one.
pub fn has_store(folder: &Path) -> bool {
    ["format", "db"].iter().any(|name| folder.join(name).exists())
}

/// Why a folder has no store, with what makes one.
pub fn no_store(folder: &Path, maker: &str) -> CliError {
    let shown = folder.display();
    CliError::Unreachable(match store_embedded::has_unfinished_restore(folder) {
        true => format!("a restore into {shown} did not finish: repeat its command (penates backup restore)"),
        false => format!("there is no store in {shown}: is its disk mounted? {maker}"),
    })
}

/// Refuses a folder without a store, for a command that makes none.
pub fn require_store(folder: &Path) -> Result<(), CliError> {
    match has_store(folder) {
        true => Ok(()),
        false => Err(no_store(folder, "--store names another folder, and `penates init` makes a store")),
    }
}

/// Refuses a folder without a store, for a server. A disk that is not mounted must not look like an
/// empty library.
pub fn refuse_without_store(settings: &Settings) -> anyhow::Result<()> {
    match settings.place() {
        StoreLocation::Folder(folder) if !has_store(folder) => {
            let maker = format!("`penates init --store {}` makes a new one", folder.display());
            Err(no_store(folder, &maker).into())
        }
        _ => Ok(()),
    }
}

/// Whether a folder is empty or missing: no store was ever made there.
pub fn is_vacant(folder: &Path) -> bool {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
