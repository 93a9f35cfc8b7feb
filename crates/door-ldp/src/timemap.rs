//! TimeMaps: the versions of a resource as a list, in pages (RFC 7089, sections 2.2.3 and 5; Fedora
//! API, section 4.3).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::Peekable;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use door_http::Second;
use door_http::accept::{self, Offer};
use futures::stream;
use heads::timeline::Version;
use heads::{ResourcePath, RevisionId};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use rdf::vocab::{PREFIXES, ldp};
use rdf::{NamedNode, NamedNodeRef, Syntax, Term, Triple, Writer};
use repository::{ResourceError, Versions};

use crate::address::{At, Site, Target};
use crate::conditions::{Reading, Validators};
use crate::errors::{ACCEPT_POST, LdpError};
use crate::format::Format;
use crate::query::Parameters;
use crate::request::{LdpRequest, empty, unsent};
use crate::version_name::{InvalidVersionName, VersionName};
use crate::{links, managed};

/// The methods of a TimeMap.
pub const ALLOW: &str = "GET, HEAD, OPTIONS, POST";

/// RFC 7089, section 5.
const LINK_FORMAT: &str = "application/link-format";

/// What the response to a POST depends on: with a time it makes a version of its body.
const VARY_POST: HeaderName = HeaderName::from_static("vary-post");

/// Versions on a page if the client does not say.
const PAGE_VERSIONS: usize = 1_000;
/// Most versions on a page.
const PAGE_VERSIONS_MAX: usize = 10_000;
/// Bytes of links that are sent together.
const PIECE_BYTES: usize = 16 << 10;

const TIME_MAP: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("http://mementoweb.org/ns#TimeMap");
const MEMENTO: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("http://mementoweb.org/ns#Memento");
const ORIGINAL: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("http://mementoweb.org/ns#original");
const CREATED: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("http://purl.org/dc/terms/created");

/// The fields of the form that compares two versions.
pub const COMPARED: [&str; 2] = ["older", "newer"];

/// The versions that a query requests.
#[derive(Clone, Copy, Default)]
pub struct Query {
    /// The first one.
    pub from: Option<VersionName>,
    /// The last one.
    pub until: Option<VersionName>,
    /// Most versions on a page.
    pub limit: Option<usize>,
    /// The versions that people compare, if the query names any.
    pub compared: [Option<VersionName>; 2],
}

/// A page of a TimeMap.
struct Page {
    versions: Vec<(VersionName, RevisionId)>,
    /// Where the next page begins.
    next: Option<VersionName>,
    /// The first version there is, and the last; [`RevisionId::ZERO`] if there is none.
    ends: [RevisionId; 2],
}

impl Page {
    /// A tag that changes when other versions are listed, when others are the first or the last one,
    /// and when the next page begins elsewhere. It is the same on all servers of one release.
    fn tag(&self) -> u64 {
        let revisions: Vec<_> = self.versions.iter().map(|(_, revision)| *revision).collect();
        let next = self.next.map(|name| name.to_string());
        let mut hasher = DefaultHasher::new();
        (self.ends, revisions, next).hash(&mut hasher);
        hasher.finish()
    }
}

impl Query {
    fn of(query: Option<&str>) -> Result<Self, LdpError> {
        let known = ["from", "until", "limit", COMPARED[0], COMPARED[1]];
        let asked = Parameters::only(query, &known)?;
        let version =
            |name| asked.read_as(name, |value| value.parse().map_err(|error: InvalidVersionName| error.to_string()));
        Ok(Self {
            from: version("from")?,
            until: version("until")?,
            limit: asked.number("limit", PAGE_VERSIONS_MAX)?,
            compared: [version(COMPARED[0])?, version(COMPARED[1])?],
        })
    }

    /// The revision from which on, and that below which.
    pub fn revisions(&self) -> [RevisionId; 2] {
        let from = self.from.map_or(RevisionId::ZERO, VersionName::first);
        [from, self.until.map_or(RevisionId::LAST, VersionName::end).max(from)]
    }

    /// As in an address, with the question mark.
    pub fn written(&self) -> String {
        let [older, newer] = self.compared;
        let names = [("from", self.from), ("until", self.until), (COMPARED[0], older), (COMPARED[1], newer)];
        let mut fields: Vec<_> =
            names.into_iter().filter_map(|(field, name)| Some(format!("{field}={}", name?))).collect();
        fields.extend(self.limit.map(|limit| format!("limit={limit}")));
        if fields.is_empty() { String::new() } else { format!("?{}", fields.join("&")) }
    }

