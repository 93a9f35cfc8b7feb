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
        let Library { repository, feed, search, .. } = library.clone();
        let indexer = search.indexer(repository, feed, door_ldp::own_types, Pacing::default());
        let tracker = TaskTracker::new();
        let task = tokio::spawn(tracker.track_future(index(indexer, stopping.clone())));
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

async fn index(mut indexer: Indexer, stopping: CancellationToken) {
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
                ERROR_PAUSE
            }
            Err(error) => {
                counter!(telemetry::SEARCH_FAILURES).increment(1);
                tracing::warn!(%error, "the search index could not be kept up to date; it is tried again");
                ERROR_PAUSE
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

/// The routes of the administrator.
pub(crate) fn routes(library: Library) -> Router {
    Router::new().route("/admin/search", get(status)).route("/admin/search/rebuild", post(rebuild)).with_state(library)
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
            SearchError::Level(_) => Reason::NEEDS_UPGRADE,
            SearchError::None => Reason::UNAVAILABLE,
            SearchError::Objects(error) => error.into(),
        };
        Self(reason, error.to_string())
    }
}

/// `GET /admin/search`
async fn status(State(library): State<Library>) -> Result<Json<Shown>, Refused> {
    Ok(Json(shown(&library).await?))
}

/// `POST /admin/search/rebuild`
async fn rebuild(State(library): State<Library>) -> Result<(StatusCode, Json<Shown>), Refused> {
    library.search.rebuild().await?;
    Ok((StatusCode::ACCEPTED, Json(shown(&library).await?)))
}

async fn shown(library: &Library) -> Result<Shown, Refused> {
    let status = library.search.status().await?;
    Ok(Shown {
        state: if status.is_complete { "complete" } else { "incomplete" },
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
