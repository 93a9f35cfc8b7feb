//! How a command reaches the data: through a server elsewhere, through the server that holds the
//! store, or in the store itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use server::config::ListenAddress;
use server::{App, Via};
use store::{Clock, ManualClock, Store, StoreError, StoreResult};
use tokio::net::UnixStream;

use crate::cli::{ReachArgs, StoreArgs, WriteArgs};
use crate::client::Client;
use crate::exit::CliError;
use crate::loading::LoadMark;
use crate::local;
use crate::settings::{self, Flags, Loaded, Settings, StoreLocation};

/// How long a process that holds the store may take to release it, or to respond at its socket: it
/// may just be starting or ending.
const HOLDER_PATIENCE: Duration = Duration::from_secs(5);

/// The pause between two looks at a held store.
const HOLDER_PAUSE: Duration = Duration::from_millis(50);

/// How long a command may take to open a store without a word.
const SILENT_MAX: Duration = Duration::from_secs(5);

/// How a command that writes makes a store.
const INIT: &str = "--init makes a new one";

/// How it makes one in a folder that has other files.
const INIT_BESIDE: &str = "It has other files, and --init makes a store beside them";

/// What to do if there is no store yet.
#[derive(Clone, Copy, Debug)]
enum IfVacant {
    /// Make one.
    Create,
    /// Make one in the default folder, unless that has other files, and report it elsewhere: a
    /// folder that somebody has named may be a disk that is not mounted. A second store there would
    /// look like a library that has lost its data.
    CreateDefault,
    /// Report it.
    Refuse,
}

impl IfVacant {
    fn of(args: &WriteArgs) -> Self {
        if args.init { Self::Create } else { Self::CreateDefault }
    }

    /// Refuses a folder that has no store and gets none.
    fn check(self, loaded: &Loaded) -> anyhow::Result<()> {
        let StoreLocation::Folder(folder) = loaded.settings.place() else { return Ok(()) };
        if matches!(self, Self::Refuse) {
            return Ok(local::require_store(folder)?);
        }
        if local::has_store(folder)? {
            return Ok(());
        }
        let is_default_only = matches!(self, Self::CreateDefault);
        // A new store would replace what a restore has begun.
        let maker = if local::has_unfinished_restore(folder)? || is_default_only && !loaded.is_default("store.path") {
            INIT
        } else if is_default_only && !local::is_vacant(folder) && !local::is_half_made(folder) {
            INIT_BESIDE
        } else {
            return Ok(());
        };
        Err(local::no_store(folder, maker).into())
    }
}

/// The way to the data.
pub enum Way {
    /// Through a server.
    Server(Client),
    /// The store itself: this process holds it from now on, or it is one that many may open.
    Free(Arc<dyn Store>, Box<Settings>),
}

/// Finds the way to the data for a command that writes.
pub async fn find_to_write(args: &WriteArgs) -> anyhow::Result<Way> {
    find(&args.reach, IfVacant::of(args)).await
}

/// Refuses a data folder without a store, unless a command that writes makes one there. For
/// commands that do much before they write.
pub fn refuse_vacant(args: &WriteArgs) -> anyhow::Result<()> {
    if args.reach.server().is_some() {
        return Ok(());
    }
    let store = &args.reach.store;
    IfVacant::of(args).check(&settings::load(store, Flags::of(store)?)?)
}

async fn find(args: &ReachArgs, if_vacant: IfVacant) -> anyhow::Result<Way> {
    if let Some(server) = args.server() {
        return Ok(Way::Server(Client::network(&server, args.token.as_deref(), args.ca_cert.as_deref())?));
    }
    find_local(&args.store, if_vacant).await
}

async fn find_local(args: &StoreArgs, if_vacant: IfVacant) -> anyhow::Result<Way> {
    find_by(args, if_vacant, async |settings| local::open_store(settings).await).await
}

/// Finds the way to a store for a copy, which may read a read-only store and change whether it is
/// read-only.
pub async fn find_ungated(args: &StoreArgs) -> anyhow::Result<Way> {
    find_by(args, IfVacant::Refuse, async |settings| local::open_ungated(settings).await).await
}

async fn find_by(
    args: &StoreArgs,
    if_vacant: IfVacant,
    open: impl AsyncFn(&Settings) -> StoreResult<Arc<dyn Store>>,
) -> anyhow::Result<Way> {
    let loaded = settings::load(args, Flags::of(args)?)?;
    if_vacant.check(&loaded)?;
    let settings = loaded.settings;
    let StoreLocation::Folder(folder) = settings.place() else {
        let store = open(&settings).await.map_err(local::cannot_open)?;
        return Ok(Way::Free(store, Box::new(settings)));
    };
    let patience = Instant::now() + HOLDER_PATIENCE;
    loop {
        match open(&settings).await {
            Ok(store) => return Ok(Way::Free(store, Box::new(settings.clone()))),
            Err(StoreError::Held { .. }) => {}
            Err(error) => return Err(local::cannot_open(error)),
        }
        let socket = socket_path(folder);
        if UnixStream::connect(&socket).await.is_ok() {
            if args.verbose {
                note!("A server holds {}: using its socket.", folder.display());
            }
            return Ok(Way::Server(Client::socket(socket)));
        }
        if Instant::now() >= patience {
            let hint = "wait until it is done (an import, say), or stop it";
            let held = format!("another process holds {} and does not answer at its socket: {hint}", folder.display());
            return Err(CliError::Unreachable(held).into());
        }
        tokio::time::sleep(HOLDER_PAUSE).await;
    }
}

