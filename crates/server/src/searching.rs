//! Keeps the search index up to date, and lets administrators look at it and have it made anew.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use door_http::Reason;
use http::StatusCode;
use library::Library;
use metrics::{counter, gauge};
use parking_lot::Mutex;
use search::{Indexer, Measures, Pacing, SearchError, Turn};
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::feed::Refused;
use crate::feed::activity::rfc3339;
use crate::telemetry;

/// How long a server waits after a failure, or while it cannot write the index.
const ERROR_PAUSE: Duration = Duration::from_secs(5);

/// The task that keeps the index up to date.
pub(crate) struct Indexing {
    _task: AbortOnDropHandle<()>,
    tracker: TaskTracker,
}

impl Indexing {
    /// Begins, until the handle is dropped. Once `stopping` is cancelled, the task gives the index
    /// back to other servers, and ends.
    pub(crate) fn start(library: &Library, stopping: &CancellationToken) -> Self {
        Self::start_pausing(library, stopping, ERROR_PAUSE)
    }

    /// The same, with another pause after a failure.
    fn start_pausing(library: &Library, stopping: &CancellationToken, error_pause: Duration) -> Self {
        let Library { repository, feed, search, .. } = library.clone();
        let indexer = search.indexer(repository, feed, door_ldp::own_types, Pacing::default());
        let tracker = TaskTracker::new();
        let task = tokio::spawn(tracker.track_future(index(indexer, stopping.clone(), error_pause)));
        tracker.close();
        Self { _task: AbortOnDropHandle::new(task), tracker }
    }

    /// Waits until the task has ended, for at most `patience`.
    pub(crate) async fn ended(&self, patience: Duration) {
        if tokio::time::timeout(patience, self.tracker.wait()).await.is_err() {
            tracing::warn!("the search index was not given back; other servers wait until they count this one as dead");
        }
    }
}

