//! Stores that do what an engine does not do on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use store::{Call, Capabilities, Outcome, Step, Store, StoreResult, Wrapper};
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
