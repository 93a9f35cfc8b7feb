//! Errors for people: a problem (RFC 9457) becomes a page if a browser asks.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use door_http::accept::{self, Offer};
use door_http::page::{self, STYLE_PATH};
use door_http::{Page, Place};
use http::{HeaderValue, StatusCode, header};
use maud::html;
use serde::Deserialize;

/// The media type of problems.
const PROBLEM: &str = "application/problem+json";

/// All browsers accept this when they open a page.
const XHTML: &str = "application/xhtml+xml";

/// Fetch Metadata Request Headers, section 2.2.
const FETCH_MODE: &str = "sec-fetch-mode";

/// Most bytes of a problem. Its message is cut long before.
const PROBLEM_BYTES_MAX: usize = 64 << 10;

/// The members of a problem that people read.
#[derive(Deserialize)]
struct Problem {
    title: String,
    detail: String,
}

/// The way to the root from the path of a request of a browser that opens a page; `None` for other
/// requests. Some libraries name `text/html` too: the one of Java does, by default.
pub(crate) fn preferred(request: &Request) -> Option<String> {
    let headers = request.headers();
    let accepted = headers.get(header::ACCEPT)?.to_str().ok()?;
    let is_browser = accepted.contains(XHTML) || headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate");
    let offers = [Offer::new(PROBLEM, false), Offer::new("application/json", false), Offer::new("text/html", true)];
    let is_preferred = is_browser && accept::media_type(headers, &offers).copied().unwrap_or(false);
    is_preferred.then(|| page::to_root(request.uri().path()))
}

/// The page of a problem; other responses stay as they are. `to_root` leads to the root.
pub(crate) async fn of(response: Response, to_root: &str) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.headers().get(header::CONTENT_TYPE).is_none_or(|value| value != PROBLEM) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let bytes = to_bytes(body, PROBLEM_BYTES_MAX).await.unwrap_or_default();
    let Ok(problem) = serde_json::from_slice::<Problem>(&bytes) else {
        return Response::from_parts(head, Body::from(bytes));
    };
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_TYPE, page::TYPE);
    head.headers.insert(header::CONTENT_SECURITY_POLICY, page::SECURITY_POLICY);
    head.headers.append(header::VARY, HeaderValue::from_static("accept"));
    Response::from_parts(head, Body::from(shown(status, &problem, to_root)))
}

fn shown(status: StatusCode, problem: &Problem, to_root: &str) -> String {
    let page = Page {
        title: problem.title.clone(),
        style: format!("{to_root}{STYLE_PATH}"),
        home: to_root.to_owned(),
        places: vec![Place::new("Volumes", to_root)],
        way: Vec::new(),
    };
    page.with(&html! {
        p.note { (problem.detail) }
        @if status == StatusCode::UNAUTHORIZED {
            p { "This server requires a token, which programs send in the field " code { "Authorization" } "." }
        }
        p.lead { "Status " (status.as_u16()) }
    })
}
