//! Each resource is its own TimeGate (RFC 7089, section 4.1.1): which version was in force at the
//! time of `Accept-Datetime`, and what every response says about a resource in time.

use axum::response::Response;
use door_http::{Second, one_value};
use heads::RevisionId;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use repository::{Resource, ResourceError, Versions};

use crate::address::{At, Facet, Target};
use crate::errors::LdpError;
use crate::links;
use crate::request::{LdpRequest, empty};
use crate::statements::is_container;
use crate::version_name::VersionName;

/// RFC 7089, section 2.1.1.
const ACCEPT_DATETIME: HeaderName = HeaderName::from_static("accept-datetime");

/// The namespace of Memento's types (Fedora API, section 4).
const MEMENTO: &str = "http://mementoweb.org/ns#";

/// The types of a resource of which versions are kept (Fedora API, section 4.1.1).
const OF_VERSIONED: [&str; 2] = ["OriginalResource", "TimeGate"];

/// A state of a resource that has an address.
pub struct State {
    /// The version that was in force.
    pub resource: Resource,
    /// Its name.
    pub name: VersionName,
    /// Where it is among the versions: from here on are later ones or itself.
    pub since: RevisionId,
    /// Members are those after exactly the revisions below this one.
    pub below: RevisionId,
}

/// The time of `Accept-Datetime`, if a request has it.
pub fn wanted(headers: &HeaderMap) -> Result<Option<Second>, LdpError> {
    second_in(headers, &ACCEPT_DATETIME, "accept-datetime")
}

/// The time in a header with a name, if a request has it.
pub fn second_in(headers: &HeaderMap, header: &HeaderName, name: &'static str) -> Result<Option<Second>, LdpError> {
    let malformed = |why: String| LdpError::Header { name, why };
    let wanted = one_value(headers, header).map_err(|ambiguous| malformed(ambiguous.to_string()))?;
    let no_time =
        || malformed("it has a time like `Sun, 15 Jun 2025 15:06:40 GMT`, with the weekday of its date".to_owned());
    wanted.map(|wanted| wanted.to_str().ok().and_then(Second::of_http).ok_or_else(no_time)).transpose()
}

/// Whether a class is one that every resource has of which versions are kept.
pub fn is_of_versioned(class: &str) -> bool {
    class.strip_prefix(MEMENTO).is_some_and(|name| OF_VERSIONED.contains(&name))
}

impl LdpRequest {
    /// Redirects a request with `Accept-Datetime` to the version that was in force then: to the
    /// first one if that is earlier, to the last one if it is later. `None` if the request names no
    /// time, or there is no version.
    pub async fn negotiate_time(&self) -> Result<Option<Response>, LdpError> {
        if !self.library().repository.keeps_versions(self.path()) {
            return Ok(None);
        }
        let Some(second) = wanted(&self.headers)? else { return Ok(None) };
        let versions = match self.versions().await {
            // The response says what became of the resource.
            Err(LdpError::Resource(ResourceError::Absent(_) | ResourceError::Gone { .. })) => return Ok(None),
            versions => versions?,
        };
        let then = versions.newest_below(second.end()).await?;
        let version = match then {
            Some(version) => Some(version),
            None => versions.oldest_from(RevisionId::ZERO).await?,
        };
        let Some(version) = version else { return Ok(None) };
        let name = match self.instant_of(&versions, &version, second).await? {
            Some(instant) => VersionName::of_second(instant),
            None => self.name_of(&versions, version.revision()).await?,
        };
        let mut response = empty(StatusCode::FOUND);
        let headers = response.headers_mut();
        let location = HeaderValue::try_from(self.iri_at(At::Version(name)));
        headers.insert(header::LOCATION, location.map_err(|error| LdpError::Internal(error.to_string()))?);
        self.describe_in_time(headers);
        Ok(Some(response))
    }

    /// The versions of the target.
    pub async fn versions(&self) -> Result<Versions, LdpError> {
        let repository = &self.library().repository;
        if !repository.keeps_versions(self.path()) {
            return Err(LdpError::NoVersions);
        }
        let versions = repository.versions_shown(self.path(), self.settings().deleted_versions).await?;
        Ok(if self.target.facet == Facet::Description { versions.of_binaries() } else { versions })
    }

