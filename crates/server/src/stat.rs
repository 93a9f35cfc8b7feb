//! `GET /stat`: the amount of stored data.
//!
//! A count reads the head of each volume. So one count runs at a time, for all that wait for one.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use heads::ObjectsError;
use library::{Library, Statistics};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::problem;

/// The response.
#[derive(Serialize)]
pub(crate) struct Stored {
    volumes: u64,
    pages: u64,
    /// Bytes of the pages' texts.
    size_bytes: u64,
    /// Bytes of the same texts as stored.
    frame_bytes: u64,
    damaged_volumes: u64,
    /// Pages, METS and records with damage marks.
    damaged_members: u64,
    /// Resources of the repository with damage marks.
    damaged_resources: u64,
}

/// Counts what a library has.
pub(crate) struct Counting {
    library: Library,
    last: Mutex<Option<Arc<Counted>>>,
}

/// What a count has found.
struct Counted {
    begun: Instant,
    statistics: Result<Statistics, ObjectsError>,
}

impl Counting {
    pub(crate) fn new(library: Library) -> Self {
        Self { library, last: Mutex::new(None) }
    }

    /// The result of a count that began at `not_before` or later, so that it has everything that was
    /// stored by then. If there is none, counts.
    async fn since(&self, not_before: Instant) -> Arc<Counted> {
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.begun >= not_before) {
            return last.clone();
        }
        let begun = Instant::now();
        let counted = Arc::new(Counted { begun, statistics: self.library.statistics().await });
        *last = Some(counted.clone());
        counted
    }
}

/// Counts by reading the head of each volume.
pub(crate) async fn stored(State(counting): State<Arc<Counting>>) -> Result<Json<Stored>, Response> {
    let counted = counting.since(Instant::now()).await;
    let statistics = counted.statistics.as_ref().map_err(problem::of_library)?;
    Ok(Json(Stored {
        volumes: statistics.volumes,
        pages: statistics.pages,
        size_bytes: statistics.bytes,
        frame_bytes: statistics.frame_bytes,
        damaged_volumes: statistics.damaged_volumes,
        damaged_members: statistics.damaged_members,
        damaged_resources: statistics.damaged_resources,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use futures::future::join_all;
    use heads::LibraryOptions;
    use store::{Call, Store, StoreResult, SystemClock, Table, WalkPage, Wrapper};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    /// A store that counts how often the marks of damage are walked: a count does that once.
    struct Walked {
        store: Arc<EmbeddedStore>,
        counts: AtomicUsize,
    }

    impl Wrapper for Walked {
        fn inner(&self) -> &dyn Store {
            &*self.store
        }

        async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
            if table == Table::Damage {
                self.counts.fetch_add(1, Ordering::Relaxed);
            }
            self.store.walk(call, table, from, max).await
        }
    }

    #[tokio::test]
    async fn all_that_wait_for_a_count_share_one_and_later_ones_get_a_later_one() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(SystemClock));
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
        let store = Arc::new(Walked { store, counts: AtomicUsize::new(0) });
        let library = Library::open(store.clone(), clock, LibraryOptions::default()).await.unwrap();
        let counting = Counting::new(library);
        let asked = Instant::now();
        let all = join_all((0..100).map(|_| counting.since(asked))).await;
        assert!(all.iter().all(|counted| counted.statistics.as_ref().unwrap().volumes == 0));
        assert_eq!(store.counts.load(Ordering::Relaxed), 1);
        counting.since(Instant::now()).await;
        assert_eq!(store.counts.load(Ordering::Relaxed), 2, "something may have been stored since");
    }
}