    /// The same from another version on.
    fn going_on(&self, from: Option<VersionName>) -> String {
        Self { from, compared: [None, None], ..*self }.written()
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
        let syntax = match format {
            Some(Format::Html) => return self.page_of_versions(&versions, &query).await,
            Some(Format::Graph(syntax)) => Some(syntax),
            None => None,
        };
        let page = self.page(&versions, &query).await?;

        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        self.describe_timemap(headers);
        headers.append(header::VARY, HeaderValue::from_static("accept"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        let format_tag = format.map_or(Syntax::ALL.len() + 1, Format::tag);
        let variant = format!("{:x}-{format_tag:x}", page.tag());
        let validators = Validators::of_graph(versions.newest(), None, &variant);
        let reading = match self.is_dated(&versions).await? {
            true => {
                validators.insert(headers);
                validators.reading(&self.headers)
            }
            false => {
                validators.insert_tag(headers);
                validators.reading_undated(&self.headers)
            }
        };
        let list = self.iri_at(At::All);
        if let Some(next) = page.next {
            links::append(headers, &format!("{list}{}", query.going_on(Some(next))), "next");
        }
        if reading? == Reading::NotModified {
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
        let at = Addresses { site: self.site.clone(), target: self.target.clone() };
        *response.body_mut() = match syntax {
            None => in_pieces(Links { rest: links_of(at, &query, page).peekable() })?,
            Some(syntax) => {
                let writer = Some(Writer::new(syntax, PREFIXES));
                in_pieces(Statements { writer, rest: statements_of(at, page) })?
            }
        };
        Ok(response)
    }

    /// Whether the time of the newest version says that the list is still the same. Another version
    /// may follow within the same second, and a version may be added or deleted, or cease to be
    /// kept, without a new one.
    async fn is_dated(&self, versions: &Versions) -> Result<bool, LdpError> {
        let repository = &self.library().repository;
        let are_all_kept = repository.knows_as_of(self.path(), RevisionId::ZERO);
        let is_settled = repository.is_settled(Second::of(versions.newest().time()).end());
        let settings = self.settings();
        let may_change = settings.delete_versions || settings.receive_versions;
        Ok(are_all_kept && is_settled && !may_change && !versions.has_received().await?)
    }

    /// The types and methods of a list of versions.
    pub async fn timemap_options(&self) -> Result<Response, LdpError> {
        self.ends(&self.versions().await?).await?;
        let mut response = empty(StatusCode::OK);
        self.describe_timemap(response.headers_mut());
        Ok(response)
    }

    pub fn describe_timemap(&self, headers: &mut HeaderMap) {
        for class in [ldp::RESOURCE, ldp::RDF_SOURCE, ldp::CONTAINER] {
            links::append(headers, class.as_str(), "type");
        }
        self.describe_in_time(headers);
        if self.library().repository.are_versions_explicit(self.path()) {
            let rule = format!("{}#explicit-versions", self.site.iri_of(&ResourcePath::root(), "constraints"));
            links::append(headers, &rule, ldp::CONSTRAINED_BY.as_str());
        }
        headers.insert(header::ALLOW, HeaderValue::from_static(ALLOW));
        // Any body is ignored, unless a time is stated.
        headers.insert(ACCEPT_POST, HeaderValue::from_static("*/*"));
        if self.settings().receive_versions {
            headers.insert(VARY_POST, HeaderValue::from_static("Memento-Datetime"));
        }
    }

    /// The first version there is, and the last; `None` if none is listed of a resource that is
    /// there, because none was asked for.
    pub async fn ends(&self, versions: &Versions) -> Result<Option<[RevisionId; 2]>, LdpError> {
        let (first, last) =
            (versions.revision_from(RevisionId::ZERO).await?, versions.revision_below(RevisionId::LAST).await?);
        if let (Some(first), Some(last)) = (first, last) {
            return Ok(Some([first, last]));
        }
        let is_empty = self.library().repository.are_versions_explicit(self.path()) && versions.is_live();
        is_empty.then_some(None).ok_or_else(|| ResourceError::Absent(self.path().clone()).into())
    }

    /// The names of versions, which are in order of time.
    pub async fn names_of(&self, versions: &Versions, listed: &[Version]) -> Result<Vec<VersionName>, LdpError> {
        let mut names = Vec::with_capacity(listed.len());
        let mut earlier: Option<&Version> = None;
        for version in listed {
            let second = |version: &Version| Second::of(version.revision.time());
            names.push(match earlier {
                // The one before it says whether it is the first of its second, unless one that is
                // not listed is between.
                Some(earlier) if second(earlier) == second(version) => VersionName::of(version.revision, false),
                Some(earlier) if version.follows(earlier) => VersionName::of(version.revision, true),
                _ => self.name_of(versions, version.revision).await?,
            });
            earlier = Some(version);
        }
        Ok(names)
    }

    async fn page(&self, versions: &Versions, query: &Query) -> Result<Page, LdpError> {
        let Some(ends) = self.ends(versions).await? else {
            return Ok(Page { versions: Vec::new(), next: None, ends: [RevisionId::ZERO; 2] });
        };
        let [from, to] = query.revisions();
        let limit = query.limit.unwrap_or(PAGE_VERSIONS);
        let listed = versions.page(from, to, limit + 1).await?;
        let names = self.names_of(versions, &listed).await?;
        let mut found: Vec<_> = names.into_iter().zip(listed.iter().map(|version| version.revision)).collect();
        let next = (found.len() > limit).then(|| found.pop()).flatten().map(|(name, _)| name);
        Ok(Page { versions: found, next, ends })
    }
}

/// The addresses of a resource at different times.
struct Addresses {
    site: Site,
    target: Target,
}

impl Addresses {
    fn at(&self, at: At) -> String {
        self.site.iri_of_target(&Target { at, ..self.target.clone() })
    }
}

/// The page as links, one after the other (RFC 7089, sections 5 and 5.1.2).
fn links_of(address: Addresses, query: &Query, page: Page) -> impl Iterator<Item = String> + Send + use<> {
    let (original, list) = (address.at(At::Present), address.at(At::All));
    let http = |(_, revision): &(VersionName, RevisionId)| Second::of(revision.time()).http();
    let mut own = vec![("type", LINK_FORMAT.to_owned())];
    own.extend(page.versions.first().map(|first| ("from", http(first))));
    own.extend(page.versions.last().map(|last| ("until", http(last))));
    let own: Vec<_> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut links = vec![
        links::link(&original, "original", &[]),
        links::link(&original, "timegate", &[]),
        links::link(&format!("{list}{}", query.going_on(query.from)), "self", &own),
    ];
    if let Some(next) = page.next {
        let next_page = format!("{list}{}", query.going_on(Some(next)));
        let from = next.second().http();
        links.push(links::link(&next_page, "timemap", &[("type", LINK_FORMAT), ("from", &from)]));
    }
    let mementos = page.versions.into_iter().map(move |(name, revision)| {
        let rel = match page.ends.map(|end| end == revision) {
            [true, true] => "first last memento",
            [true, false] => "first memento",
            [false, true] => "last memento",
            [false, false] => "memento",
        };
        let datetime = name.second().http();
        links::link(&address.at(At::Version(name)), rel, &[("datetime", &datetime)])
    });
    links.into_iter().chain(mementos)
}

/// The page as statements.
fn statements_of(address: Addresses, page: Page) -> impl Iterator<Item = Triple> + Send + use<> {
    let list = NamedNode::new_unchecked(address.at(At::All));
    let say = |subject: &NamedNode, predicate: NamedNodeRef<'_>, object: Term| {
        Triple::new(subject.clone(), predicate.into_owned(), object)
    };
    let types = [TIME_MAP, ldp::RESOURCE, ldp::RDF_SOURCE, ldp::CONTAINER];
    let mut of_list: Vec<_> = types.map(|class| say(&list, rdf::vocab::rdf::TYPE, class.into_owned().into())).into();
    of_list.push(say(&list, ORIGINAL, NamedNode::new_unchecked(address.at(At::Present)).into()));
    let address = Arc::new(address);
    let memento = move |name| NamedNode::new_unchecked(address.at(At::Version(name)));
    let contained = {
        let memento = memento.clone();
        page.versions.clone().into_iter().map(move |(name, _)| say(&list, ldp::CONTAINS, memento(name).into()))
    };
    let described = page.versions.into_iter().flat_map(move |(name, revision)| {
        let memento = memento(name);
        [
            say(&memento, rdf::vocab::rdf::TYPE, MEMENTO.into_owned().into()),
            say(&memento, CREATED, managed::time(revision.time())),
        ]
    });
    of_list.into_iter().chain(contained).chain(described)
}

/// Pieces of statements in a syntax.
struct Statements<I> {
    /// `None` at the end.
    writer: Option<Writer>,
    rest: I,
}

impl<I: Iterator<Item = Triple>> Iterator for Statements<I> {
    type Item = Result<Bytes, LdpError>;

    fn next(&mut self) -> Option<Self::Item> {
        let writer = self.writer.as_mut()?;
        for triple in self.rest.by_ref() {
            if let Err(error) = writer.push(triple.as_ref()) {
                return Some(Err(LdpError::NotAcceptable(error.to_string())));
            }
            if let Some(piece) = writer.chunk() {
                return Some(Ok(piece));
            }
        }
        self.writer.take().map(|writer| Ok(writer.finish()))
    }
}

/// Pieces of links.
struct Links<I: Iterator> {
    rest: Peekable<I>,
}

impl<I: Iterator<Item = String>> Iterator for Links<I> {
    type Item = Result<Bytes, LdpError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut piece = String::new();
        while piece.len() < PIECE_BYTES
            && let Some(link) = self.rest.next()
        {
            piece += &link;
            piece += if self.rest.peek().is_some() { ",\n" } else { "\n" };
        }
        (!piece.is_empty()).then(|| Ok(piece.into()))
    }
}

/// A body of pieces that are made while it is sent. If there is only one, its length is known.
fn in_pieces(pieces: impl Iterator<Item = Result<Bytes, LdpError>> + Send + 'static) -> Result<Body, LdpError> {
    let mut pieces = pieces.fuse();
    let first = pieces.next().transpose()?.unwrap_or_default();
    Ok(match pieces.next() {
        None => first.into(),
        Some(second) => Body::from_stream(stream::iter([Ok(first), second].into_iter().chain(pieces))),
    })
}
