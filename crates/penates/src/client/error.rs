//! Errors of requests.

use std::error::Error;
use std::io;
use std::time::Duration;

use http::{Response, StatusCode};
use serde::Deserialize;

use super::{Body, whole};

/// Any error of a transport.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection, or it ended before a response.
    #[error("the server cannot be reached: {0}")]
    Unreachable(#[source] Cause),
    /// The response ended early.
    #[error("the response ended early: {0}")]
    Broken(#[source] Cause),
    /// The server refused, with a reason.
    #[error("{detail} (HTTP {})", status.as_u16())]
    Refused {
        /// The status.
        status: StatusCode,
        /// The reason.
        detail: String,
        /// The word for the reason (`kind` of a problem document), if it was sent.
        kind: Option<String>,
        /// `Retry-After` in seconds, if it was sent.
        retry_after_s: Option<u64>,
    },
    /// The request is not valid HTTP.
    #[error("making the request: {0}")]
    Request(#[from] http::Error),
    /// The response is not what this program expects.
    #[error("unexpected response: {0}")]
    NotUnderstood(#[from] serde_json::Error),
}

/// The `kind` of a refusal by a store that is read-only.
const READ_ONLY: &str = "read-only";

/// A problem document (RFC 9457, section 3.1). `kind` is this project's extension.
#[derive(Deserialize)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
    kind: Option<String>,
}

impl ClientError {
    /// The reason in a refusal: a problem document's detail, or the plain text.
    pub async fn of_response(response: Response<Body>) -> Self {
        let status = response.status();
        let retry_after = response.headers().get(http::header::RETRY_AFTER);
        let retry_after_s = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let text = whole(response).await.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
        let (detail, kind) = text.map_or((None, None), |text| reason(&text));
        Self::Refused { status, detail: detail.unwrap_or_else(|| status.to_string()), kind, retry_after_s }
    }

    /// The status with which the server refused.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the server refused because its store is read-only.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Refused { kind: Some(kind), .. } if kind == READ_ONLY)
    }

    /// Whether other requests of this kind would fail for the same reason: out of reach, not
    /// allowed, out of space.
    pub fn stops_all(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused { status, .. } => {
                matches!(*status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::INSUFFICIENT_STORAGE)
            }
            _ => false,
        }
    }

    /// What the user may do about it, if an option of this program helps.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Refused { status: StatusCode::UNAUTHORIZED, .. } => {
                Some("pass a token with --token or PENATES_TOKEN")
            }
            Self::Unreachable(cause) if is_distrust(cause.as_ref()) => Some(
                "name the certificate to trust with --ca-cert (one that the server made itself is tls/cert.pem in its data folder)",
            ),
            _ => None,
        }
    }

    /// After how long the same request may succeed; `None` if it will not.
    pub fn passing_after(&self) -> Option<Duration> {
        match self {
            Self::Unreachable(_) | Self::Broken(_) => Some(Duration::ZERO),
            Self::Refused {
                status: StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS,
                retry_after_s,
                ..
            } => Some(Duration::from_secs(retry_after_s.unwrap_or(0))),
            _ => None,
        }
    }
}

/// Whether TLS did not trust the server's certificate.
fn is_distrust(error: &(dyn Error + 'static)) -> bool {
    // An I/O error does not report the error within as its source.
    let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let distrusts =
        |error: &(dyn Error + 'static)| matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)));
    distrusts(error) || held.is_some_and(|held| is_distrust(held)) || error.source().is_some_and(is_distrust)
}

/// The reason in the text of a refusal, and the word for it.
fn reason(text: &str) -> (Option<String>, Option<String>) {
    let problem: Option<Problem> = serde_json::from_str(text).ok();
    let (detail, kind) = match problem {
        Some(Problem { title, detail, kind }) => (detail.or(title), kind),
        None => (Some(text.to_owned()), None),
    };
    (detail.filter(|detail| !detail.is_empty()), kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, retry_after_s: Option<u64>) -> ClientError {
        let status = StatusCode::from_u16(status).unwrap_or_default();
        ClientError::Refused { status, detail: String::new(), kind: None, retry_after_s }
    }

    #[test]
    fn passing_errors_are_retried_when_the_server_says_and_no_others() {
        assert_eq!(refused(503, Some(7)).passing_after(), Some(Duration::from_secs(7)));
        assert_eq!(refused(429, None).passing_after(), Some(Duration::ZERO));
        assert_eq!(ClientError::Broken("cut".into()).passing_after(), Some(Duration::ZERO));
        for status in [400, 401, 404, 409, 410, 413, 500, 504, 507] {
            assert_eq!(refused(status, Some(7)).passing_after(), None, "{status}");
        }
    }

    #[test]
    fn the_detail_of_a_problem_document_is_the_reason() {
        assert_eq!(
            reason(r#"{"title":"Not Found","detail":"a.b is not in the store","kind":"absent"}"#),
            (Some("a.b is not in the store".into()), Some("absent".into()))
        );
        assert_eq!(reason(r#"{"title":"Not Found"}"#), (Some("Not Found".into()), None));
    }

    #[test]
    fn plain_text_is_the_reason_and_an_empty_response_has_none() {
        let text = "Missing required parameter volumeIDs";
        assert_eq!(reason(text), (Some(text.into()), None));
        assert_eq!(reason(""), (None, None));
    }
}
