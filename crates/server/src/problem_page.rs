//! Errors for people: a problem (RFC 9457) becomes a page if a browser asks.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use door_http::accept::{self, Offer};
use door_http::page::{self, STYLE_PATH};
use door_http::{MayRead, Page, Place};
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode, header};
use maud::html;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::places::Places;
use crate::sign_in;

/// The media type of problems.
const PROBLEM: &str = "application/problem+json";

/// All browsers accept this when they open a page.
const XHTML: &str = "application/xhtml+xml";

/// Fetch Metadata Request Headers, section 2.2.
const FETCH_MODE: &str = "sec-fetch-mode";

/// Most containers above a path that a page names. Each address has the whole path.
const ABOVE_MAX: usize = 8;

/// Most slashes in a path about which there is a page. No resource is deeper, and each link of a
/// page goes all the way up: a page about a very long path would be far larger than its address.
const SLASHES_MAX: usize = 128;

/// The end of the address of a tombstone.
const TOMBSTONE: &str = "/fcr:tombstone";

/// The end of the address of a file's page.
const DESCRIPTION: &str = "/fcr:metadata";

/// Most bytes of a problem. Its message is cut long before.
const PROBLEM_BYTES_MAX: usize = 64 << 10;

/// The members of a problem that people read.
#[derive(Deserialize)]
struct Problem {
    title: String,
    detail: String,
}

/// A browser that opens a page.
pub(crate) struct Visit {
    /// The way to the root from the path of the request.
    to_root: String,
    /// The path and the query from the root, without the slash at its beginning.
    address: String,
    places: Places,
    /// Whether the browser may open that again.
    is_reading: bool,
}

/// The visit of a browser that opens a page; `None` for other requests. Some libraries name
/// `text/html` too: the one of Java does, by default.
pub(crate) fn preferred(request: &Request, places: &Places) -> Option<Visit> {
    let headers = request.headers();
    let accepted = headers.get(header::ACCEPT)?.to_str().ok()?;
    let is_browser = accepted.contains(XHTML) || headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate");
    let offers = [Offer::new(PROBLEM, false), Offer::new("application/json", false), Offer::new("text/html", true)];
    let path = request.uri().path();
    let has_page = is_browser && path.matches('/').count() <= SLASHES_MAX;
    let is_preferred = has_page && accept::media_type(headers, &offers).copied().unwrap_or(false);
    is_preferred.then(|| Visit {
        to_root: page::to_root(path),
        address: request.uri().path_and_query().map_or("", PathAndQuery::as_str).trim_start_matches('/').to_owned(),
        places: places.clone(),
        is_reading: request.method().is_safe(),
    })
}

/// The page of a problem; other responses stay as they are.
pub(crate) async fn of(response: Response, visit: &Visit) -> Response {
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
    // A browser would ask for a password before it shows the page, and could not sign out.
    let challenges = head.headers.get_all(header::WWW_AUTHENTICATE).iter();
    let others: Vec<_> = challenges.filter(|value| !value.as_bytes().starts_with(b"Basic")).cloned().collect();
    head.headers.remove(header::WWW_AUTHENTICATE);
    for challenge in others {
        head.headers.append(header::WWW_AUTHENTICATE, challenge);
    }
    let mut links = head.headers.get_all(header::LINK).iter().filter_map(|value| value.to_str().ok());
    let tombstone = links.find(|link| link.contains("rel=\"hasTombstone\""));
    let deleted = tombstone.and_then(|link| deleted(visit.path(), link));
    let may_read = head.extensions.get::<MayRead>();
    let page = shown(status, &problem, visit, deleted, may_read);
    Response::from_parts(head, Body::from(page))
}

impl Visit {
    /// The path from the root, without the slash at its beginning.
    fn path(&self) -> &str {
        self.address.split('?').next().unwrap_or_default()
    }
}

