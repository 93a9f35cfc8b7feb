//! Stores for tests, each in a keyspace of its own on the node that all tests share.

#![allow(dead_code)] // No test file uses all of it.
use std::sync::Arc;

use async_trait::async_trait;
use store::suite::{Damaging, Reopening, Subject};
use store::{Clock, ContentId, ManualClock, Store, StoreResult, UnixMillis};
use store_cassandra::testing::{damage, fresh_options};
use store_cassandra::{CassandraOptions, CassandraStore};
use store_embedded::{EmbeddedOptions, EmbeddedStore};
use tempfile::TempDir;

/// A store on the shared node, wrapped or bare.
pub struct Cassandra {
    options: CassandraOptions,
    clock: Arc<ManualClock>,
    wrap: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    store: Arc<dyn Store>,
}

impl Cassandra {
    /// A fresh store within `wrap`; `None` if no node can be started.
    pub async fn wrapped(wrap: fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Option<Self> {
        let options = fresh_options().await?;
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
        let store = wrap(open(&options, clock.clone()).await.unwrap());
        Some(Self { options, clock, wrap, store })
    }

    /// A fresh store.
    pub async fn bare() -> Option<Self> {
        Self::wrapped(|store| store).await
    }

    /// Another store over the same keyspace, like that of another server, with a clock of its own.
    pub async fn another(&self, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
        open(&self.options, clock).await.unwrap()
    }

    /// The options with which it was opened.
    pub fn options(&self) -> &CassandraOptions {
        &self.options
    }
}

/// A store of the other engine, to copy from and to.
pub struct Embedded {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    _folder: TempDir,
}

impl Embedded {
    /// A fresh store.
    pub fn fresh() -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::new(UnixMillis(1_000_000))));
        let options = EmbeddedOptions { headroom_bytes: 0, ..EmbeddedOptions::default() };
        let store = EmbeddedStore::open(folder.path(), options, clock.clone()).unwrap();
        Self { store, clock, _folder: folder }
    }
}

impl Subject for Embedded {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

async fn open(options: &CassandraOptions, clock: Arc<dyn Clock>) -> StoreResult<Arc<dyn Store>> {
    Ok(CassandraStore::open(options.clone(), clock).await?)
}

impl Subject for Cassandra {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

#[async_trait]
impl Reopening for Cassandra {
    async fn reopen(&mut self) {
        self.store.close().await.unwrap();
        self.store = (self.wrap)(open(&self.options, self.clock.clone()).await.unwrap());
    }

    async fn open_another(&self) -> StoreResult<Arc<dyn Store>> {
        open(&self.options, self.clock.clone()).await
    }
}

#[async_trait]
impl Damaging for Cassandra {
    async fn flip_bit(&self, id: ContentId, at: u64) {
        damage::flip_bit(&self.options, id, at).await;
    }

    async fn lose_bytes(&self, id: ContentId) {
        damage::lose_bytes(&self.options, id).await;
    }

    async fn exchange(&self, one: ContentId, other: ContentId) {
        damage::exchange(&self.options, one, other).await;
    }
}
