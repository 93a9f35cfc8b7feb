//! The server's own errors, as `application/problem+json` (RFC 9457).

use axum::response::{IntoResponse, Response};
use door_http::{Problem, Reason};
use heads::ObjectsError;
use http::StatusCode;

/// A response that says what is wrong.
pub(crate) fn respond(reason: Reason, detail: &str) -> Response {
    Problem::new(reason, &detail, false).into_response()
}

/// The response for a body that an extractor of axum refuses.
pub(crate) fn of_body(status: StatusCode, why: &str) -> Response {
    let reason = match status {
        StatusCode::PAYLOAD_TOO_LARGE => Reason::TOO_LARGE,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Reason::UNSUPPORTED_MEDIA_TYPE,
        _ => Reason::INVALID,
    };
    respond(reason, why)
}

/// The response to an operator for an error of the library, with its details.
pub(crate) fn of_library(error: &ObjectsError) -> Response {
    Problem::new(error.into(), error, true).into_response()
}
