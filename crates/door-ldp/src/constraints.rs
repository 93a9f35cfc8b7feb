//! The page that explains refusals (LDP 1.0, section 4.2.1.6), and the style of pages for people.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};

use crate::format::SECURITY_POLICY;

/// The page.
pub fn page() -> Response {
    sent(include_str!("constraints.html"), "text/html; charset=utf-8")
}

/// The stylesheet.
pub fn style() -> Response {
    sent(include_str!("style.css"), "text/css; charset=utf-8")
}

fn sent(text: &'static str, content_type: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, SECURITY_POLICY);
    response
}
