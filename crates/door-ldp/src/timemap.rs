//! TimeMaps: the versions of a resource as a list, in pages (RFC 7089, sections 2.2.3 and 5; Fedora
//! API, section 4.3).

use axum::response::Response;
use door_http::accept::{self, Offer};
use heads::RevisionId;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rdf::vocab::ldp;
use rdf::{NamedNode, NamedNodeRef, Syntax, Term, Triple};
use repository::{ResourceError, Versions};

use crate::address::At;
use crate::conditions::{Reading, Validators};
use crate::errors::{ACCEPT_POST, LdpError};
use crate::format::Format;
use crate::request::{LdpRequest, empty, unsent};
use crate::version_name::{Second, VersionName};
use crate::{links, managed};

/// The methods of a TimeMap.
pub const ALLOW: &str = "GET, HEAD, OPTIONS, POST";

/// RFC 7089, section 5.
const LINK_FORMAT: &str = "application/link-format";

/// Versions on a page if the client does not say.
const PAGE_VERSIONS: usize = 1_000;
/// Most versions on a page.
const PAGE_VERSIONS_MAX: usize = 10_000;

const TIME_MAP: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("http://mementoweb.org/ns#TimeMap");
const MEMENTO: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("http://mementoweb.org/ns#Memento");
const ORIGINAL: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("http://mementoweb.org/ns#original");
const CREATED: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("http://purl.org/dc/terms/created");

/// The versions that a query requests.
struct Query {
    /// The first one, and the revision from which on.
    from: Option<VersionName>,
    until: Option<VersionName>,
    limit: Option<usize>,
}

/// A page of a TimeMap.
struct Page {
    versions: Vec<(VersionName, RevisionId)>,
    /// Where the next page begins.
    next: Option<VersionName>,
    /// The first version there is, and the last.
    ends: [RevisionId; 2],
}

impl Query {
    fn of(query: Option<&str>) -> Result<Self, LdpError> {
        let mut asked = Self { from: None, until: None, limit: None };
        let refused = |why: String| LdpError::Header { name: "query", why };
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let version = || value.parse().map_err(|error| refused(format!("{name}: {error}")));
            match &*name {
                "from" => asked.from = Some(version()?),
                "until" => asked.until = Some(version()?),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=PAGE_VERSIONS_MAX).contains(limit));
                    asked.limit = Some(limit.ok_or_else(|| refused(format!("limit is 1 to {PAGE_VERSIONS_MAX}")))?);
                }
                _ => {}
            }
        }
        Ok(asked)
    }

    /// The same from another version on.
    fn written(&self, from: Option<VersionName>) -> String {
        let mut fields = Vec::new();
        fields.extend(from.map(|from| format!("from={from}")));
        fields.extend(self.until.map(|until| format!("until={until}")));
        fields.extend(self.limit.map(|limit| format!("limit={limit}")));
        if fields.is_empty() { String::new() } else { format!("?{}", fields.join("&")) }
    }
}

