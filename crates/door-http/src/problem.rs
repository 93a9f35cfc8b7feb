//! Errors in responses: `application/problem+json` (RFC 9457), with one total match from the
//! domain's errors to statuses.

use std::fmt::Display;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hathi::VolumeError;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use objects::ObjectsError;
use store::StoreError;

/// `Retry-After` in seconds, for a client refused because of load.
const RETRY_AFTER_S: u64 = 2;

/// Most characters of a message in a response. A message may quote what the client sent, of any
/// size.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// An error in a response, with the members of RFC 9457 and `kind`, by which programs distinguish
/// reasons for one status.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    headers: HeaderMap,
}

impl Problem {
    /// The problem for an error. A response to an internal error says only that there was one,
    /// unless `show_internal`; the log has the details.
    pub fn new(status: StatusCode, kind: &'static str, error: &impl Display, show_internal: bool) -> Self {
        let inside = status == StatusCode::INTERNAL_SERVER_ERROR;
        if inside {
            tracing::error!(kind, error = %error, "a request failed");
        } else {
            tracing::debug!(kind, error = %error, "a request was refused");
        }
        let detail = match (inside && !show_internal, status) {
            (true, _) => "internal error; the server's log has the details".to_owned(),
            (_, StatusCode::GATEWAY_TIMEOUT) => {
                format!("{error}; it may have been applied: check before you repeat it")
            }
            _ => error.to_string(),
        };
        let detail = match detail.char_indices().nth(MESSAGE_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &detail[..end]),
            None => detail,
        };
        let mut headers = HeaderMap::new();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER_S.into());
        }
        // The message may quote the client. No browser may guess another type for it.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Self { status, kind, detail, headers }
    }

    /// Adds headers.
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    /// The message alone.
    pub fn into_detail(self) -> String {
        self.detail
    }

    /// As plain text.
    pub fn as_text(self) -> Response {
        respond(self.status, self.headers, "text/plain; charset=utf-8", self.detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let problem = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or_default(),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "kind": self.kind,
        });
        respond(self.status, self.headers, "application/problem+json", problem.to_string())
    }
}

fn respond(status: StatusCode, headers: HeaderMap, content_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().extend(headers);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The status for an error of the domain, and a word by which programs distinguish reasons.
pub fn of_objects(error: &ObjectsError) -> (StatusCode, &'static str) {
    match error {
        ObjectsError::Absent(_) => (StatusCode::NOT_FOUND, "absent"),
        ObjectsError::Gone(_) => (StatusCode::GONE, "gone"),
        ObjectsError::Expired(_) => (StatusCode::GONE, "expired"),
        ObjectsError::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
        ObjectsError::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid"),
        ObjectsError::OverLimit(_) => (StatusCode::PAYLOAD_TOO_LARGE, "over-limit"),
        ObjectsError::Overloaded(_) => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
        ObjectsError::Damaged { .. } | ObjectsError::DamagedResource { .. } => {
            (StatusCode::INTERNAL_SERVER_ERROR, "damaged")
        }
        ObjectsError::Source(error) => of_source(error),
        ObjectsError::Unknown(_) => (StatusCode::GATEWAY_TIMEOUT, "unknown-outcome"),
        ObjectsError::Store(error) => of_store(error),
        ObjectsError::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

/// An invalid volume is the client's fault, unless storing it failed.
fn of_source(error: &VolumeError) -> (StatusCode, &'static str) {
    match error.kind() {
        "io" => (StatusCode::INTERNAL_SERVER_ERROR, "io"),
        kind => (StatusCode::UNPROCESSABLE_ENTITY, kind),
    }
}

fn of_store(error: &StoreError) -> (StatusCode, &'static str) {
    match error {
        StoreError::Limit { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "over-limit"),
        StoreError::Overloaded(_) => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
        StoreError::DeadlinePassed => (StatusCode::SERVICE_UNAVAILABLE, "deadline-passed"),
        StoreError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        StoreError::Poisoned(_) => (StatusCode::SERVICE_UNAVAILABLE, "refuses-writes"),
        StoreError::ReadOnly(_) => (StatusCode::SERVICE_UNAVAILABLE, "read-only"),
        StoreError::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, "full"),
        StoreError::Corrupt { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "damaged"),
        StoreError::Held { .. }
        | StoreError::Format { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Invalid(_)
        | StoreError::Io { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}
