//! `GET /volumes/`: all volumes, streamed in the order of the store, which is stable and not
//! alphabetical.
//!
//! With `limit=N` (at most 10,000) it is one part of the list. The end of a part names the next
//! (`next`, and `Link` with `rel="next"`), for `after=`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use door_http::accept::{self, Offer};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use hathi::VolumeId;
use heads::{ListToken, ObjectsResult};
use http::{HeaderMap, HeaderValue, header};
use library::Library;
use volumes::Listing;

use crate::DataDoor;
use crate::asking::segment;
use crate::errors::{AsProblem, DoorError};
use crate::params::Params;

/// Volumes read from the store at a time.
const AT_ONCE: usize = 1_000;

/// Most volumes of one part.
const LIMIT_MAX: usize = 10_000;

/// The format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// One id per line.
    Text,
    /// `{"volumes":[{"id":…},…],"next":…}`.
    Json,
    /// `{"id":…}`, one per line.
    Lines,
    /// For people.
    Html,
}

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const LINES: &str = "application/x-ndjson";
const HTML: &str = "text/html";

/// In the server's order of preference.
const FORMATS: [(&str, Format); 4] =
    [(TEXT, Format::Text), (JSON, Format::Json), (LINES, Format::Lines), (HTML, Format::Html)];

impl Format {
    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Json => JSON,
            Self::Lines => LINES,
            Self::Html => "text/html; charset=utf-8",
        })
    }

    /// Its value of the parameter `format`.
    fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Lines => "ndjson",
            Self::Html => "html",
        }
    }

    fn begin(self) -> &'static str {
        match self {
            Self::Text | Self::Lines => "",
            Self::Json => "{\"volumes\":[",
            Self::Html => HTML_BEGIN,
        }
    }

    fn item(self, id: &VolumeId, first: bool) -> String {
        let json = serde_json::json!({ "id": id });
        match self {
            Self::Text => format!("{id}\n"),
            Self::Lines => format!("{json}\n"),
            Self::Json => format!("{}{json}", if first { "\n" } else { ",\n" }),
            Self::Html => format!("<li><a href=\"{}\">{}</a>\n", segment(id), escaped(id.as_str())),
        }
    }

    fn end(self, next: Option<&Next>) -> String {
        match self {
            Self::Text | Self::Lines => String::new(),
            Self::Json => {
                let token = next.map(|next| next.after.to_string());
                format!("],\"next\":{}}}\n", serde_json::json!(token))
            }
            Self::Html => {
                let link =
                    |next: &Next| format!("<p><a rel=\"next\" href=\"{}\">More</a></p>\n", escaped(&next.query()));
                format!("</ul>\n{}</html>\n", next.map(link).unwrap_or_default())
            }
        }
    }
}

const HTML_BEGIN: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
<title>Volumes</title>
<style>body{font:1rem/1.7 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1.25rem}ul{columns:20rem;padding-left:1.2rem}</style>
<h1>Volumes</h1>
<ul>
";

/// Allows only the style in the page, by its digest. Ids come from outside, and one that contains
/// markup must not load or run anything.
const SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'sha256-5AlqGz71WP0ISsAEYGU5bXkosq9UBRejGFPAaGmjUoA='; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Where a list continues.
struct Next {
    after: ListToken,
    limit: usize,
    format: Format,
}

impl Next {
    /// As a relative address. Tokens need no percent-encoding.
    fn query(&self) -> String {
        format!("?after={}&limit={}&format={}", self.after, self.limit, self.format.word())
    }
}

