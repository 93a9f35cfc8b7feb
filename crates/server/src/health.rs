//! `/healthz`: the process answers. `/readyz`: it can do its work.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use store::Store;
use tokio_util::sync::CancellationToken;

use crate::problem;

/// What readiness depends on.
#[derive(Clone)]
pub(crate) struct Readiness {
    pub(crate) store: Arc<dyn Store>,
    /// Cancelled once the server has been told to stop.
    pub(crate) stopping: CancellationToken,
}

pub(crate) fn routes(readiness: Readiness) -> Router {
    Router::new().route("/healthz", get(async || "alive\n")).route("/readyz", get(ready)).with_state(readiness)
}

async fn ready(State(readiness): State<Readiness>) -> Response {
    if readiness.stopping.is_cancelled() {
        return problem::respond(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    }
    match readiness.store.health().await.refusing_writes {
        Some(reason) => problem::respond(StatusCode::SERVICE_UNAVAILABLE, &format!("writes are refused: {reason}")),
        None => "ready\n".into_response(),
    }
}
