//! GET and HEAD.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use door_http::ranges::{self, Extent};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use headers::ETag;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rdf::vocab::ldp;
use rdf::{Graph, Triple};
use repository::{Backlinks, Binary, BytesPlace, ChildPage, Elsewhere, Handling, Kind, Membership, Part, Resource};

use crate::address::Facet;
use crate::arrange::{Arranged, Contents, Section, arranged};
use crate::conditions::{Reading, Validators};
use crate::errors::LdpError;
use crate::format::Format;
use crate::held::Held;
use crate::incoming::OCTETS;
use crate::paging::{self, Page};
use crate::prefer::{PREFER, Preferences};
use crate::request::{LdpRequest, empty, unsent};
use crate::statements::{Statements, is_container, paths_of};
use crate::stored::{held_description, labelled_apart};
use crate::{digests, files, managed, membership, pages};

impl LdpRequest {
    /// A representation of a resource, or an archive of it.
    pub async fn get(&self) -> Result<Response, LdpError> {
        if let Some(elsewhere) = self.negotiate_time().await? {
            return Ok(elsewhere);
        }
        let resource = self.resource().await?;
        match is_container(&resource) && Format::negotiated_or_archive(&self.headers)?.is_none() {
            true => self.get_archive(&resource, None).await,
            false => self.represent(&resource).await,
        }
    }

    /// A representation of the current resource.
    pub async fn represented(&self) -> Result<Response, LdpError> {
        self.represent(&self.resource().await?).await
    }

    async fn represent(&self, resource: &Resource) -> Result<Response, LdpError> {
        match (self.target.facet, resource.kind()) {
            (Facet::Itself, Kind::Binary(binary)) => self.get_binary(resource, binary).await,
            _ => self.get_graph(resource).await,
        }
    }

    /// The validators of a graph in a format, with the client's preferences. `giving` are the other
    /// containers whose members it has.
    async fn validators_of_graph(
        &self,
        resource: &Resource,
        giving: &[(Membership, Resource)],
        format: Format,
        preferences: &Preferences,
    ) -> Result<Validators, LdpError> {
        let mut variant = format!("{:x}{:x}", format.tag(), preferences.tag());
        if let (Facet::Description, Some(binary)) = (self.target.facet, resource.body().binary()) {
            // It has their size, digest and type.
            variant += &format!("-{}", binary.revision);
        }
        if self.is_page(format) {
            // It has forms only for those who may change something.
            variant += &format!("-p{PAGE_VERSION}{}", if self.reads_only { "r" } else { "" });
        }
        if says_of_others(resource, format, preferences) {
            // Nothing records when the descriptions of all of these changed, so no tag can match.
            variant += &format!("-{:016x}", rand::random::<u64>());
        }
        let mut change = None;
        let is_listed = is_container(resource) && (preferences.containment || preferences.membership);
        if is_listed {
            change = self.library().repository.last_change(resource).await?;
        }
        if !giving.is_empty() {
            // One may get another rule, or be deleted, which changes nothing of the others.
            let mut hasher = DefaultHasher::new();
            for (_, container) in giving {
                let described = container.description_revision();
                (container.path().as_str(), described).hash(&mut hasher);
                change = change.max(Some(described));
            }
            variant += &format!("-{:016x}", hasher.finish());
            let repository = &self.library().repository;
            let asked: Vec<_> = giving.iter().map(|(_, container)| repository.last_change(container).boxed()).collect();
            let changes: Vec<_> = stream::iter(asked).buffered(managed::CONTAINERS_AT_ONCE).try_collect().await?;
            change = change.max(changes.into_iter().flatten().max());
        }
        let listing = (is_listed || !giving.is_empty()).then_some(change);
        let mut validators = Validators::of_graph(resource.description_revision(), listing, &variant);
        if let (Facet::Description, Some(binary)) = (self.target.facet, resource.body().binary()) {
            // Other bytes change it too. A writer still compares with the description alone.
            validators.modified = validators.modified.max(binary.revision.time());
        }
        Ok(validators)
    }