/// Text as HTML shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The handler.
pub async fn list(
    State(door): State<Arc<DataDoor>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    let params = Params::of_query(query.as_deref());
    let format = format(&params, &headers)?;
    let after = token(&params)?;
    let mut response = match limit(&params)? {
        Some(limit) => stretch(&door.library, format, after, limit).await?,
        None => whole(door.library.clone(), format, after).await?,
    };
    response.headers_mut().insert(header::CONTENT_TYPE, format.content_type());
    if format == Format::Html {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, SECURITY_POLICY);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

fn format(params: &Params, headers: &HeaderMap) -> Result<Format, DoorError> {
    let by_word = |word: &str| FORMATS.iter().map(|(_, format)| *format).find(|format| format.word() == word);
    let asked = params.keyword("format", "text, json, ndjson or html", by_word)?;
    let offers = FORMATS.map(|(media_type, format)| Offer::new(media_type, format));
    let preferred = || accept::media_type(headers, &offers).copied();
    let offered = || DoorError::NotAcceptable(FORMATS.map(|(media_type, _)| media_type).join(", "));
    asked.or_else(preferred).ok_or_else(offered)
}

fn token(params: &Params) -> Result<Option<ListToken>, DoorError> {
    let malformed = |value: &str| DoorError::MalformedParameter {
        name: "after",
        value: value.to_owned(),
        expected: "the `next` of an earlier list",
    };
    params.value("after").map(|value| value.parse().map_err(|_| malformed(value))).transpose()
}

fn limit(params: &Params) -> Result<Option<usize>, DoorError> {
    let in_bounds = |word: &str| word.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    params.keyword("limit", "1 to 10000", in_bounds)
}

/// One part, with the start of the next.
async fn stretch(
    library: &Library,
    format: Format,
    mut after: Option<ListToken>,
    limit: usize,
) -> Result<Response, DoorError> {
    let mut volumes = Vec::new();
    while volumes.len() < limit {
        let listing = library.volumes.list(after.as_ref(), limit - volumes.len()).await?;
        volumes.extend(listing.volumes);
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    let items: String = volumes.iter().enumerate().map(|(index, id)| format.item(id, index == 0)).collect();
    let next = after.map(|after| Next { after, limit, format });
    let body = [format.begin(), &items, &format.end(next.as_ref())].concat();
    let mut response = Response::new(Body::from(body));
    let link = next.map(|next| format!("<{}>; rel=\"next\"", next.query()));
    if let Some(link) = link.and_then(|link| HeaderValue::try_from(link).ok()) {
        response.headers_mut().insert(header::LINK, link);
    }
    Ok(response)
}

/// The whole rest of the list, streamed.
async fn whole(library: Library, format: Format, after: Option<ListToken>) -> Result<Response, DoorError> {
    let mut listings = listings(library, after);
    // The first volumes are read before the response begins, so that an early error has its status.
    let first = listings.try_next().await?;
    let mut count = 0_u64;
    let items = stream::iter(first.map(Ok)).chain(listings).map_ok(move |listing| {
        let mut text = String::new();
        for id in &listing.volumes {
            text.push_str(&format.item(id, count == 0));
            count += 1;
        }
        Bytes::from(text)
    });
    let piece = |text: String| stream::iter([Ok(Bytes::from(text))]);
    let body = piece(format.begin().to_owned()).chain(items).chain(piece(format.end(None)));
    Ok(Response::new(Body::from_stream(body)))
}

fn listings(library: Library, after: Option<ListToken>) -> BoxStream<'static, ObjectsResult<Listing>> {
    let read = |(library, after): (Library, Option<Option<ListToken>>)| async move {
        let Some(after) = after else { return Ok(None) };
        let listing = library.volumes.list(after.as_ref(), AT_ONCE).await?;
        let next = listing.next.clone().map(Some);
        Ok(Some((listing, (library, next))))
    };
    stream::try_unfold((library, Some(after)), read).boxed()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_security_policy_allows_only_the_style_of_the_page() {
        let style = HTML_BEGIN.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        let source = format!("style-src 'sha256-{}';", STANDARD.encode(Sha256::digest(style)));
        assert!(SECURITY_POLICY.to_str().unwrap().contains(&source), "the digest of the style is {source}");
    }
}
