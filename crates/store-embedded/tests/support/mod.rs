//! Stores to be tested, in temporary folders.

use std::sync::Arc;

use async_trait::async_trait;
use store::suite::{Reopening, Subject};
use store::{ManualClock, Store, StoreResult, UnixMillis};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;

/// An embedded store in a folder of its own, wrapped or bare.
pub struct Embedded {
    folder: TempDir,
    clock: Arc<ManualClock>,
    wrap: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    store: Arc<dyn Store>,
}

impl Embedded {
    /// A fresh store within `wrap`.
    pub fn wrapped(wrap: fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
        let store = wrap(open(&folder, &clock).unwrap());
        Self { folder, clock, wrap, store }
    }

    /// A fresh store.
    pub fn bare() -> Self {
        Self::wrapped(|store| store)
    }
}

fn open(folder: &TempDir, clock: &Arc<ManualClock>) -> StoreResult<Arc<EmbeddedStore>> {
    EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone())
}

impl Subject for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

#[async_trait]
impl Reopening for Embedded {
    async fn reopen(&mut self) {
        self.store.close().await.unwrap();
        self.store = (self.wrap)(open(&self.folder, &self.clock).unwrap());
    }

    async fn open_another(&self) -> StoreResult<Arc<dyn Store>> {
        Ok(open(&self.folder, &self.clock)?)
    }
}
