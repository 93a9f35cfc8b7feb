//! What the consumers of a server share.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, broadcast};

use crate::event::{Cursor, Event};

/// Consumers that read pages by themselves at the same time.
const CATCHING_UP_AT_ONCE: usize = 4;

/// Some events in a row, which all consumers share.
pub(crate) struct Batch {
    /// The events are all that come after this.
    pub(crate) after: Cursor,
    /// The events, oldest first; none if there was nothing new.
    pub(crate) events: Vec<Event>,
    /// Where a consumer that has these events resumes.
    pub(crate) end: Cursor,
}

/// What the consumers of this server share.
pub(crate) struct Live {
    /// The batches; `None`: no task reads.
    pub(crate) batches: Mutex<Option<broadcast::Sender<Arc<Batch>>>>,
    pub(crate) catching_up: Semaphore,
}

impl Default for Live {
    fn default() -> Self {
        Self { batches: Mutex::default(), catching_up: Semaphore::new(CATCHING_UP_AT_ONCE) }
    }
}
