//! The page of the search: a form, and results as a table. It needs no script.

use axum::response::Response;
use door_http::body::with_share;
use form_urlencoded::parse;
use futures::{StreamExt, TryStreamExt, stream};
use heads::ResourcePath;
use maud::{Markup, html};
use search::{Facet, Hit};

use super::terms::Title;
use super::{about, local, members, name_of, place, terms};
use crate::errors::LdpError;
use crate::request::LdpRequest;
use crate::search::{Asked, Searched, address, incomplete, uncounted};

/// Results on a page. Each of them is read for its title.
const RESULTS_MAX: usize = 50;

/// Results that are read together.
const READ_AT_ONCE: usize = 8;

/// Types of its own that a result is shown with.
const TYPES_SHOWN: usize = 4;

/// The parameter with a path.
const PATH: &str = "fedora_id";

/// The fields of the form: parameter, label, kind of input, and an example.
const FIELDS: [(&str, &str, &str, &str); 7] = [
    (PATH, "Path", "text", "letters/*"),
    ("rdf_type", "Type", "text", "ldp:Container"),
    ("mime_type", "Media type", "text", "image/*"),
    ("modified_from", "Changed from", "date", ""),
    ("modified_to", "Changed to", "date", ""),
    ("size_from", "Bytes from", "number", ""),
    ("size_to", "Bytes to", "number", ""),
];

/// The orders that the form offers.
const ORDERS: [(&str, &str); 6] = [
    ("", "any"),
    ("fedora_id", "path"),
    ("modified", "time of change"),
    ("created", "time of creation"),
    ("content_size", "size"),
    ("mime_type", "media type"),
];

impl LdpRequest {
    /// The page of a search. A search that is refused has the form and the reason.
    pub async fn search_page(
        &self,
        asked: Result<Asked, LdpError>,
        mut response: Response,
    ) -> Result<Response, LdpError> {
        let query = self.query.as_deref().unwrap_or_default();
        let (content, share) = match asked {
            Err(error @ LdpError::Search(_)) => {
                *response.status_mut() = http::StatusCode::BAD_REQUEST;
                (html! { p.note role="alert" { (error) } (form(query)) }, None)
            }
            Err(error) => return Err(error),
            Ok(asked) if !asked.is_search => (form(query), None),
            Ok(mut asked) => {
                asked.query.max = asked.query.max.min(RESULTS_MAX);
                let searched = self.search_for(asked.clone()).await?;
                let found = &searched.found;
                let paths: Vec<_> = found.hits.iter().map(|hit| hit.path.clone()).collect();
                let titles = stream::iter(paths).map(|path| members::title_at(self.library(), path));
                let titles: Vec<_> = titles.buffered(READ_AT_ONCE).try_collect().await?;
                (html! { (form(query)) (self.results(&asked, &searched, titles)) }, Some(searched.share))
            }
        };
        let root = ResourcePath::root();
        let mut page = about(&self.site, &root, "Search");
        page.way = vec![place(super::ROOT_NAME, &self.site.iri(&root))];
        let page = page.with(&content);
        *response.body_mut() = match share {
            Some(share) => with_share(page, share)?.into(),
            None => page.into(),
        };
        Ok(response)
    }

