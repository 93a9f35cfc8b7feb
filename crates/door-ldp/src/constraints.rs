//! The page that explains refusals (LDP 1.0, section 4.2.1.6), and the style of pages for people.

use axum::body::Body;
use axum::response::Response;
use door_http::page::{self, Page};
use heads::ResourcePath;
use http::{HeaderValue, header};
use repository::backlinks::GIVING_MAX;

use crate::address::Site;
use crate::pages;
use crate::settings::DefaultModel;

/// The page. It names the interaction model of a graph that is created without one (Fedora API,
/// section 3.5), and how many containers may give members to one resource.
pub fn page(site: &Site, default: DefaultModel) -> Response {
    let page = pages::about(site, &ResourcePath::root(), "What this repository refuses");
    let rules = include_str!("constraints.html").replace("DEFAULT", default.class());
    let rules = rules.replace("GIVING_MAX", &GIVING_MAX.to_string());
    sent(format!("{}{rules}{}", page.begin(), Page::END), page::TYPE)
}

/// The stylesheet.
pub fn style() -> Response {
    sent(page::STYLE, page::STYLE_TYPE)
}

fn sent(text: impl Into<Body>, content_type: HeaderValue) -> Response {
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CONTENT_SECURITY_POLICY, page::SECURITY_POLICY);
    response
}
