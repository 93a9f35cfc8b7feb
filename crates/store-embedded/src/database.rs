//! The open databases of a data folder.

use std::sync::Arc;

use store::{Deadline, Lane, StoreError, StoreResult};
use tokio::time::timeout_at;

use crate::folder::Folder;
use crate::tables::Tables;

/// The open database. Dropped in this order: the database before the lock that protects it.
pub(crate) struct Database {
    pub(crate) tables: Lanes<Arc<Tables>>,
    pub(crate) folder: Folder,
}

/// A value for each lane.
pub(crate) struct Lanes<T> {
    pub(crate) text: T,
    pub(crate) service: T,
}

impl<T> Lanes<T> {
    /// Makes a value for each lane.
    pub(crate) fn try_new(mut make: impl FnMut(Lane) -> StoreResult<T>) -> StoreResult<Self> {
        Ok(Self { text: make(Lane::Text)?, service: make(Lane::Service)? })
    }

    /// The value of a lane.
    pub(crate) fn of(&self, lane: Lane) -> &T {
        match lane {
            Lane::Text => &self.text,
            Lane::Service => &self.service,
        }
    }
}

/// Runs `work` on a thread that may block, and waits at most until the deadline.
pub(crate) async fn blocking<T: Send + 'static>(
    deadline: Deadline,
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    if deadline.passed() {
        return Err(StoreError::DeadlinePassed);
    }
    let work =
        tokio::task::spawn_blocking(move || if deadline.passed() { Err(StoreError::DeadlinePassed) } else { work() });
    match timeout_at(deadline.0, work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(failed)) => Err(StoreError::Unavailable(format!("a read failed: {failed}"))),
        Err(_) => Err(StoreError::DeadlinePassed),
    }
}