    /// Whether a response is the page of a resource. A client that has preferences gets the
    /// statements that it prefers.
    pub fn is_page(&self, format: Format) -> bool {
        format == Format::Html && !self.headers.contains_key(PREFER)
    }

    async fn get_graph(&self, resource: &Resource) -> Result<Response, LdpError> {
        let format = Format::negotiated(&self.headers)?;
        let preferences = Preferences::of(&self.headers);
        let page = Page::of(self.query.as_deref())?;
        let mut held = Held::new(self.library(), &self.party);
        let giving = match self.target.facet {
            Facet::Itself if preferences.membership => {
                managed::giving_members(self.library(), &self.area, resource.path(), None, &mut held).await?
            }
            _ => Vec::new(),
        };
        let validators = self.validators_of_graph(resource, &giving, format, &preferences).await?;
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        self.describe(resource, headers);
        validators.insert(headers);
        headers.append(header::VARY, HeaderValue::from_static("accept, prefer"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        preferences.confirm(headers);
        let of_others = says_of_others(resource, format, &preferences);
        if of_others {
            headers.remove(header::LAST_MODIFIED);
        }
        let reading = match page.is_some() && is_container(resource) {
            true => validators.reading_undated(&self.headers)?,
            false => validators.reading(&self.headers)?,
        };
        if reading == Reading::NotModified && !of_others {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(unsent(response));
        }
        if let (Some(members_max), None, true) = (preferences.members_max, &page, is_container(resource)) {
            return paging::to_first(&self.site.iri(self.path()), members_max, response);
        }
        format.insert(response.headers_mut());
        if self.is_page(format) {
            // A page has a share of its own.
            drop(held);
            return self.page_of(resource, &giving, page, response).await;
        }
        let writer = format.writer(|| pages::about(&self.site, resource.path(), format!("/{}", resource.path())));
        let statements = |described: Arranged, held| {
            Statements::new(self.library().clone(), self.site.clone(), writer, described).holding(held)
        };
        if let Some(page) = page.filter(|_| is_container(resource)) {
            let on_page = self.children_on(resource, &page, &preferences).await?;
            let iri = self.site.iri(self.path());
            page.describe(&iri, on_page.begins.as_ref(), on_page.next.as_ref(), response.headers_mut());
            if self.method == Method::HEAD {
                return Ok(unsent(response));
            }
            let described = self.statements_on_page(resource, &on_page, &preferences, &mut held).await?;
            *response.body_mut() = statements(described, held).write().await?.into();
            return Ok(response);
        }
        if self.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let described = self.whole_statements(resource, giving, &preferences, &mut held).await?;
        *response.body_mut() = statements(described, held).write().await?.into();
        Ok(response)
    }

    /// The statements about a resource, with those that follow from the containers `giving`.
    async fn whole_statements(
        &self,
        resource: &Resource,
        giving: Vec<(Membership, Resource)>,
        preferences: &Preferences,
        held: &mut Held,
    ) -> Result<Arranged, LdpError> {
        let mut listings = listings(resource, preferences);
        listings.extend(giving);
        let mut described = arranged(self.own_statements(resource, preferences, held).await?, listings);
        if preferences.contained_descriptions && is_container(resource) {
            described.sections.push_back(Section::ContainedDescriptions(Box::new(resource.clone())));
        }
        if preferences.inbound_references {
            described.sections.push_back(self.inbound_references(resource));
        }
        Ok(described)
    }

    /// The children on a page.
    async fn children_on(
        &self,
        resource: &Resource,
        page: &Page,
        preferences: &Preferences,
    ) -> Result<ChildPage, LdpError> {
        match listings(resource, preferences).is_empty() && !preferences.contained_descriptions {
            // Without children there is only one page.
            true => Ok(ChildPage { begins: page.place.begins().cloned(), ..ChildPage::default() }),
            false => Ok(page.place.members(self.library(), resource, page.members_max).await?),
        }
    }

    /// The statements on a page with these children. The first page describes the container itself.
    /// Each page has its children, with the membership statements that follow from them.
    async fn statements_on_page(
        &self,
        resource: &Resource,
        on_page: &ChildPage,
        preferences: &Preferences,
        held: &mut Held,
    ) -> Result<Arranged, LdpError> {
        let triples = match on_page.begins {
            None => self.own_statements(resource, preferences, held).await?,
            Some(_) => Graph::new(),
        };
        let mut listed = Vec::new();
        for (membership, container) in listings(resource, preferences) {
            // They are written like a whole listing, because rules may be long.
            listed.push((membership, Contents::Read(container.path().clone(), on_page.children.clone().into())));
        }
        let mut described = arranged(triples, listed);
        if preferences.contained_descriptions {
            described.sections.push_back(Section::Descriptions(paths_of(resource, &on_page.children), None));
        }
        if preferences.inbound_references && on_page.begins.is_none() {
            described.sections.push_back(self.inbound_references(resource));
        }
        Ok(described)
    }

    fn inbound_references(&self, resource: &Resource) -> Section {
        Section::InboundReferences(Backlinks::referring_to(resource.path().clone()), self.area.clone())
    }

    /// The statements about a resource that do not follow from its children.
    pub async fn own_statements(
        &self,
        resource: &Resource,
        preferences: &Preferences,
        held: &mut Held,
    ) -> Result<Graph, LdpError> {
        let is_wanted = |triple: &Triple| match triple.predicate.as_ref() == ldp::CONTAINS {
            true => preferences.containment,
            false => preferences.managed,
        };
        let mut triples: Graph = managed::statements(resource).into_iter().filter(is_wanted).collect();
        if preferences.description {
            let description = held_description(self.library(), resource, held).await?;
            triples.extend(if preferences.of_others() { labelled_apart(description, 0) } else { description });
        }
        Ok(triples)
    }

    /// The bytes of a resource or of a version of it.
    pub async fn get_binary(&self, resource: &Resource, binary: &Binary) -> Result<Response, LdpError> {
        let validators = match binary.elsewhere() {
            Some(_) => Validators::of_bytes_elsewhere(binary.revision),
            None => Validators::of_bytes(binary.revision),
        };
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        self.describe(resource, headers);
        validators.insert(headers);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        // Content stored elsewhere may have changed there without notice.
        if binary.elsewhere().is_none() && validators.reading(&self.headers)? == Reading::NotModified {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(unsent(response));
        }
        if !binary.media_type.is_empty() {
            insert_text(headers, header::CONTENT_TYPE, &binary.media_type);
        }
        // Uploaded content must not act as this server's own page in a browser.
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
        if let Some(disposition) = &binary.disposition {
            insert_text(headers, header::CONTENT_DISPOSITION, disposition);
        }
        if let Some(elsewhere) = binary.elsewhere() {
            return self.get_elsewhere(elsewhere, response).await;
        }
        let etag: Option<ETag> = validators.etag.parse().ok();
        let known = door_http::Validators { etag: etag.as_ref(), last_modified: None };
        let extent = ranges::extent(&self.method, &self.headers, binary.len_bytes, known)?;
        let all_are_sent = self.method == Method::GET && extent == Extent::Whole;
        self.insert_digests(resource, binary, all_are_sent, headers).await?;
        if self.method == Method::HEAD {
            self.library().repository.refuse_marked(resource, Part::Bytes).await?;
            headers_of_whole(response.headers_mut(), binary.len_bytes);
            return Ok(response);
        }
        let len_bytes = binary.len_bytes;
        // A stream of a single row would cost more than the row.
        if extent == Extent::Whole && binary.place == BytesPlace::Row {
            let content = self.library().repository.content(resource, binary, 0..len_bytes).await?;
            let pieces: Vec<Bytes> = content.try_collect().await?;
            headers_of_whole(response.headers_mut(), len_bytes);
            *response.body_mut() = Body::from(pieces.concat());
            return Ok(response);
        }
        let opened = Arc::new((self.library().repository.clone(), resource.clone(), binary.clone()));
        let open = move |range: Range<u64>| {
            let opened = opened.clone();
            async move {
                let (repository, resource, binary) = &*opened;
                let content = repository.content(resource, binary, range).await?;
                Ok(content.map(|piece| piece.map_err(BoxError::from)).boxed())
            }
        };
        ranges::respond::<_, _, LdpError>(response, extent, len_bytes, open).await
    }
}

/// What a response with all bytes says of them.
fn headers_of_whole(headers: &mut HeaderMap, len_bytes: u64) {
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, len_bytes.into());
}

impl LdpRequest {
    /// Proxies bytes stored elsewhere, or redirects to them. Ranges of them are left to the server
    /// that stores them.
    async fn get_elsewhere(&self, elsewhere: &Elsewhere, mut response: Response) -> Result<Response, LdpError> {
        let headers = response.headers_mut();
        // Clients need not know where a file is on this machine.
        if !files::is_file(&elsewhere.url) {
            insert_text(headers, header::CONTENT_LOCATION, &elsewhere.url);
        }
        let promised = self.insert_digests_elsewhere(elsewhere, headers).await?;
        if elsewhere.handling == Handling::Redirect {
            insert_text(headers, header::LOCATION, &elsewhere.url);
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            return Ok(response);
        }
        // The tag here is not that of the bytes there, so a range under a condition is not passed
        // on.
        let range = self.headers.get(header::RANGE).filter(|_| !self.headers.contains_key(header::IF_RANGE));
        let (there, body) = self.external()?.ask(self.method.clone(), &elsewhere.url, range).await?.into_parts();
        for name in [header::CONTENT_LENGTH, header::CONTENT_RANGE, header::ACCEPT_RANGES] {
            if let Some(value) = there.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        // Several ranges come as parts, each with its own type.
        let type_there = there.headers.get(header::CONTENT_TYPE);
        let is_in_parts = type_there.is_some_and(|value| value.as_bytes().starts_with(b"multipart/byteranges"));
        if is_in_parts || !headers.contains_key(header::CONTENT_TYPE) {
            headers.insert(header::CONTENT_TYPE, type_there.cloned().unwrap_or(HeaderValue::from_static(OCTETS)));
        }
        *response.status_mut() = there.status;
        match self.method == Method::HEAD {
            true => Ok(unsent(response)),
            false if there.status == StatusCode::OK => Ok(response.map(|_| digests::kept_to(body, promised))),
            false => Ok(response.map(|_| body)),
        }
    }
}

/// Part of the tags of pages. It changes with what they show.
pub(crate) const PAGE_VERSION: u32 = 4;

/// Whether a representation depends on descriptions of other resources: the page of a container has
/// the titles of its members.
fn says_of_others(resource: &Resource, format: Format, preferences: &Preferences) -> bool {
    preferences.of_others() || (format == Format::Html && is_container(resource))
}

/// The requested statements that follow from the contents of a container.
pub fn listings(resource: &Resource, preferences: &Preferences) -> Vec<(Membership, Resource)> {
    let Kind::Container { membership, .. } = resource.kind() else { return Vec::new() };
    let containment = preferences.containment.then(|| membership::of_containment(resource.path()));
    let membership = Some(membership.clone()).filter(|it| preferences.membership && it.rule().is_some());
    [containment, membership].into_iter().flatten().map(|rule| (rule, resource.clone())).collect()
}

/// Sets a header to a value that a client once sent, unless it is invalid.
fn insert_text(headers: &mut HeaderMap, name: http::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}
