//! Stores to be tested, each in a keyspace of its own on the node that all tests share.

#![allow(dead_code)] // Not every test file uses all of it.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use store::suite::{Damaging, Reopening, Subject};
use store::{Clock, ContentId, ManualClock, Store, StoreResult, UnixMillis};
use store_cassandra::testing::fresh_options;
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
    /// A fresh store within `wrap`; `None` where there can be no node.
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

    /// Another store over the same keyspace, as another server would have, with a clock of its own.
    pub async fn another(&self, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
        open(&self.options, clock).await.unwrap()
    }

    /// Where it is and how it is opened.
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

/// Bytes of each chunk but the last.
const CHUNK_BYTES: u64 = 128 << 10;

/// Bytes that stand before those of a chunk: format version and checksum.
const SEAL_BYTES: u64 = 5;

impl Cassandra {
    async fn session(&self) -> Session {
        SessionBuilder::new().known_node(self.options.address.hosts()[0].clone()).build().await.unwrap()
    }

    fn chunks(&self) -> String {
        format!("{}.content_chunks", self.options.address.keyspace())
    }

    /// The chunks of a content that is small enough to lie in one part.
    async fn chunks_of(&self, session: &Session, id: ContentId) -> Vec<(i32, Bytes)> {
        let all = format!("SELECT number, chunk FROM {} WHERE content = ? AND part = 0", self.chunks());
        let rows = session.query_unpaged(all, (id.0.to_vec(),)).await.unwrap().into_rows_result().unwrap();
        rows.rows::<(i32, Bytes)>().unwrap().map(Result::unwrap).collect()
    }

    async fn put_chunk(&self, session: &Session, id: ContentId, number: i32, chunk: &[u8]) {
        let put = format!("UPDATE {} SET chunk = ? WHERE content = ? AND part = 0 AND number = ?", self.chunks());
        session.query_unpaged(put, (chunk.to_vec(), id.0.to_vec(), number)).await.unwrap();
    }
}

#[async_trait]
impl Damaging for Cassandra {
    async fn flip_bit(&self, id: ContentId, at: u64) {
        let session = self.session().await;
        let (number, chunk) = self.chunks_of(&session, id).await.swap_remove((at / CHUNK_BYTES) as usize);
        let mut chunk = chunk.to_vec();
        chunk[(at % CHUNK_BYTES + SEAL_BYTES) as usize] ^= 0x10;
        self.put_chunk(&session, id, number, &chunk).await;
    }

    async fn lose_bytes(&self, id: ContentId) {
        let session = self.session().await;
        let remove = format!("DELETE FROM {} WHERE content = ? AND part = 0", self.chunks());
        session.query_unpaged(remove, (id.0.to_vec(),)).await.unwrap();
    }

    async fn exchange(&self, one: ContentId, other: ContentId) {
        let session = self.session().await;
        let (of_one, of_other) = (self.chunks_of(&session, one).await, self.chunks_of(&session, other).await);
        for (id, chunks) in [(one, of_other), (other, of_one)] {
            for (number, chunk) in chunks {
                self.put_chunk(&session, id, number, &chunk).await;
            }
        }
    }
}
