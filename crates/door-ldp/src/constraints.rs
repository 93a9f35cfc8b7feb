//! The page that explains what is refused (LDP 1.0, section 4.2.1.6).

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};

/// The page.
pub fn page() -> Response {
    let mut response = Response::new(Body::from(include_str!("constraints.html")));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}
