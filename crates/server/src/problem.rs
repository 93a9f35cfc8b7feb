//! The server's own errors, as `application/problem+json` (RFC 9457).

use axum::response::{IntoResponse, Response};
use door_http::{Problem, Reason};
use heads::ObjectsError;

/// A response that says what is wrong.
pub(crate) fn respond(reason: Reason, detail: &str) -> Response {
    Problem::new(reason, &detail, false).into_response()
}

/// The response to an operator for an error of the library, with its details.
pub(crate) fn of_library(error: &ObjectsError) -> Response {
    Problem::new(error.into(), error, true).into_response()
}
