//! Gives each request an id: the client's, if it sent a harmless one, or a fresh one. The id is in
//! logs, the audit, and the response.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderName, HeaderValue};

use crate::next::Next;

/// The header of the id, in requests and responses.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

const BYTES_MAX: usize = 64;

/// The id of a request; an extension of it.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(Arc<str>);

impl RequestId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Accepts a client's id only if it cannot be mistaken for anything else in a log line.
    fn taken(value: &HeaderValue) -> Option<Self> {
        let text = value.to_str().ok()?;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_harmless = (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed);
        is_harmless.then(|| Self(text.into()))
    }

    fn fresh() -> Self {
        Self(hex::encode(rand::random::<[u8; 8]>()).into())
    }
}

/// The outermost layer.
pub(crate) async fn assign(mut request: Request, next: impl Next) -> Response {
    let id = request.headers().get(HEADER).and_then(RequestId::taken).unwrap_or_else(RequestId::fresh);
    let value = HeaderValue::from_str(id.as_str());
    request.extensions_mut().insert(id);
    let mut response = next.run(request).await;
    if let Ok(value) = value {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_harmless_id_is_accepted() {
        for text in ["a", "A.b_c-9", &"x".repeat(BYTES_MAX)] {
            let taken = HeaderValue::from_str(text).ok().and_then(|value| RequestId::taken(&value));
            assert_eq!(taken.as_ref().map(RequestId::as_str), Some(text));
        }
        for text in ["", "a b", "a\"b", "a=b", "é", &"x".repeat(BYTES_MAX + 1)] {
            let taken = HeaderValue::from_bytes(text.as_bytes()).ok().and_then(|value| RequestId::taken(&value));
            assert!(taken.is_none(), "{text}");
        }
    }
}
