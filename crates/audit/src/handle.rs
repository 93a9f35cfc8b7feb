//! The handle of the audit.

use std::sync::Arc;

use heads::handle::Heads;
use parking_lot::Mutex;
use store::UnixMillis;

use crate::auditor::Auditor;

/// Writes and reads the audit. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    pub(crate) heads: Heads,
    auditor: Arc<Auditor>,
    /// When the records that are older than they are kept were last deleted.
    pub(crate) pruned_at: Arc<Mutex<Option<UnixMillis>>>,
}

impl Audit {
    /// The audit of a store. Must be called within a tokio runtime, on which the writer runs.
    pub fn new(heads: Heads) -> Self {
        let auditor = Arc::new(Auditor::new(heads.store().clone(), heads.surroundings(), heads.options()));
        Self { heads, auditor, pruned_at: Arc::default() }
    }

    /// The writer.
    pub fn auditor(&self) -> &Auditor {
        &self.auditor
    }
}