impl LdpRequest {
    /// A page of the list of versions.
    pub async fn get_timemap(&self) -> Result<Response, LdpError> {
        let offers: Vec<_> = Syntax::ALL
            .into_iter()
            .map(|syntax| Offer {
                media_type: syntax.media_type(),
                profile: syntax.profile(),
                value: Some(Format::Graph(syntax)),
            })
            .chain([Offer::new("text/html", Some(Format::Html)), Offer::new(LINK_FORMAT, None)])
            .collect();
        let offered = || offers.iter().map(|offer| offer.media_type).collect::<Vec<_>>().join(", ");
        let format = *accept::media_type(&self.headers, &offers).ok_or_else(|| LdpError::NotAcceptable(offered()))?;
        let query = Query::of(self.query.as_deref())?;
        let versions = self.versions().await?;
        let page = self.page(&versions, &query).await?;

        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        self.describe_timemap(headers);
        headers.append(header::VARY, HeaderValue::from_static("accept"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        let format_tag = format.map_or(Syntax::ALL.len() + 1, Format::tag);
        let variant = format!("{}-{format_tag:x}", page.ends[0]);
        let validators = Validators::of_graph(versions.newest(), None, &variant);
        validators.insert(headers);
        let list = self.iri_at(At::All);
        if let Some(next) = page.next {
            links::append(headers, &format!("{list}{}", query.written(Some(next))), "next");
        }
        if validators.reading(&self.headers)? == Reading::NotModified {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(unsent(response));
        }
        match format {
            None => _ = headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(LINK_FORMAT)),
            Some(format) => format.insert(headers),
        }
        if self.method == Method::HEAD {
            return Ok(unsent(response));
        }
        *response.body_mut() = match format {
            None => self.link_format(&query, &page).into(),
            Some(format) => {
                let mut writer = format.writer(&self.site, &list);
                for triple in self.statements_of(&page) {
                    let written = writer.push(triple.as_ref());
                    written.map_err(|error| LdpError::NotAcceptable(error.to_string()))?;
                }
                writer.finish().into()
            }
        };
        Ok(response)
    }

    /// The types and methods of a list of versions.
    pub async fn timemap_options(&self) -> Result<Response, LdpError> {
        self.page(&self.versions().await?, &Query { from: None, until: None, limit: Some(1) }).await?;
        let mut response = empty(StatusCode::OK);
        self.describe_timemap(response.headers_mut());
        Ok(response)
    }

    fn describe_timemap(&self, headers: &mut HeaderMap) {
        for class in [ldp::RESOURCE, ldp::RDF_SOURCE, ldp::CONTAINER] {
            links::append(headers, class.as_str(), "type");
        }
        self.describe_in_time(headers);
        headers.insert(header::ALLOW, HeaderValue::from_static(ALLOW));
        // Any body is ignored.
        headers.insert(ACCEPT_POST, HeaderValue::from_static("*/*"));
    }

    async fn page(&self, versions: &Versions, query: &Query) -> Result<Page, LdpError> {
        let absent = || LdpError::Resource(ResourceError::Absent(self.path().clone()));
        let first = versions.oldest_from(RevisionId::ZERO).await?.ok_or_else(absent)?.revision();
        let last = versions.newest_below(RevisionId::LAST).await?.ok_or_else(absent)?.revision();
        let from = query.from.map_or(RevisionId::ZERO, VersionName::first);
        let to = query.until.map_or(RevisionId::LAST, VersionName::end);
        let limit = query.limit.unwrap_or(PAGE_VERSIONS);
        let mut found = Vec::new();
        let mut earlier = None;
        for revision in versions.page(from, to.max(from), limit + 1).await? {
            let second = Second::of(revision.time());
            let name = match earlier {
                // The one before it on the page says whether it is the first of its second.
                Some(earlier) => VersionName::of(revision, earlier != second),
                None => self.name_of(versions, revision).await?,
            };
            earlier = Some(second);
            found.push((name, revision));
        }
        let next = (found.len() > limit).then(|| found.pop()).flatten().map(|(name, _)| name);
        Ok(Page { versions: found, next, ends: [first, last] })
    }

    /// The page as links (RFC 7089, sections 5 and 5.1.2).
    fn link_format(&self, query: &Query, page: &Page) -> String {
        let (original, list) = (self.iri_at(At::Present), self.iri_at(At::All));
        let http = |(_, revision): &(VersionName, RevisionId)| Second::of(revision.time()).http();
        let mut own = vec![("type", LINK_FORMAT.to_owned())];
        own.extend(page.versions.first().map(|first| ("from", http(first))));
        own.extend(page.versions.last().map(|last| ("until", http(last))));
        let own: Vec<_> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut lines = vec![
            links::link(&original, "original", &[]),
            links::link(&original, "timegate", &[]),
            links::link(&format!("{list}{}", query.written(query.from)), "self", &own),
        ];
        if let Some(next) = page.next {
            let next_page = format!("{list}{}", query.written(Some(next)));
            let from = next.second().http();
            lines.push(links::link(&next_page, "timemap", &[("type", LINK_FORMAT), ("from", &from)]));
        }
        for (name, revision) in &page.versions {
            let rel = match page.ends.map(|end| end == *revision) {
                [true, true] => "first last memento",
                [true, false] => "first memento",
                [false, true] => "last memento",
                [false, false] => "memento",
            };
            let datetime = name.second().http();
            lines.push(links::link(&self.iri_at(At::Version(*name)), rel, &[("datetime", &datetime)]));
        }
        lines.join(",\n") + "\n"
    }

    /// The page as statements.
    fn statements_of(&self, page: &Page) -> Vec<Triple> {
        let list = NamedNode::new_unchecked(self.iri_at(At::All));
        let say = |subject: &NamedNode, predicate: NamedNodeRef<'_>, object: Term| {
            Triple::new(subject.clone(), predicate.into_owned(), object)
        };
        let types = [TIME_MAP, ldp::RESOURCE, ldp::RDF_SOURCE, ldp::CONTAINER];
        let mut triples: Vec<_> =
            types.map(|class| say(&list, rdf::vocab::rdf::TYPE, class.into_owned().into())).into();
        triples.push(say(&list, ORIGINAL, NamedNode::new_unchecked(self.iri_at(At::Present)).into()));
        let mementos: Vec<_> = page
            .versions
            .iter()
            .map(|(name, revision)| (NamedNode::new_unchecked(self.iri_at(At::Version(*name))), revision.time()))
            .collect();
        triples.extend(mementos.iter().map(|(memento, _)| say(&list, ldp::CONTAINS, memento.clone().into())));
        for (memento, time) in mementos {
            triples.push(say(&memento, rdf::vocab::rdf::TYPE, MEMENTO.into_owned().into()));
            triples.push(say(&memento, CREATED, managed::time(time)));
        }
        triples
    }
}
