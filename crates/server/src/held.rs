//! Access to the store for commands of the administrator, which cannot open it while the server
//! holds it: reading its rows and contents, and making it read-only.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use door_http::Reason;
use heads::ObjectsError;
use serde::{Deserialize, Serialize};
use store::wire::{self, Question};
use store::{Call, Class, Deadline, Store, StoreError, read_only};

use crate::problem;

/// The time limit of one call of the store.
const CALL_MAX: Duration = Duration::from_secs(25);

fn call() -> Call {
    Call::new(Class::Content, Deadline::within(CALL_MAX)).strong()
}

pub(crate) fn routes(store: Arc<dyn Store>) -> Router {
    Router::new()
        .route("/admin/store", post(ask))
        .route("/admin/store/contents/{id}", get(read_content))
        .route("/admin/read-only", get(why_read_only).put(make_read_only).delete(take_changes))
        .with_state(store)
}

fn refused(error: StoreError) -> Response {
    problem::of_library(&ObjectsError::Store(error))
}

/// `POST /admin/store`: a [`Question`], encoded, and its answer.
async fn ask(State(store): State<Arc<dyn Store>>, question: Bytes) -> Result<Bytes, Response> {
    let question: Question =
        wire::decode(&question).map_err(|error| problem::respond(Reason::INVALID, &error.to_string()))?;
    wire::encode_answer(wire::answer(store.as_ref(), call(), question).await).map_err(refused)
}

/// The query of `GET /admin/store/contents/ID`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    from: u64,
    to: u64,
}

/// `GET /admin/store/contents/ID`: bytes of a content; 404 if there is no such sealed content.
async fn read_content(
    State(store): State<Arc<dyn Store>>,
    Path(id): Path<String>,
    Query(range): Query<Range>,
) -> Result<Response, Response> {
    let absent = || problem::respond(Reason::ABSENT, "there is no such content");
    let id = id.parse().map_err(|_| absent())?;
    let content = store.read_content(call(), id, range.from..range.to).await.map_err(refused)?;
    Ok(Body::from_stream(content.ok_or_else(absent)?).into_response())
}

/// Why the store is read-only, if it is.
#[derive(Serialize)]
struct ReadOnly {
    reason: Option<String>,
}

async fn why_read_only(State(store): State<Arc<dyn Store>>) -> Result<Json<ReadOnly>, Response> {
    let reason = read_only::reason(store.as_ref()).await.map_err(refused)?;
    Ok(Json(ReadOnly { reason }))
}

/// The query of `PUT /admin/read-only`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasonQuery {
    reason: String,
}

/// `PUT /admin/read-only`: once this has returned, the server changes nothing but the audit.
async fn make_read_only(
    State(store): State<Arc<dyn Store>>,
    Query(ReasonQuery { reason }): Query<ReasonQuery>,
) -> Result<Json<ReadOnly>, Response> {
    read_only::set(store.as_ref(), Some(&reason)).await.map_err(refused)?;
    Ok(Json(ReadOnly { reason: Some(reason) }))
}

/// `DELETE /admin/read-only`: makes the store writable again.
async fn take_changes(State(store): State<Arc<dyn Store>>) -> Result<Json<ReadOnly>, Response> {
    read_only::set(store.as_ref(), None).await.map_err(refused)?;
    Ok(Json(ReadOnly { reason: None }))
}
