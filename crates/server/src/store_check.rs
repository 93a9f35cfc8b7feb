//! One check of the store for all that ask whether the server is ready.
//!
//! Anybody may ask, as often as they like. So one check runs at a time, and its result is kept for
//! a moment.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use store::{Call, Deadline, Health, Lane, Store, StoreError};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// For how long the result of a check is kept.
pub(crate) const KEPT: Duration = Duration::from_secs(1);

/// How long a check may take. Whoever asks is about to give up.
const CHECK_MAX: Duration = Duration::from_secs(2);

/// How long a read of a row may take, so that its failure is known before the check ends.
const READ_MAX: Duration = Duration::from_millis(1_500);

/// So many checks in a row that miss their deadline mean that the store does not answer. Fewer may
/// be a burst of load, which all servers have at once.
const LATE_MAX: u32 = 3;

/// The partition that is read: it has no row.
const NO_ROW: &[u8] = b"readyz";

/// Checks a store.
pub(crate) struct StoreCheck {
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

struct State {
    last: Option<Arc<Checked>>,
    /// Checks in a row that missed their deadline.
    late: u32,
}

/// What a check has found.
#[derive(Debug)]
pub(crate) struct Checked {
    begun: Instant,
    /// `None`: the store did not report it in time.
    pub(crate) health: Option<Health>,
    pub(crate) reading: Reading,
}

/// Whether rows can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Rows of each lane can be read.
    Works,
    /// The store has too much to do for now, and this is what it answered.
    Busy(String),
    /// Rows cannot be read, for this reason.
    Fails(String),
}

impl StoreCheck {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        // A store that has not answered yet is not known to work: its first late check counts.
        Self { store, state: Mutex::new(State { last: None, late: LATE_MAX - 1 }) }
    }

    /// The result of a check that began at `not_before` or later. If there is none, checks.
    pub(crate) async fn since(&self, not_before: Instant) -> Arc<Checked> {
        let mut state = self.state.lock().await;
        if let Some(last) = state.last.as_ref().filter(|last| last.begun >= not_before) {
            return last.clone();
        }
        let begun = Instant::now();
        let both = async { futures::join!(self.store.health(), self.unreadable()) };
        let (health, failure) = match timeout(CHECK_MAX, both).await {
            Ok((health, failure)) => (Some(health), failure),
            Err(_) => (None, Some((StoreError::DeadlinePassed, "the store was not checked".to_owned()))),
        };
        state.late = match failure {
            Some((StoreError::DeadlinePassed, _)) => state.late.saturating_add(1),
            _ => 0,
        };
        let checked = Arc::new(Checked { begun, health, reading: Reading::of(failure, state.late) });
        state.last = Some(checked.clone());
        checked
    }

    /// Reads a row of each lane; returns why one cannot be read. A broken block is no reason: it
    /// makes some rows unreadable, and the others are served.
    async fn unreadable(&self) -> Option<(StoreError, String)> {
        let partition = Bytes::from_static(NO_ROW);
        let read = async |lane: Lane| {
            let table = lane.tables().next()?;
            let call = Call::new(table.class(), Deadline::within(READ_MAX));
            match self.store.get(call, table, &partition, &Bytes::new()).await {
                Ok(_) | Err(StoreError::Corrupt { .. }) => None,
                Err(error) => Some((error, format!("rows of lane {lane} cannot be read"))),
            }
        };
        let failures = join_all(Lane::ALL.into_iter().map(read)).await;
        failures.into_iter().flatten().min_by_key(|(error, _)| match error {
            StoreError::Overloaded(_) => 2,
            StoreError::DeadlinePassed => 1,
            _ => 0,
        })
    }
}

impl Reading {
    /// What a failure means, if it is the `late`th in a row that missed its deadline.
    fn of(failure: Option<(StoreError, String)>, late: u32) -> Self {
        let Some((error, why)) = failure else { return Self::Works };
        let why = format!("{why}: {error}");
        match error {
            StoreError::Overloaded(_) => Self::Busy(why),
            StoreError::DeadlinePassed if late < LATE_MAX => Self::Busy(why),
            _ => Self::Fails(why),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use store::{Row, StoreResult, SystemClock, Table, Wrapper};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    /// A store whose reads fail with what `fails` makes, and that counts its reports of health.
    struct Failing {
        store: Arc<EmbeddedStore>,
        fails: fn() -> Option<StoreError>,
        reports: AtomicUsize,
    }

    impl Wrapper for Failing {
        fn inner(&self) -> &dyn Store {
            &*self.store
        }

        async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
            match (self.fails)() {
                Some(error) => Err(error),
                None => self.store.get(call, table, partition, sort).await,
            }
        }

        async fn health(&self) -> Health {
            self.reports.fetch_add(1, Ordering::Relaxed);
            self.store.health().await
        }
    }

    fn failing(fails: fn() -> Option<StoreError>) -> (Arc<Failing>, StoreCheck, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
        let store = Arc::new(Failing { store, fails, reports: AtomicUsize::new(0) });
        (store.clone(), StoreCheck::new(store), folder)
    }

    #[tokio::test]
    async fn all_that_ask_at_once_or_soon_afterwards_share_one_check() {
        let (store, check, _folder) = failing(|| None);
        let asked = Instant::now();
        let all = join_all((0..100).map(|_| check.since(asked))).await;
        assert!(all.iter().all(|checked| checked.reading == Reading::Works && checked.health.is_some()));
        assert_eq!(store.reports.load(Ordering::Relaxed), 1);
        check.since(Instant::now()).await;
        assert_eq!(store.reports.load(Ordering::Relaxed), 2, "that was asked for a later one");
    }

    #[tokio::test]
    async fn an_overloaded_store_is_busy_and_one_that_cannot_read_fails() {
        let (_, check, _folder) = failing(|| Some(StoreError::Overloaded("many".to_owned())));
        for _ in 0..5 {
            assert!(matches!(check.since(Instant::now()).await.reading, Reading::Busy(_)));
        }
        let (_, check, _folder) = failing(|| Some(StoreError::Unavailable("away".to_owned())));
        assert!(matches!(check.since(Instant::now()).await.reading, Reading::Fails(_)));
    }

    #[test]
    fn a_store_that_has_answered_fails_by_the_third_late_check_in_a_row() {
        let late = |nth| Reading::of(Some((StoreError::DeadlinePassed, "rows".to_owned())), nth);
        assert!(matches!([late(1), late(2)], [Reading::Busy(_), Reading::Busy(_)]));
        assert!(matches!(late(3), Reading::Fails(_)));
    }

    #[tokio::test]
    async fn a_store_that_has_not_answered_yet_fails_by_its_first_late_check() {
        let (_, check, _folder) = failing(|| Some(StoreError::DeadlinePassed));
        assert!(matches!(check.since(Instant::now()).await.reading, Reading::Fails(_)));
    }
}