    /// The name of a version.
    pub async fn name_of(&self, versions: &Versions, revision: RevisionId) -> Result<VersionName, LdpError> {
        let second = Second::of(revision.time());
        let first = versions.first_ever(second.first(), revision).await?;
        Ok(VersionName::of(revision, first.is_none()))
    }

    /// The second whose end shows a container's members as of a time, if `version` was in force
    /// then and began in an earlier second. That second is over, so that nothing in it changes.
    async fn instant_of(
        &self,
        versions: &Versions,
        version: &Resource,
        wanted: Second,
    ) -> Result<Option<Second>, LdpError> {
        let second = wanted.min(self.newest_instant());
        if !is_container(version) || second <= Second::of(version.revision().time()) {
            return Ok(None);
        }
        let in_force = self.container_at(versions, second).await?;
        Ok(in_force.filter(|in_force| in_force.revision() == version.revision()).map(|_| second))
    }

    /// The container that was in force at the end of a second, if its members are known.
    async fn container_at(&self, versions: &Versions, second: Second) -> Result<Option<Resource>, LdpError> {
        if second > self.newest_instant() || !self.library().repository.knows_as_of(versions.path(), second.end()) {
            return Ok(None);
        }
        Ok(versions.in_force(second.end()).await?.filter(is_container))
    }

    /// The last second that is over.
    fn newest_instant(&self) -> Second {
        Second::of(self.library().clock().now()).before()
    }

    /// The revision of the version with a name, also of one that cannot be read; `None` if there is
    /// none.
    pub async fn named(&self, versions: &Versions, name: VersionName) -> Result<Option<RevisionId>, LdpError> {
        let Some(first) = versions.first_ever(name.first(), name.end()).await? else { return Ok(None) };
        let is_listed = versions.revision_from(first).await? == Some(first);
        // A version has one name.
        Ok((is_listed && self.name_of(versions, first).await? == name).then_some(first))
    }

    /// The state with a name: a version or, of a container, also its state at the end of a second
    /// in which no version begins.
    pub async fn state(&self, versions: &Versions, name: VersionName) -> Result<State, LdpError> {
        let absent = || LdpError::NoVersion { path: self.path().clone(), name, list: self.iri_at(At::All) };
        let Some(first) = versions.first_ever(name.first(), name.end()).await? else {
            let in_force = match name.is_of_first() {
                true => self.container_at(versions, name.second()).await?,
                false => None,
            };
            let below = name.end();
            return in_force.map(|resource| State { resource, name, since: below, below }).ok_or_else(absent);
        };
        let version = versions.oldest_from(first).await?.filter(|version| version.revision() == first);
        // A version has one name.
        match version {
            Some(resource) if self.name_of(versions, first).await? == name => {
                Ok(State { resource, name, since: first, below: first.successor() })
            }
            _ => Err(absent()),
        }
    }

    /// The address of the target at other times.
    pub fn iri_at(&self, at: At) -> String {
        self.site.iri_of_target(&Target { at, ..self.target.clone() })
    }

    /// The headers of a response about a resource of which versions are kept (RFC 7089, section
    /// 2.2; Fedora API, sections 4.1 and 4.2).
    pub fn describe_in_time(&self, headers: &mut HeaderMap) {
        if !self.library().repository.keeps_versions(self.path()) {
            return;
        }
        let original = self.iri_at(At::Present);
        let types: &[_] = match self.target.at {
            At::Present => &OF_VERSIONED,
            At::All => &["TimeMap"],
            At::Version(_) => &["Memento"],
        };
        for class in types {
            links::append(headers, &format!("{MEMENTO}{class}"), "type");
        }
        links::append(headers, &original, "original");
        links::append(headers, &original, "timegate");
        links::append(headers, &self.iri_at(At::All), "timemap");
        if self.target.at == At::Present {
            headers.append(header::VARY, HeaderValue::from_static("Accept-Datetime"));
        }
    }
}