async fn index(mut indexer: Indexer, stopping: CancellationToken, error_pause: Duration) {
    let measures = indexer.measures();
    let mut was_prevented = None;
    loop {
        let turn = tokio::select! {
            () = stopping.cancelled() => break,
            turn = indexer.turn() => turn,
        };
        show(&measures);
        let pause = match turn {
            Ok(Turn::Worked | Turn::Idle) => {
                was_prevented = None;
                continue;
            }
            Ok(Turn::Waits(pause)) => pause,
            Ok(Turn::Prevented(why)) => {
                if was_prevented.as_ref() != Some(&why) {
                    tracing::info!(why, "this server does not keep the search index");
                }
                was_prevented = Some(why);
                error_pause
            }
            Err(error) => {
                counter!(telemetry::SEARCH_FAILURES).increment(1);
                tracing::warn!(%error, "the search index could not be kept up to date; it is tried again");
                error_pause
            }
        };
        tokio::select! {
            () = stopping.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    if let Err(error) = indexer.release().await {
        tracing::warn!(%error, "the search index was not given back to other servers");
    }
}

/// Sets the metrics of the index. Servers that do not write it show zeros, except for the lag if
/// nobody writes it.
fn show(measures: &Arc<Mutex<Measures>>) {
    let Measures { is_writing, changes, lag, is_complete, is_building, resources, .. } = *measures.lock();
    let flag = |is_so: bool| f64::from(u8::from(is_writing && is_so));
    counter!(telemetry::SEARCH_CHANGES).absolute(changes);
    gauge!(telemetry::SEARCH_LAG).set(lag.as_secs_f64());
    gauge!(telemetry::SEARCH_WRITING).set(flag(true));
    gauge!(telemetry::SEARCH_COMPLETE).set(flag(is_complete));
    gauge!(telemetry::SEARCH_REBUILDING).set(flag(is_building));
    gauge!(telemetry::SEARCH_RESOURCES).set(if is_writing { resources as f64 } else { 0.0 });
}

/// The routes of the administrator. `may_be_kept`: this server keeps the index, or others have the
/// store open and may keep it.
pub(crate) fn routes(library: Library, may_be_kept: bool) -> Router {
    let index = Index { library, may_be_kept };
    Router::new().route("/admin/search", get(status)).route("/admin/search/rebuild", post(rebuild)).with_state(index)
}

/// The index as the administrator sees it.
#[derive(Clone)]
struct Index {
    library: Library,
    may_be_kept: bool,
}

/// How the index is.
#[derive(Serialize)]
struct Shown {
    /// `complete`, or `incomplete` while something may be missing.
    state: &'static str,
    resources: u64,
    bytes: u64,
    shards: u16,
    /// Up to when changes are in it.
    until: Option<String>,
    building: Option<ShownBuilding>,
}

/// An index that is being made.
#[derive(Serialize)]
struct ShownBuilding {
    why: String,
    since: String,
    resources: u64,
}

impl From<SearchError> for Refused {
    fn from(error: SearchError) -> Self {
        let reason = match &error {
            SearchError::None => Reason::UNAVAILABLE,
            SearchError::Objects(error) => error.into(),
        };
        Self(reason, error.to_string())
    }
}

/// `GET /admin/search`
async fn status(State(index): State<Index>) -> Result<Json<Shown>, Refused> {
    Ok(Json(shown(&index).await?))
}

/// `POST /admin/search/rebuild`
async fn rebuild(State(index): State<Index>) -> Result<(StatusCode, Json<Shown>), Refused> {
    index.library.search.rebuild().await?;
    Ok((StatusCode::ACCEPTED, Json(shown(&index).await?)))
}

async fn shown(index: &Index) -> Result<Shown, Refused> {
    let status = index.library.search.status().await?;
    Ok(Shown {
        state: if status.is_complete && index.may_be_kept { "complete" } else { "incomplete" },
        resources: status.resources,
        bytes: status.bytes,
        shards: status.shards,
        until: status.until.map(rfc3339),
        building: status.building.map(|(why, since, resources)| ShownBuilding {
            why,
            since: rfc3339(since),
            resources,
        }),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    use axum::body::Body;
    use bytes::Bytes;
    use heads::LibraryOptions;
    use http::{Method, Request, header};
    use store::{
        Call, Capabilities, ManualClock, Outcome, Rows, Scan, Step, Store, StoreError, StoreResult, Table, UnixMillis,
        Wrapper,
    };
    use store_embedded::{EmbeddedOptions, EmbeddedStore};
    use tempfile::TempDir;
    use tokio::sync::Notify;
    use tower::ServiceExt;

    use super::*;
    use crate::access::Via;
    use crate::app::App;
    use crate::config::{Access, Config};

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A store that can refuse to write the lists of the index.
    struct Refusing {
        store: Arc<EmbeddedStore>,
        refuses: AtomicBool,
    }

    impl Wrapper for Refusing {
        fn inner(&self) -> &dyn Store {
            &*self.store
        }

        async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
            let is_of_index = |step: &Step| search::keys::list_of_partition(step.partition()).is_some();
            match self.refuses.load(Ordering::SeqCst) && steps.iter().any(is_of_index) {
                true => Err(StoreError::Full("the lists of the index".to_owned())),
                false => self.store.run(call, steps).await,
            }
        }
    }

    /// The embedded engine as if several processes could have it open, as on Cassandra. It can
    /// leave scans without an answer.
    struct Shared {
        store: Arc<EmbeddedStore>,
        hangs: AtomicBool,
        hung: Notify,
    }

    impl Wrapper for Shared {
        fn inner(&self) -> &dyn Store {
            &*self.store
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { is_shared: true, ..self.store.capabilities() }
        }

        async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
            if self.hangs.load(Ordering::SeqCst) {
                self.hung.notify_one();
                std::future::pending::<()>().await;
            }
            self.store.scan(call, table, partition, scan).await
        }
    }

    /// A server whose clock stands still.
    struct Server {
        app: App,
        store: Arc<Refusing>,
        clock: Arc<ManualClock>,
        _folder: TempDir,
    }

    async fn server(keeps: bool) -> Server {
        let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
        let store = Arc::new(Refusing { store, refuses: AtomicBool::new(false) });
        let mut config = Config::default();
        config.auth.write = Access::Open;
        config.ldp.origin = "http://books.test".to_owned();
        config.search.index = keeps;
        let app = App::open_with(config, store.clone(), clock.clone()).await.unwrap();
        Server { app, store, clock, _folder: folder }
    }

    impl Server {
        async fn ask(&self, method: Method, path: &str) -> String {
            self.ask_via(Via::Network, method, path).await
        }

        async fn ask_via(&self, via: Via, method: Method, path: &str) -> String {
            let request = Request::builder().method(method).uri(path).header(header::HOST, "books.test");
            let request = request.header(header::CONTENT_TYPE, "text/turtle").body(Body::empty()).unwrap();
            let response = self.app.router(via).oneshot(request).await.unwrap();
            let status = response.status();
            let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
            let text = String::from_utf8(body.to_vec()).unwrap();
            assert!(status.is_success(), "{path}: {status}: {text}");
            text
        }

        /// Waits until a metric is as expected.
        async fn until(&self, metric: &str, is_so: impl Fn(f64) -> bool) {
            let begun = Instant::now();
            loop {
                let text = self.ask(Method::GET, "/metrics").await;
                let mut values = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
                let value: f64 = values.next().unwrap().parse().unwrap();
                if is_so(value) {
                    return;
                }
                assert!(begun.elapsed() < Duration::from_secs(60), "{metric} is {value}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }

    #[tokio::test]
    async fn the_lag_of_an_index_that_cannot_be_written_grows_and_ends_once_all_changes_are_in_it() {
        let server = server(true).await;
        // The new index has it from the beginning, and its number of resources is saved then. That of
        // later changes is saved as the clock moves, and a failure before that loses it.
        server.ask(Method::PUT, "/rest/a").await;
        let pause = Duration::from_millis(20);
        let _indexing = Indexing::start_pausing(server.app.library(), &CancellationToken::new(), pause);
        server.until(telemetry::SEARCH_COMPLETE, |complete| complete > 0.0).await;
        server.until(telemetry::SEARCH_RESOURCES, |resources| resources > 0.0).await;
        server.until(telemetry::SEARCH_LAG, |lag| lag < 1.0).await;

        server.store.refuses.store(true, Ordering::SeqCst);
        server.ask(Method::PUT, "/rest/b").await;
        for hours in 1..=3_u32 {
            server.clock.advance(HOUR);
            let least = (hours * HOUR).as_secs_f64();
            server.until(telemetry::SEARCH_LAG, |lag| lag >= least).await;
        }

        server.store.refuses.store(false, Ordering::SeqCst);
        server.until(telemetry::SEARCH_LAG, |lag| lag < 1.0).await;
        server.until(telemetry::SEARCH_RESOURCES, |resources| resources > 1.0).await;
    }

    #[tokio::test]
    async fn an_index_that_the_only_server_of_a_store_does_not_keep_is_shown_as_incomplete() {
        for (keeps, state) in [(true, "complete"), (false, "incomplete")] {
            let server = server(keeps).await;
            let Library { repository, feed, search, .. } = server.app.library().clone();
            let mut indexer = search.indexer(repository, feed, door_ldp::own_types, Pacing::default());
            assert_eq!(indexer.catch_up().await.unwrap(), Turn::Idle);
            let shown = server.ask_via(Via::InProcess, Method::GET, "/admin/search").await;
            let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(shown["state"], state);
        }
    }

    #[tokio::test]
    async fn a_server_that_stops_in_the_middle_of_a_turn_leaves_the_index_to_others_at_once() {
        let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
        let store = Arc::new(Shared { store, hangs: AtomicBool::new(false), hung: Notify::new() });
        let library = Library::open(store.clone(), clock.clone(), LibraryOptions::default()).await.unwrap();
        let indexer = || {
            let Library { repository, feed, search, .. } = library.clone();
            search.indexer(repository, feed, door_ldp::own_types, Pacing::default())
        };
        let (mut one, mut other) = (indexer(), indexer());
        assert_eq!(one.catch_up().await.unwrap(), Turn::Idle);
        assert!(matches!(other.catch_up().await.unwrap(), Turn::Waits(_)));
        assert!(library.search.status().await.unwrap().is_complete);

        // Now there may be something to read, and its turn waits for that.
        clock.advance(Duration::from_secs(1));
        store.hangs.store(true, Ordering::SeqCst);
        let stopped = async {
            tokio::select! {
                turn = one.turn() => panic!("{turn:?}"),
                () = store.hung.notified() => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(60), stopped).await.expect("it reads nothing");
        store.hangs.store(false, Ordering::SeqCst);
        one.release().await.unwrap();
        assert!(!library.search.status().await.unwrap().is_complete, "nobody keeps it");
        assert_eq!(other.catch_up().await.unwrap(), Turn::Idle);
        assert!(library.search.status().await.unwrap().is_complete);
    }
}
