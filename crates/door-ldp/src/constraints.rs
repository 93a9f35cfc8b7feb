//! The page that explains refusals (LDP 1.0, section 4.2.1.6), and the style of pages for people.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};

use door_http::page;

/// The page.
pub fn page() -> Response {
    sent(include_str!("constraints.html"), page::TYPE)
}

/// The stylesheet.
pub fn style() -> Response {
    sent(page::STYLE, page::STYLE_TYPE)
}

fn sent(text: &'static str, content_type: HeaderValue) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CONTENT_SECURITY_POLICY, page::SECURITY_POLICY);
    response
}