    fn results(&self, asked: &Asked, Searched { found, next, .. }: &Searched, titles: Vec<Option<Title>>) -> Markup {
        html! {
            h2 { "Results" }
            @if let Some(wider) = wider(asked) { (wider) }
            @if let Some(why) = incomplete(found) { p.note { "Some may be missing: " (why) "." } }
            @if let Some(why) = uncounted(found) { p.note { "There is no total: " (why) "." } }
            @if let Some(total) = found.total { p.lead { (total) " in all" } }
            @if found.hits.is_empty() {
                p { @if found.next.is_some() { "None so far." } @else { "Nothing was found." } }
            } @else {
                div.wide {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Path" }
                                th scope="col" { "Type" }
                                th.number scope="col" { "Size" }
                                th scope="col" { "Changed" }
                            }
                        }
                        tbody { @for (hit, title) in found.hits.iter().zip(titles) { (self.result(hit, title)) } }
                    }
                }
            }
            @if let Some(next) = next {
                nav.row.pager aria-label="Pages of the results" {
                    span {}
                    a.button rel="next" href=(format!("?{next}")) { "Next page" }
                }
            }
        }
    }

    fn result(&self, hit: &Hit, title: Option<Title>) -> Markup {
        let Hit { path, facet, document } = hit;
        let is_description = *facet == Facet::Description;
        // The page of bytes is that of their description.
        let is_binary = document.media_type(Facet::Itself).is_some() || document.len_bytes(Facet::Itself).is_some();
        let of_page = Hit { facet: if is_binary { Facet::Description } else { *facet }, ..hit.clone() };
        let title = title.filter(|title| title.text != name_of(path));
        html! {
            tr {
                th scope="row" {
                    a href=(local(&address(&self.site, &of_page))) { "/" (path) }
                    @if is_description { " " small.badge { "description" } }
                    @if let Some(title) = title { br; (title.shown()) }
                }
                td {
                    (terms::title(document.media_type(*facet).unwrap_or(kind(hit))))
                    @for iri in own_types(hit).take(TYPES_SHOWN) { br; small { (terms::iri(&self.site, iri)) } }
                }
                td.number { @if let Some(len_bytes) = document.len_bytes(*facet) { (terms::size(len_bytes)) } }
                td { (terms::time(document.modified(*facet))) }
            }
        }
    }
}

/// What a result is, for people.
fn kind(hit: &Hit) -> &'static str {
    match hit.document.kind(hit.facet) {
        search::Kind::RdfSource | search::Kind::Description => "Description",
        search::Kind::Binary => "File",
        _ => "Container",
    }
}

/// Searches that find more, if the search is for one path.
fn wider(asked: &Asked) -> Option<Markup> {
    let path = asked.parameter(PATH)?.trim_matches('/');
    // Addresses and ids of Fedora name one resource, whatever stars are around them.
    if path.is_empty() || path.contains(['*', ':']) {
        return None;
    }
    let link = |pattern: String| format!("?{}", asked.with(PATH, &pattern));
    Some(html! {
        p.lead {
            "Only the resource at this path. There are also those whose path "
            a href=(link(format!("{path}*"))) { "begins with it" } " or "
            a href=(link(format!("*{path}*"))) { "contains it" } "."
        }
    })
}

/// The types that the description of a result gives it.
fn own_types(hit: &Hit) -> impl Iterator<Item = &str> {
    let own = hit.document.own_types.iter().filter(|_| hit.facet == Facet::Itself);
    own.map(String::as_str)
}

/// The form, with what the query asks for, even if no search can be made of it.
fn form(query: &str) -> Markup {
    let given: Vec<_> = parse(query.as_bytes()).filter(|(_, value)| !value.is_empty()).collect();
    let value = |name: &str| given.iter().find(|(known, _)| known == name).map_or("", |(_, value)| &**value);
    html! {
        // Without an address a form leads to the page itself.
        form role="search" aria-label="Search by all fields" {
            div.fields {
                @for (name, label, kind, example) in FIELDS {
                    label {
                        (label)
                        @let placeholder = Some(example).filter(|example| !example.is_empty());
                        @let min = Some("0").filter(|_| kind == "number");
                        input type=(kind) name=(name) value=(value(name)) placeholder=[placeholder] min=[min];
                    }
                }
                label {
                    "Order"
                    select name="order_by" {
                        @for (name, label) in ORDERS { option value=(name) selected[value("order_by") == name] { (label) } }
                    }
                }
                label {
                    "Direction"
                    select name="order" {
                        @for (name, label) in [("asc", "ascending"), ("desc", "descending")] {
                            option value=(name) selected[value("order") == name] { (label) }
                        }
                    }
                }
            }
            p.row {
                button.primary { "Search" }
                span.title { "A star stands for any text, as in letters/*." }
            }
        }
    }
}
