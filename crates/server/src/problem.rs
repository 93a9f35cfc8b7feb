//! The server's own errors, as `application/problem+json` (RFC 9457).

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use objects::ObjectsError;
use serde_json::json;

/// When a refused client may retry, in seconds.
const RETRY_AFTER_S: &str = "2";

/// A response with an error. `type` is left out: it is `about:blank`, so `title` is that of the
/// status.
pub(crate) fn respond(status: StatusCode, detail: &str) -> Response {
    let body = json!({ "title": status.canonical_reason(), "status": status.as_u16(), "detail": detail });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
    }
    response
}

/// The response to an error of the library on one of the server's own routes.
pub(crate) fn of_library(error: &ObjectsError) -> Response {
    let status = if error.is_passing() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::INTERNAL_SERVER_ERROR };
    respond(status, &error.to_string())
}
