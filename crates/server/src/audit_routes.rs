//! The audit over HTTP, for the administrator alone: to read it, and to erase a person from it.

use std::net::IpAddr;

use audit::{Conditions, Erased, Requester, WantedKind, Whom};
use axum::body::Body;
use axum::extract::{Form, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use door_http::Reason;
use futures::{StreamExt, TryStreamExt};
use heads::ObjectsError;
use http::header;
use jiff::Timestamp;
use library::Library;
use serde::{Deserialize, Serialize};
use store::UnixMillis;

use crate::problem;

pub(crate) fn routes(library: Library) -> Router {
    Router::new().route("/admin/audit", get(read)).route("/admin/audit/erase", post(erase)).with_state(library)
}

/// The query of `GET /admin/audit`: a period (from, inclusive, to, exclusive, RFC 3339),
/// conditions, and whether only the most requested volumes are wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    top: Option<usize>,
    token: Option<String>,
    address: Option<IpAddr>,
    target: Option<String>,
    kind: Option<WantedKind>,
    result: Option<String>,
}

/// JSON, one object per line: the entries in order as a stream or, with `top`, one summary.
async fn read(
    State(library): State<Library>,
    Extension(requester): Extension<Requester>,
    Query(query): Query<AuditQuery>,
) -> Result<Response, Response> {
    let AuditQuery { from, to, top, token, address, target, kind, result } = query;
    let from = from.map_or(UnixMillis(0), unix_millis);
    let to = to.map_or(UnixMillis(u64::MAX), unix_millis);
    let result = result.map(|text| text.parse()).transpose();
    let result = result.map_err(|why: String| problem::respond(Reason::INVALID, &why))?;
    let body = match top {
        Some(most) => {
            let top = library.audit.top(from, to, most).await.map_err(|error| problem::of_library(&error))?;
            Body::from(json_line(&top).map_err(|error| problem::of_library(&error))?)
        }
        None => {
            let except = Some(requester.request_id);
            let conditions = Conditions { token, address, target, kind, result, except };
            let entries = library.audit.read_where(from, to, conditions);
            Body::from_stream(entries.map(|entry| json_line(&entry?)).map_err(axum::BoxError::from))
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// The form of `POST /admin/audit/erase`: a token or an address, and until when. It is a form, so
/// that neither the log nor the audit names the person.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErasedPerson {
    token: Option<String>,
    address: Option<IpAddr>,
    before: Option<Timestamp>,
}

/// How many records named the person, and until when (RFC 3339) all do so no more.
#[derive(Serialize)]
struct ErasedRecords {
    records: u64,
    until: String,
}

async fn erase(
    State(library): State<Library>,
    Form(person): Form<ErasedPerson>,
) -> Result<Json<ErasedRecords>, Response> {
    let whom = match (person.token, person.address) {
        (Some(token), None) => Whom::Token(token),
        (None, Some(address)) => Whom::Address(address),
        _ => return Err(problem::respond(Reason::INVALID, "name a token or an address, and one of them only")),
    };
    let before = person.before.map_or(UnixMillis(u64::MAX), unix_millis);
    let erased = library.audit.erase(&whom, before).await;
    let Erased { records, until } = erased.map_err(|error| problem::of_library(&error))?;
    let until = Timestamp::from_millisecond(i64::try_from(until.0).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX);
    Ok(Json(ErasedRecords { records, until: until.to_string() }))
}

fn unix_millis(time: Timestamp) -> UnixMillis {
    UnixMillis(u64::try_from(time.as_millisecond()).unwrap_or(0))
}

fn json_line(value: &impl Serialize) -> Result<String, ObjectsError> {
    serde_json::to_string(value).map(|line| line + "\n").map_err(|error| ObjectsError::Internal(error.to_string()))
}
