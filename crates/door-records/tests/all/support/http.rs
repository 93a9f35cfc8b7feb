//! Requests over HTTP.

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderMap, Method, Request, StatusCode, header};
use serde_json::Value;
use tower::ServiceExt;

/// What came back.
pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answered {
    /// Its JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Its lines of JSON.
    pub fn lines(&self) -> Vec<Value> {
        self.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Its entity tag.
    pub fn etag(&self) -> String {
        self.headers[header::ETAG].to_str().unwrap().to_owned()
    }
}

/// Sends a request.
pub async fn send(
    router: &Router,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Answered {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 64 << 20).await.unwrap();
    Answered { status: parts.status, headers: parts.headers, body: String::from_utf8(body.to_vec()).unwrap() }
}

/// Sends a GET.
pub async fn get(router: &Router, path: &str) -> Answered {
    send(router, Method::GET, path, &[], Body::empty()).await
}

/// Sends a PUT.
pub async fn put(router: &Router, path: &str, record: Value) -> Answered {
    send(router, Method::PUT, path, &[], record.to_string()).await
}

/// Sends a PATCH.
pub async fn patch(router: &Router, path: &str, record: Value) -> Answered {
    send(router, Method::PATCH, path, &[], record.to_string()).await
}
