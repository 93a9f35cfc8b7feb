//! `fcr:search`: Fedora's search, with its parameters, its fields and its answer. Fedora lists what
//! the agent may not read, and answers some malformed requests with 500; this does neither.
//!
//! `asked.rs` reads a request, with `condition.rs` for one condition; `answer.rs` writes JSON.
//! `pages/search.rs` is the page for people.

mod answer;
mod asked;
mod condition;

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use budget::Share;
use door_http::accept::{self, Offer};
use door_http::body::with_share;
use door_http::page;
use heads::ResourcePath;
use http::{HeaderValue, Method, StatusCode, header};
use rdf::{NamedOrBlankNode, Term};
use search::{DOCUMENT_BYTES_MAX, Found, Limits};

use crate::address::kept_iri;
use crate::errors::LdpError;
use crate::links;
use crate::request::{LdpRequest, empty, unsent};

pub use answer::{address, incomplete, uncounted};
pub use asked::Asked;

/// The methods of the search.
pub const ALLOW: &str = "GET, HEAD, OPTIONS";

/// Memory that a search takes: pages of shards, documents that are looked up, and the places of
/// results that are sorted.
const SEARCH_BYTES: u64 = 8 << 20;

/// Memory of each result on a page: its document, and the same in the answer.
const RESULT_BYTES: u64 = 2 * DOCUMENT_BYTES_MAX as u64;

/// Memory of a search with so many results on a page, wherever the page begins.
pub fn memory_bytes(results_max: usize) -> u64 {
    RESULT_BYTES.saturating_mul(results_max as u64).saturating_add(SEARCH_BYTES)
}

/// The most results on a page of a search that takes so much memory, but at least one.
pub fn results_within(bytes_max: u64) -> usize {
    let results = bytes_max.saturating_sub(SEARCH_BYTES) / RESULT_BYTES;
    usize::try_from(results).unwrap_or(usize::MAX).max(1)
}

/// What a search has found.
pub struct Searched {
    /// The results.
    pub found: Found,
    /// The query of the next page; `None`: there is none.
    pub next: Option<String>,
    /// The memory that they and the response take.
    pub share: Share,
}

/// Why a cursor is refused.
const FOREIGN_CURSOR: &str =
    "`cursor` is not one of this search: take it from the link `next` of a page, and change no condition";

/// The response to `OPTIONS`.
pub fn options() -> Response {
    let mut response = empty(StatusCode::NO_CONTENT);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(ALLOW));
    response
}

/// The form of an answer.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Page,
}

const FORMS: [Offer<Form>; 2] = [Offer::new("application/json", Form::Json), Offer::new("text/html", Form::Page)];

/// The types that a description gives its resource, as they are stored.
pub fn own_types(path: &ResourcePath, description: &[u8]) -> Vec<String> {
    // Only the lines about types are parsed: a description may have many others.
    let begin = format!("<{}> <{}> <", kept_iri(path), rdf::vocab::rdf::TYPE.as_str());
    let lines = description.split_inclusive(|byte| *byte == b'\n').filter(|line| line.starts_with(begin.as_bytes()));
    let lines: Vec<&[u8]> = lines.collect();
    if lines.is_empty() {
        return Vec::new();
    }
    let Ok(graph) = rdf::from_stored(&lines.concat()) else { return Vec::new() };
    let class = |triple: &rdf::Triple| match (&triple.subject, &triple.object) {
        (NamedOrBlankNode::NamedNode(_), Term::NamedNode(class)) => Some(class.as_str().to_owned()),
        _ => None,
    };
    graph.iter().filter_map(class).collect()
}

