//! Errors in responses: `application/problem+json` (RFC 9457).

use std::fmt::Display;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::reason::Reason;

/// Most characters of a message in a response. A message may quote what the client sent, of any
/// size.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// The field `WWW-Authenticate` of a response to a client whose token does not allow enough (RFC
/// 6750, section 3.1).
pub const INSUFFICIENT_SCOPE: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"Penates\", error=\"insufficient_scope\"");

/// An error in a response, with the members of RFC 9457 and `kind`, by which programs distinguish
/// reasons for one status.
#[derive(Debug)]
pub struct Problem {
    reason: Reason,
    detail: String,
    headers: HeaderMap,
}

impl Problem {
    /// The problem for an error. A response to an internal error says only that there was one,
    /// unless `show_internal`; the log has the details.
    pub fn new(reason: Reason, error: &impl Display, show_internal: bool) -> Self {
        let Reason { status, kind, retry_after_s } = reason;
        let is_unknown = reason == Reason::UNKNOWN_OUTCOME;
        let inside = status == StatusCode::INTERNAL_SERVER_ERROR;
        if inside {
            tracing::error!(kind, error = %error, "a request failed");
        } else {
            tracing::debug!(kind, error = %error, "a request was refused");
        }
        let detail = match (inside && !show_internal, is_unknown) {
            (true, _) => "internal error; the server's log has the details".to_owned(),
            (_, true) => format!("{error}; it may have been applied: check before you repeat it"),
            _ => error.to_string(),
        };
        let detail = match detail.char_indices().nth(MESSAGE_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &detail[..end]),
            None => detail,
        };
        let mut headers = HeaderMap::new();
        if let Some(seconds) = retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        // The message may quote the client. No browser may guess another type for it.
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Self { reason, detail, headers }
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
        respond(self.reason, self.headers, "text/plain; charset=utf-8", self.detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let problem = serde_json::json!({
            "type": "about:blank",
            "title": self.reason.status.canonical_reason().unwrap_or_default(),
            "status": self.reason.status.as_u16(),
            "detail": self.detail,
            "kind": self.reason.kind,
        });
        respond(self.reason, self.headers, "application/problem+json", problem.to_string())
    }
}

/// The response has its reason as an extension too, so that layers can count responses by it.
fn respond(reason: Reason, headers: HeaderMap, content_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = reason.status;
    response.extensions_mut().insert(reason);
    response.headers_mut().extend(headers);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
