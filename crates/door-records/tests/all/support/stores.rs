//! Stores that do what an engine does not do on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use store::{Call, Capabilities, Outcome, Row, Step, Store, StoreError, StoreResult, Strength, Table, Wrapper};
use tokio::sync::{RwLock, RwLockWriteGuard};

/// A store that several processes seem to share.
pub struct Shared(pub Arc<dyn Store>);

impl Wrapper for Shared {
    fn inner(&self) -> &dyn Store {
        self.0.as_ref()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: true, ..self.0.capabilities() }
    }
}

/// A store that several processes seem to share, with a replica that may lag: usual reads of records
/// ask that one alone.
pub struct Lagging {
    inner: Arc<dyn Store>,
    replica: Arc<dyn Store>,
    is_behind: AtomicBool,
    is_one_away: AtomicBool,
}

impl Lagging {
    /// Over two stores that hold the same.
    pub fn new(inner: Arc<dyn Store>, replica: Arc<dyn Store>) -> Self {
        Self { inner, replica, is_behind: AtomicBool::new(false), is_one_away: AtomicBool::new(false) }
    }

    /// From now on the replica learns of no change.
    pub fn fall_behind(&self) {
        self.is_behind.store(true, Ordering::SeqCst);
    }

    /// From now on strong reads of records fail: they ask all replicas, and one is away.
    pub fn lose_one(&self) {
        self.is_one_away.store(true, Ordering::SeqCst);
    }

    fn asked(&self, call: Call, table: Table) -> &dyn Store {
        let asks_one = call.strength == Strength::Usual && table == Table::Records;
        if asks_one { self.replica.as_ref() } else { self.inner.as_ref() }
    }
}

impl Wrapper for Lagging {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.asked(call, table).get(call, table, partition, sort).await
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let asks_all = call.strength == Strength::Strong && table == Table::Records;
        if asks_all && self.is_one_away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("a replica is away".to_owned()));
        }
        self.asked(call, table).get_many(call, table, keys).await
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        if !self.is_behind.load(Ordering::SeqCst) {
            self.replica.run(call, steps.clone()).await?;
        }
        self.inner.run(call, steps).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: true, ..self.inner.capabilities() }
    }
}

/// A store whose writes wait while it is closed.
pub struct Gate {
    inner: Arc<dyn Store>,
    open: RwLock<()>,
    waiting: AtomicUsize,
}

impl Gate {
    /// An open gate.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, open: RwLock::new(()), waiting: AtomicUsize::new(0) }
    }

    /// Closes it, until the guard is dropped.
    pub async fn closed(&self) -> RwLockWriteGuard<'_, ()> {
        self.open.write().await
    }

    /// Waits until a write waits.
    pub async fn keeps_waiting(&self) {
        while self.waiting.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

impl Wrapper for Gate {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let open = self.open.read().await;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        drop(open);
        self.inner.run(call, steps).await
    }
}
