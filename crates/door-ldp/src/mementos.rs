//! Mementos: versions of resources at addresses of their own (RFC 7089, section 2.2; Fedora API,
//! section 4.2). They never change. For a while after its time, a container's version may still get
//! members from servers whose clocks are behind; until then it has no validators. Its page never
//! has any.

use axum::response::Response;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use heads::RevisionId;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use repository::{Kind, Membership, Resource, Versions};

use crate::address::{At, Facet};
use crate::arrange::{Contents, arranged};
use crate::conditions::{Reading, Validators, is_conditional};
use crate::errors::LdpError;
use crate::format::Format;
use crate::get::{PAGE_VERSION, listings};
use crate::held::Held;
use crate::pages::members_then::Asked;
use crate::prefer::Preferences;
use crate::request::{LdpRequest, empty, unsent};
use crate::statements::{Statements, is_container};
use crate::timegate::State;
use crate::version_name::VersionName;
use crate::{links, managed, pages};

/// RFC 7089, section 2.1.1.
pub const MEMENTO_DATETIME: HeaderName = HeaderName::from_static("memento-datetime");

impl LdpRequest {
    /// A version, with links to those around it.
    pub async fn get_memento(&self, name: VersionName) -> Result<Response, LdpError> {
        let versions = self.versions().await?;
        let state = self.state(&versions, name).await?;
        let mut response = match (self.target.facet, state.resource.kind()) {
            (Facet::Itself, Kind::Binary(binary)) => self.get_binary(&state.resource, binary).await?,
            _ if self.wants_archive_then(&state)? => self.get_archive(&state.resource, Some(state.below)).await?,
            _ => self.get_graph_then(&state).await?,
        };
        self.describe_memento(&versions, &state, response.headers_mut()).await?;
        Ok(response)
    }

    /// Whether a client prefers an archive of a container whose members are known.
    fn wants_archive_then(&self, state: &State) -> Result<bool, LdpError> {
        let is_offered = self.target.facet == Facet::Itself
            && is_container(&state.resource)
            && self.library().repository.knows_as_of(self.path(), state.below);
        Ok(is_offered && Format::negotiated_or_archive(&self.headers)?.is_none())
    }

    /// The types and methods of a version.
    pub async fn memento_options(&self, name: VersionName) -> Result<Response, LdpError> {
        let state = self.state(&self.versions().await?, name).await?;
        let mut response = empty(StatusCode::OK);
        self.describe(&state.resource, response.headers_mut());
        Ok(response)
    }

    /// Deletes a version for good (Fedora API, section 4.2.5).
    pub async fn delete_memento(&self, name: VersionName) -> Result<Response, LdpError> {
        if is_conditional(&self.headers) {
            return Err(LdpError::NotOffered("a version never changes: delete it without a condition".to_owned()));
        }
        let versions = self.versions().await?;
        let Some(revision) = self.named(&versions, name).await? else {
            self.state(&versions, name).await?;
            let why = "it is the state at a time at which no version begins: delete the version before it";
            return Err(LdpError::NotOffered(why.to_owned()));
        };
        self.library().repository.remove_version(self.path(), revision).await?;
        let mut response = empty(StatusCode::NO_CONTENT);
        self.describe_in_time(response.headers_mut());
        Ok(response)
    }

    async fn describe_memento(
        &self,
        versions: &Versions,
        state: &State,
        headers: &mut HeaderMap,
    ) -> Result<(), LdpError> {
        if let Ok(value) = HeaderValue::try_from(state.name.second().http()) {
            headers.insert(MEMENTO_DATETIME, value);
        }
        let around = [
            ("first", versions.revision_from(RevisionId::ZERO).await?),
            ("prev", versions.revision_below(state.since).await?),
            ("next", versions.revision_from(state.below).await?),
            ("last", versions.revision_below(RevisionId::LAST).await?),
        ];
        for (relation, revision) in around {
            let Some(revision) = revision else { continue };
            let name = self.name_of(versions, revision).await?;
            let datetime = name.second().http();
            let rel = format!("{relation} memento");
            links::append_with(headers, &self.iri_at(At::Version(name)), &rel, &[("datetime", &datetime)]);
        }
        Ok(())
    }

    async fn get_graph_then(&self, state: &State) -> Result<Response, LdpError> {
        let version = &state.resource;
        let format = Format::negotiated(&self.headers)?;
        let preferences = Preferences::of(&self.headers).without_others();
        let mut variant = format!("{:x}{:x}-{}", format.tag(), preferences.tag(), state.name);
        let mut held = Held::new(self.library(), &self.party);
        let containers = self.containers_then(state, &preferences, &mut held).await?;
        let page = self.is_page(format).then(|| Asked::of(self.query.as_deref())).transpose()?;
        if page.is_some() {
            variant += &format!("-p{PAGE_VERSION}");
        }
        // Nothing records which versions of the members on a page are still kept.
        let is_settled = page.is_none() && self.library().repository.is_settled(state.below);
        let never_changes = containers.is_empty() || is_settled;
        let validators = never_changes.then(|| Validators::of_graph(version.description_revision(), None, &variant));
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        self.describe(version, headers);
        validators.iter().for_each(|validators| validators.insert(headers));
        headers.append(header::VARY, HeaderValue::from_static("accept, prefer"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        preferences.confirm(headers);
        if let Some(validators) = validators
            && validators.reading(&self.headers)? == Reading::NotModified
        {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(unsent(response));
        }
        format.insert(response.headers_mut());
        if self.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let title = || format!("/{}, {}", version.path(), state.name.second().http());
        if let Some(asked) = page {
            // A page has a share of its own.
            drop(held);
            return self.page_of_version(state, &containers, &asked, title(), response).await;
        }
        let repository = &self.library().repository;
        let begin = |container| repository.members_as_of(container, state.below).boxed();
        let begun: Vec<_> = containers.iter().map(|(_, container)| begin(container)).collect();
        let begun: Vec<_> = stream::iter(begun).buffered(managed::CONTAINERS_AT_ONCE).try_collect().await?;
        let mut listings = Vec::with_capacity(containers.len());
        for ((membership, container), members) in containers.into_iter().zip(begun) {
            listings.push((membership, Contents::Then(container.path().clone(), Box::new(members))));
        }
        let writer = format.writer(|| pages::about_part(&self.site, &self.target, title()));
        let described = self.own_statements(version, &preferences, &mut held).await?;
        let described = arranged(described, listings);
        let statements = Statements::new(self.library().clone(), self.site.clone(), writer, described).holding(held);
        *response.body_mut() = statements.write().await?.into();
        Ok(response)
    }

    /// The containers whose contents then give requested statements, with the rules of these. Those
    /// whose contents are not known are left out.
    async fn containers_then(
        &self,
        state: &State,
        preferences: &Preferences,
        held: &mut Held,
    ) -> Result<Vec<(Membership, Resource)>, LdpError> {
        let repository = &self.library().repository;
        if self.target.facet != Facet::Itself || !repository.knows_as_of(self.path(), state.below) {
            return Ok(Vec::new());
        }
        let mut containers = listings(&state.resource, preferences);
        if preferences.membership {
            let then = managed::Then { below: state.below, shows_deleted: self.settings().deleted_versions };
            let giving = managed::giving_members(self.library(), &self.area, self.path(), Some(then), held).await?;
            containers.extend(giving);
        }
        // One may be in a tree of which less is kept.
        containers.retain(|(_, container)| repository.knows_as_of(container.path(), state.below));
        Ok(containers)
    }
}
