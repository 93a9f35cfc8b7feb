//! The handle of the repository.

use std::sync::Arc;

use bytes::Bytes;
use heads::claim::TransactionId;
use heads::handle::Heads;
use parking_lot::Mutex;

use crate::jobs::RunningJobs;
use crate::tallies::Tallies;

/// Reads and changes resources. Cheap to clone; holds no state that another server would need.
#[derive(Clone)]
pub struct Repository {
    pub(crate) heads: Heads,
    pub(crate) inner: Arc<Inner>,
    /// The transaction whose view this is, if it is one's.
    pub(crate) transaction: Option<TransactionId>,
}

pub(crate) struct Inner {
    pub(crate) running_jobs: RunningJobs,
    /// Where the collector continues among contents; `None` means at the first.
    pub(crate) content_in_turn: Mutex<Option<Bytes>>,
    pub(crate) transactions: Tallies,
}

impl Repository {
    /// The resources of a store.
    pub fn new(heads: Heads) -> Self {
        let inner = Inner {
            running_jobs: RunningJobs::default(),
            content_in_turn: Mutex::new(None),
            transactions: Tallies::default(),
        };
        Self { heads, inner: Arc::new(inner), transaction: None }
    }

    /// The same resources, for a caller that reads everything once: see [`Heads::once`].
    pub fn once(&self) -> Self {
        Self { heads: self.heads.once(), ..self.clone() }
    }
}
