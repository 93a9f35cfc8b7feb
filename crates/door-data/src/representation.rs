//! Representations that are small enough for memory: one page, a METS, a record. They have a
//! digest, and entity tags made of it.

use std::future;
use std::ops::Range;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use headers::{ETag, HeaderMapExt, LastModified};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::digest;
use crate::errors::DoorError;
use door_http::Coding;
use door_http::conditional::{self, Condition};
use door_http::ranges::{self, Validators};

/// The metadata of a representation, known before its bytes are made.
pub struct Described {
    /// Its media type.
    pub content_type: &'static str,
    /// Its content coding; `None` if there is no choice.
    pub coding: Option<Coding>,
    /// SHA-256 of its bytes, including the coding.
    pub sha256: [u8; 32],
    /// Time of its revision.
    pub last_modified: LastModified,
}

impl Described {
    /// Evaluates the conditions: whether the client has it already (the response is then complete),
    /// or refuses it.
    pub fn unless_known(&self, headers: &HeaderMap) -> Result<Option<Response>, DoorError> {
        let etag = self.etag();
        Ok(match conditional::evaluate(headers, self.validators(etag.as_ref()))? {
            Condition::Send => None,
            Condition::NotModified => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                self.insert_validators(response.headers_mut());
                Some(response)
            }
        })
    }

    /// The response with it, or with the requested ranges of it.
    pub async fn send(&self, method: &Method, headers: &HeaderMap, bytes: Bytes) -> Result<Response, DoorError> {
        let etag = self.etag();
        let len_bytes = bytes.len() as u64;
        let extent = ranges::extent(method, headers, len_bytes, self.validators(etag.as_ref()))?;
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        self.insert_validators(headers);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        // Uploaded content must not act as this server's own page in a browser; XML can contain
        // HTML.
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
        if self.coding == Some(Coding::Gzip) {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        digest::insert(headers, &self.sha256);
        let open = move |range: Range<u64>| {
            // An extent lies within the bytes, and they are in memory, so usize holds them.
            let piece = bytes.slice(range.start as usize..range.end as usize);
            future::ready(Ok(stream::iter([Ok(piece)]).boxed()))
        };
        ranges::respond(response, extent, len_bytes, open).await
    }

    /// The common headers of 200, 206 and 304 (RFC 9110, section 15.4.5).
    fn insert_validators(&self, headers: &mut HeaderMap) {
        if let Some(etag) = self.etag() {
            headers.typed_insert(etag);
        }
        headers.typed_insert(self.last_modified);
        if self.coding.is_some() {
            headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }

    fn etag(&self) -> Option<ETag> {
        conditional::strong_etag(&hex::encode(self.sha256))
    }

    fn validators<'a>(&'a self, etag: Option<&'a ETag>) -> Validators<'a> {
        Validators { etag, last_modified: Some(&self.last_modified) }
    }
}