/// The address of the server that holds a data folder, for commands.
pub fn socket_path(folder: &Path) -> PathBuf {
    folder.join(server::SOCKET_NAME)
}

/// A client of the server that runs with these settings, for its administrator: by the socket in
/// its data folder or, where there is none, by that of `listen.admin`. `otherwise` says what there
/// is without a socket.
pub fn holder(settings: &Settings, otherwise: &str) -> anyhow::Result<Client> {
    let folder = match (settings.place(), &settings.server.listen.admin) {
        (StoreLocation::Folder(folder), _) => folder,
        (StoreLocation::Cluster(_), Some(ListenAddress::Unix(socket))) => return administrator(socket),
        (StoreLocation::Cluster(_), _) => {
            let what = "a server of a Cassandra store has a socket for this only if listen.admin names one";
            return Err(CliError::Usage(format!("{what}; {otherwise}")).into());
        }
    };
    let socket = socket_path(folder);
    match socket.try_exists() {
        Ok(true) => Ok(Client::socket(socket)),
        Ok(false) => Err(CliError::Unreachable(format!("no server holds {}", folder.display())).into()),
        Err(error) => Err(local::cannot_look(folder, &error).into()),
    }
}

/// A client of the server that has this socket for its administrator.
pub fn administrator(socket: &Path) -> anyhow::Result<Client> {
    let why = match socket.try_exists() {
        Ok(true) => return Ok(Client::socket(socket.to_owned())),
        Ok(false) => "no server has this socket".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(CliError::Unreachable(format!("{}: {why}", socket.display())).into())
}

/// Waits until a store is open. After a crash of the machine that can last until no record can expire
/// early.
async fn opened<T>(opening: impl Future<Output = T>) -> T {
    let mut opening = std::pin::pin!(opening);
    match tokio::time::timeout(SILENT_MAX, opening.as_mut()).await {
        Ok(opened) => opened,
        Err(_) => {
            note!("The store takes long to open. After a crash of the machine that can last 20 seconds.");
            opening.await
        }
    }
}

/// A client for the data, and the store to close at the end of the command.
pub struct Reached {
    /// The client.
    pub client: Client,
    app: Option<App>,
}

impl Reached {
    /// Opens a way to the data. If this process holds the store itself, the same doors respond,
    /// without a listener.
    pub async fn open(args: &ReachArgs) -> anyhow::Result<Self> {
        Self::by(find(args, IfVacant::Refuse).await?).await
    }

    /// The same for a command that writes, which makes the store if there is none and it may.
    pub async fn open_or_make(args: &WriteArgs) -> anyhow::Result<Self> {
        Self::by(find_to_write(args).await?).await
    }

    /// The same for a load of `source`. If nothing but loads made changes in the store, and this
    /// process holds it, changes have the times of `clock`, and it returns the mark of that, which the
    /// load writes before its first change. Another store keeps to the time of day, because its earlier
    /// states would change otherwise.
    pub async fn open_for_load(
        args: &WriteArgs,
        source: &str,
        clock: Arc<ManualClock>,
    ) -> anyhow::Result<(Self, Option<(LoadMark, PathBuf)>)> {
        // The mark makes the folder.
        refuse_vacant(args)?;
        let store = &args.reach.store;
        if args.reach.server().is_none()
            && let StoreLocation::Folder(folder) = settings::load(store, Flags::of(store)?)?.settings.place()
            // What opens the store refuses it.
            && local::refuse_root(folder).is_ok()
        {
            let find_mark = || LoadMark::of_load(folder, source).with_context(|| folder.display().to_string());
            if find_mark()?.is_some() {
                let open = async |settings: &Settings| local::open_store_of_loads(settings).await;
                match find_by(store, IfVacant::Create, open).await? {
                    Way::Free(store, settings) => {
                        // Until now another process may have held the store.
                        let found = find_mark();
                        if let Ok(Some(mark)) = found {
                            // A change is never before those that are there.
                            clock.set(clock.now().max(mark.newest()));
                            let app = opened(App::open_with(settings.server, store, clock)).await?;
                            let client = Client::in_process(app.router(Via::InProcess));
                            return Ok((Self { client, app: Some(app) }, Some((mark, folder.to_owned()))));
                        }
                        store.close().await?;
                        found?;
                    }
                    way => return Ok((Self::by(way).await?, None)),
                }
            }
        }
        Ok((Self::open_or_make(args).await?, None))
    }

    /// Opens a way to the data for its administrator: to the store itself, or through the socket of
    /// the server that holds it. Makes no store.
    pub async fn open_local(args: &StoreArgs) -> anyhow::Result<Self> {
        Self::by(find_local(args, IfVacant::Refuse).await?).await
    }

    async fn by(way: Way) -> anyhow::Result<Self> {
        match way {
            Way::Server(client) => Ok(Self { client, app: None }),
            Way::Free(store, settings) => {
                let app = opened(App::open(settings.server, store)).await?;
                Ok(Self { client: Client::in_process(app.router(Via::InProcess)), app: Some(app) })
            }
        }
    }

    /// Whether this process holds a data folder, which no server can open meanwhile.
    pub fn holds_folder(&self) -> bool {
        self.app.as_ref().is_some_and(|app| !app.library().store().capabilities().is_shared)
    }

    /// Makes changes durable and releases the store.
    pub async fn close(self) -> anyhow::Result<()> {
        match self.app {
            Some(app) => Ok(app.close().await?),
            None => Ok(()),
        }
    }
}
