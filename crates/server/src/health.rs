//! `/healthz`: the process answers. `/readyz`: it can serve.
//!
//! Serving means reading, and each read writes an audit entry. A server is ready as long as the
//! store accepts those ([`Lane::Service`]). If only the text lane refuses writes (its disk is
//! nearly full, or compaction met a broken block), the status stays 200, so that no load balancer
//! removes a server that can read everything. The response then says what is refused. Imports get
//! 503 or 507, and `penates_store_refusing_writes` reports it to monitors. A server that warms its
//! records (`records.warm`) is ready afterwards.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use door_http::Reason;
use store::{Lane, Store};
use tokio_util::sync::CancellationToken;

use crate::live::Live;
use crate::problem;
use crate::warm::Warming;

/// The state that readiness depends on.
#[derive(Clone)]
pub(crate) struct Readiness {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) warming: Arc<Warming>,
    /// Cancelled once the server has been asked to stop.
    pub(crate) stopping: CancellationToken,
    pub(crate) live: Arc<Live>,
}

/// Whether a path is one of these. They are answered whatever the limits of clients are.
pub(crate) fn is_health(path: &str) -> bool {
    ["/healthz", "/readyz"].contains(&path)
}

pub(crate) fn routes(readiness: Readiness) -> Router {
    Router::new().route("/healthz", get(async || "alive\n")).route("/readyz", get(ready)).with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    readiness.live.watched();
    if readiness.stopping.is_cancelled() {
        return problem::respond(Reason::STOPPING, "the server is stopping");
    }
    if let Some(progress) = readiness.warming.progress() {
        return problem::respond(Reason::WARMING, &format!("the records are being warmed: {progress}"));
    }
    let refusing = readiness.store.health().await.refusing_writes;
    if let Some(reason) = refusing.get(&Lane::Service) {
        let detail =
            format!("writes that serving needs, such as the audit (lane {}), are refused: {reason}", Lane::Service);
        return problem::respond(Reason::REFUSES_WRITES, &detail);
    }
    for (lane, what) in [(Lane::Text, "volumes"), (Lane::Records, "records")] {
        if let Some(reason) = refusing.get(&lane) {
            return format!("ready to read; changes of {what} (lane {lane}) are refused: {reason}\n").into_response();
        }
    }
    "ready\n".into_response()
}