impl LdpRequest {
    /// The results of a search.
    pub async fn search(&self) -> Result<Response, LdpError> {
        let offered = || LdpError::NotAcceptable(FORMS.map(|form| form.media_type).join(", "));
        let form = *accept::media_type(&self.headers, &FORMS).ok_or_else(offered)?;
        let asked = Asked::parse(self.query.as_deref().unwrap_or_default(), &self.site, &self.settings().search);
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("accept"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(header::ALLOW, HeaderValue::from_static(ALLOW));
        match form {
            Form::Json => {
                let asked = asked?;
                let Searched { found, next, share } = self.search_for(asked.clone()).await?;
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                if let Some(next) = next {
                    let address = self.site.iri_of(&ResourcePath::root(), "search");
                    links::append(headers, &format!("{address}?{next}"), "next");
                }
                if self.method == Method::HEAD {
                    return Ok(unsent(response));
                }
                let json = answer::json(&self.site, &asked, &found).to_string();
                drop(found);
                *response.body_mut() = with_share(json, share)?.into();
            }
            Form::Page => {
                headers.insert(header::CONTENT_TYPE, page::TYPE);
                headers.insert(header::CONTENT_SECURITY_POLICY, page::SECURITY_POLICY);
                if self.method == Method::HEAD {
                    asked?;
                    return Ok(unsent(response));
                }
                return self.search_page(asked, response).await;
            }
        }
        Ok(response)
    }

    /// Searches for what the agent may read.
    pub async fn search_for(&self, mut asked: Asked) -> Result<Searched, LdpError> {
        let (order, is_descending) = (asked.query.order(), asked.query.is_descending);
        let search = &self.library().search;
        if let Some(cursor) = &asked.cursor {
            let bytes = BASE64.decode(cursor).unwrap_or_default();
            let place = search.cursors().await?.open(order, is_descending, &bytes);
            asked.query.after = Some(place.ok_or_else(|| LdpError::Search(FOREIGN_CURSOR.to_owned()))?);
        }
        let share = self.library().memory.reserve(&self.party, memory_bytes(asked.query.max)).await?;
        let _turn = self.door.readings.turn(&self.party).await?;
        let settings = self.settings().search;
        let limits = Limits { rows: settings.rows_max, time: settings.time_max };
        let trees: Option<Vec<ResourcePath>> = self.area.is_limited().then(|| self.area.trees().cloned().collect());
        let mut found = search.find(&asked.query, limits, trees.as_deref()).await?;
        // Where another server may keep the index, its lease shows whether it does.
        found.is_complete &= settings.is_kept;
        let next = match &found.next {
            Some(place) => {
                let cursor = search.cursors().await?.seal(order, is_descending, place)?;
                Some(asked.next(&BASE64.encode(cursor), found.offset_left))
            }
            None => None,
        };
        Ok(Searched { found, next, share })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use search::Kind;

    use super::*;
    use crate::model::{Members, Model};

    #[test]
    fn the_types_of_a_description_are_those_of_its_own_resource() {
        let path = ResourcePath::parse("a b").unwrap();
        let description = "<penates:/a%20b> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:t> .\n\
                           <penates:/a%20b> <urn:p> <urn:t2> .\n\
                           <penates:/a%20b#x> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:t3> .\n\
                           <penates:/a%20b> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <penates:/t> .\n";
        assert_eq!(own_types(&path, description.as_bytes()), ["urn:t", "penates:/t"]);
        assert!(own_types(&path, b"<penates:/a%20b> <broken").is_empty());
    }

    #[test]
    fn the_index_gives_each_kind_the_types_that_its_description_has() {
        for (model, kind) in [
            (Model::RdfSource, Kind::RdfSource),
            (Model::Container(Members::Basic), Kind::BasicContainer),
            (Model::Container(Members::Direct), Kind::DirectContainer),
            (Model::Container(Members::Indirect), Kind::IndirectContainer),
            (Model::Binary, Kind::Binary),
        ] {
            let types = model.types().into_iter().chain(model.fedora_types(&ResourcePath::parse("a").unwrap()));
            assert_eq!(types.map(|class| class.as_str()).collect::<Vec<_>>(), kind.types(), "{kind:?}");
        }
    }
}
