//! The same door over two engines.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use door_data::{DataDoor, DataSettings, routes};
use futures::{StreamExt, TryStreamExt, stream};
use hathi::VolumeId;
use heads::{LibraryOptions, keys};
use http::{Request, Response, StatusCode};
use library::Library;
use store::limited::Limited;
use store::null::NullStore;
use store::{Call, Class, Deadline, Limits, Row, Scan, Store, SystemClock, Table};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tower::ServiceExt;
use volumes::Unchanged;

use crate::corpus::{self, CorpusVolume};

/// Bytes of rows per read when an engine's rows are copied.
const SCAN_BYTES: usize = 4 << 20;
/// Volumes imported at the same time.
const IMPORTS_AT_ONCE: usize = 2;

/// A store, the library in it, and the reading routes over that.
pub struct Door {
    /// The engine, with the wrappers around it.
    pub store: Arc<dyn Store>,
    /// The domain.
    pub library: Library,
    router: Router,
}

impl Door {
    async fn open(store: Arc<dyn Store>) -> Result<Self> {
        let library = Library::open(store.clone(), Arc::new(SystemClock), LibraryOptions::default()).await?;
        // Selections write; they are measured elsewhere.
        let settings = DataSettings { post_selection: false, ..DataSettings::default() };
        let router = routes(Arc::new(DataDoor { library: library.clone(), settings })).read;
        Ok(Self { store, library, router })
    }

    /// The door over the embedded engine in `folder`, which holds `volumes`. They are imported;
    /// then the store is closed and opened again, so that everything is read from files (through
    /// caches).
    pub async fn embedded(folder: &Path, volumes: &[CorpusVolume]) -> Result<Self> {
        let filling = Self::open(open_embedded(folder).await?).await?;
        let imports = volumes.iter().map(|volume| corpus::parts(&volume.source));
        let imports = imports.map(|parts| filling.library.volumes.import(parts, Unchanged::Skip, |_| {}));
        stream::iter(imports.collect::<Vec<_>>())
            .buffer_unordered(IMPORTS_AT_ONCE)
            .try_collect::<Vec<_>>()
            .await
            .context("importing the corpus")?;
        filling.store.close().await?;
        drop(filling);
        Self::open(open_embedded(folder).await?).await
    }

    /// The door over the engine that returns constants: the rows of the volume `id` of this door,
    /// whichever volume is requested.
    ///
    /// A library can be opened over it because its first row, the head of the container of volumes,
    /// exists too: it is that volume's head, which is live.
    pub async fn null(&self, id: &VolumeId) -> Result<Self> {
        let mut engine = NullStore::new();
        for table in [Table::Objects, Table::Packs] {
            engine = engine.with_rows(table, self.rows(table, id).await?);
        }
        Self::open(Arc::new(Limited::new(Arc::new(engine), Limits::default()))).await
    }

    /// All rows of a volume in a table: its own, and those of its generation, which has one part.
    async fn rows(&self, table: Table, id: &VolumeId) -> Result<Vec<Row>> {
        let volume = keys::volume_partition(id);
        let part = keys::part(&volume, self.library.volumes.volume(id).await?.body.generation, 0);
        let mut rows = Vec::new();
        for partition in [volume, part] {
            let mut rest = Some(Scan::prefix("", SCAN_BYTES));
            while let Some(scan) = rest {
                let page = self.store.scan(call(), table, &partition, scan.clone()).await?;
                rows.extend(page.rows);
                rest = scan.resumed(page.next);
            }
        }
        Ok(rows)
    }

    /// Sends a request through the routes. A status other than 200 is an error.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Body>> {
        let response = self.router.clone().oneshot(request).await?;
        ensure!(response.status() == StatusCode::OK, "the door answers with {}", response.status());
        Ok(response)
    }

    /// Reads the head row of a volume: the smallest request to a store.
    pub async fn head_row(&self, partition: &Bytes, sort: &Bytes) -> Result<()> {
        let row = self.store.get(call(), Table::Objects, partition, sort).await?;
        ensure!(row.is_some(), "the volume has no head");
        Ok(())
    }
}

/// Opens the embedded engine in a folder, as the server does.
pub async fn open_embedded(folder: &Path) -> Result<Arc<dyn Store>> {
    let folder = folder.to_path_buf();
    let opening = move || EmbeddedStore::open(&folder, EmbeddedOptions::default(), Arc::new(SystemClock));
    let store: Arc<dyn Store> = tokio::task::spawn_blocking(opening).await??;
    Ok(store)
}

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(Duration::from_secs(10)))
}
