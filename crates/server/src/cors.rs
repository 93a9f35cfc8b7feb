//! Pages of other sites that may use the doors (the CORS protocol of the Fetch standard): off
//! unless `http.cors_origins` names them.
//!
//! The layer of tower-http takes every OPTIONS request for a preflight, but the repository door has
//! its own responses to OPTIONS. So this layer checks for the headers of a preflight, and passes
//! other requests on.

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use thiserror::Error;

use crate::next::Next;

/// The entry that means every origin.
const ANY: &str = "*";

/// The headers that such a page may read, besides those that every page may (Fetch, section 2.2.2).
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Accept-Patch, Accept-Post, Accept-Ranges, Allow, Atomic-Expires, Atomic-ID, \
     Content-Digest, Content-Disposition, Content-Encoding, Content-Location, \
     Content-Range, Date, Digest, ETag, Link, Location, Memento-Datetime, Penates-Entries, Penates-Import, Penates-Missing, \
     Preference-Applied, RateLimit, RateLimit-Policy, Repr-Digest, Retry-After, Vary, Vary-Post, WWW-Authenticate, X-Request-Id",
);

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE");

/// How long a browser may keep the response to a preflight, in seconds.
const PREFLIGHT_LIFE_S: HeaderValue = HeaderValue::from_static("3600");

/// The allowed origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    named: Vec<String>,
    is_any: bool,
}

/// Why an entry of `http.cors_origins` is not an origin.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "`{0}` is not an origin: write a scheme, a host and optionally a port, such as `https://reader.example.org`; or `*` for any"
)]
pub(crate) struct InvalidOrigin(String);

impl Origins {
    pub(crate) fn parse(origins: &[String]) -> Result<Self, InvalidOrigin> {
        let is_any = origins.iter().any(|origin| origin == ANY);
        let named =
            origins.iter().filter(|origin| *origin != ANY).map(|origin| parse(origin)).collect::<Result<_, _>>()?;
        Ok(Self { named, is_any })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && !self.is_any
    }

    /// Whether a request comes from a page of a named origin, which may also change things. `*` is
    /// not enough for that: a browser would send credentials that a person has typed in.
    pub(crate) fn names_origin_of(&self, headers: &HeaderMap) -> bool {
        headers
            .get(header::ORIGIN)
            .is_some_and(|origin| self.named.iter().any(|named| named.as_bytes() == origin.as_bytes()))
    }

    /// The value of `Access-Control-Allow-Origin` for a request; `None`: none is sent.
    fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        match (self.names_origin_of(headers), self.is_any) {
            (true, _) => Some(origin.clone()),
            (false, true) => Some(HeaderValue::from_static(ANY)),
            (false, false) => None,
        }
    }
}

/// An origin as browsers write it (Fetch, section 3.2): in lower case, without a slash at its end.
fn parse(text: &str) -> Result<String, InvalidOrigin> {
    let invalid = || InvalidOrigin(text.to_owned());
    let uri: Uri = text.parse().map_err(|_| invalid())?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(invalid()) };
    let origin = format!("{scheme}://{authority}").to_ascii_lowercase();
    let is_origin = matches!(scheme, "http" | "https") && !origin.contains('@') && origin.eq_ignore_ascii_case(text);
    is_origin.then_some(origin).ok_or_else(invalid)
}

/// A layer.
pub(crate) async fn answer(origins: &Origins, request: Request, next: impl Next) -> Response {
    let headers = request.headers();
    let allowed = origins.allowed(headers);
    let asks_leave = request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match (&allowed, asks_leave) {
        (Some(_), true) => preflight(headers),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(allowed) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    response
}

/// Allows a browser to send the request. Its token then decides whether the request is carried out.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_LIFE_S);
    headers.append(header::VARY, HeaderValue::from_static("access-control-request-headers"));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rate::{LIMIT, POLICY};

    #[test]
    fn a_page_may_read_every_field_that_announces_a_limit() {
        let exposed: Vec<_> = EXPOSED.to_str().unwrap().split(", ").map(str::to_ascii_lowercase).collect();
        for name in [LIMIT, POLICY, header::RETRY_AFTER] {
            assert!(exposed.iter().any(|exposed| exposed == name.as_str()), "{name}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_a_host_and_perhaps_a_port() {
        let origins = ["https://Reader.example.org", "http://localhost:3000"].map(str::to_owned);
        let origins = Origins::parse(&origins).unwrap();
        for (origin, is_named) in [
            ("https://reader.example.org", true),
            ("http://localhost:3000", true),
            ("http://reader.example.org", false),
            ("https://reader.example.org.evil", false),
            ("http://localhost", false),
            ("null", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ORIGIN, origin.parse().unwrap())]);
            assert_eq!(origins.names_origin_of(&headers), is_named, "{origin}");
        }
        for text in ["", "null", "reader.example.org", "https://a.example/", "https://u@a.example", "ftp://a.example"] {
            assert_eq!(Origins::parse(&[text.to_owned()]), Err(InvalidOrigin(text.to_owned())), "{text}");
        }
    }
}