/// What was deleted, from the link to its tombstone: the path of the request or one above it. The
/// link has the address that clients know, of which a proxy may have removed the beginning.
fn deleted<'a>(path: &'a str, link: &str) -> Option<&'a str> {
    let tombstone = link.trim_start_matches('<').split('>').next()?;
    let deleted = decoded(tombstone.strip_suffix(TOMBSTONE)?);
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    let mut above = ends.rev().map(|end| &path[..end]);
    above.find(|above| deleted.ends_with(&format!("/{}", decoded(above))))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The containers above a path, if it is one of the repository.
fn way(to_root: &str, path: &str, repository: &str) -> Vec<Place> {
    let repository = repository.trim_start_matches('/');
    let Some(within) = path.strip_prefix(repository).filter(|_| !repository.is_empty()) else { return Vec::new() };
    let names: Vec<_> = within.split('/').filter(|name| !name.is_empty()).collect();
    let Some((_, above)) = names.split_last() else { return Vec::new() };
    let mut way = vec![Place::new("Repository", format!("{to_root}{repository}"))];
    for count in above.len().saturating_sub(ABOVE_MAX) + 1..=above.len() {
        let name = decoded(above[count - 1]);
        way.push(Place::new(name, format!("{to_root}{repository}{}", above[..count].join("/"))));
    }
    way
}

fn shown(
    status: StatusCode,
    problem: &Problem,
    visit: &Visit,
    deleted: Option<&str>,
    may_read: Option<&MayRead>,
) -> String {
    let Visit { to_root, address, places, is_reading } = visit;
    let path = visit.path();
    let mut sign_in = format!("{to_root}{}", sign_in::PATH);
    if *is_reading {
        let to = form_urlencoded::Serializer::new(String::new()).append_pair(sign_in::TO, address).finish();
        sign_in = format!("{sign_in}?{to}");
    }
    let page = Page {
        title: problem.title.clone(),
        style: format!("{to_root}{STYLE_PATH}"),
        home: to_root.clone(),
        places: places.named(to_root, to_root, Some(&sign_in)),
        search: places.search(to_root, may_read),
        way: way(to_root, path, &places.repository),
    };
    page.with(&html! {
        p.note { (problem.detail) }
        @if status == StatusCode::UNAUTHORIZED {
            p { a.button.primary href=(sign_in) { "Sign in" } }
            p { "Programs send the token in the field " code { "Authorization" } "." }
        }
        @if status == StatusCode::FORBIDDEN { p { a.button href=(sign_in) { "Sign in with another token" } } }
        @if let Some(deleted) = deleted.filter(|_| status == StatusCode::GONE) {
            @let resource = path.strip_suffix(DESCRIPTION).unwrap_or(path);
            @let is_above = resource.len() > deleted.len() + 1;
            p {
                a.button href=(format!("{to_root}{deleted}/fcr:forms")) {
                    @if is_above { "Bring back what it belonged to" } @else { "Bring it back" }
                }
            }
        }
        p.lead { "Status " (status.as_u16()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_deleted_is_found_from_the_link_to_its_tombstone() {
        let link = |deleted: &str| format!("<https://a.example/b/rest/{deleted}/fcr:tombstone>; rel=\"hasTombstone\"");
        for (path, tombstone, found) in [
            ("rest/c", "c", Some("rest/c")),
            ("rest/c/", "c", Some("rest/c")),
            ("rest/c/d/fcr:versions", "c", Some("rest/c")),
            ("rest/c%2Cd/e", "c,d", Some("rest/c%2Cd")),
            ("rest/%c3%a4", "%C3%A4", Some("rest/%c3%a4")),
            ("rest/c/rest/c", "c", Some("rest/c")),
            ("rest/c/rest/c", "c/rest/c", Some("rest/c/rest/c")),
            ("rest/c", "other", None),
        ] {
            assert_eq!(deleted(path, &link(tombstone)), found, "{path} {tombstone}");
        }
        assert_eq!(deleted("rest/c", "<rest/c>; rel=\"hasTombstone\""), None);
    }
}
