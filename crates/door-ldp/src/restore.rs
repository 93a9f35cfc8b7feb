//! New versions of a resource without a new state: a snapshot, and an earlier version or something
//! deleted that becomes the current state again. Both are a POST to `fcr:versions` (Fedora API,
//! section 4.3.3); the second one has `restore` in its query.
//!
//! A restored state is a new version with rows and bytes of its own. Rows of an earlier version
//! cannot be shared: the collector deletes them when that version is no longer kept.

use std::sync::Arc;

use axum::response::Response;
use futures::{StreamExt, TryStreamExt, stream};
use heads::{ResourcePath, RevisionId};
use http::{HeaderValue, StatusCode, header};
use repository::{
    Kind, Membership, NewKind, NewResource, Resource, ResourceError, Update, Uploaded, Versions, Written,
};

use crate::address::{At, Facet};
use crate::conditions::{self, is_conditional};
use crate::errors::LdpError;
use crate::membership;
use crate::mementos::MEMENTO_DATETIME;
use crate::model::Model;
use crate::request::{LdpRequest, TRIES_MAX, changes_all_the_time, empty};
use crate::statements::is_container;
use crate::stored::{kept_description, references};
use crate::timegate::State;
use crate::version_name::VersionName;

/// Members that are read together.
const PAGE_MEMBERS: usize = 128;
/// Members that are restored at the same time. Each description may be as large as a body.
const RESTORED_AT_ONCE: usize = 4;

/// What a query asks to restore.
struct Restoring {
    /// The version; `None`: what was deleted, as it was last.
    name: Option<VersionName>,
    /// Whether to bring back members that a container had then and has not now; `None`: if the
    /// container itself is brought back.
    contents: Option<bool>,
}

impl Restoring {
    /// `None` if the query does not ask for it.
    fn of(query: Option<&str>) -> Result<Option<Self>, LdpError> {
        let (mut name, mut contents) = (None, None);
        for (field, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match (&*field, &*value) {
                ("restore", "") => name = Some(None),
                ("restore", version) => name = Some(Some(version.parse()?)),
                ("contents", "true") => contents = Some(true),
                ("contents", "false") => contents = Some(false),
                ("contents", _) => return Err(LdpError::Query("contents is true or false")),
                _ => {}
            }
        }
        Ok(name.map(|name| Self { name, contents }))
    }
}

impl LdpRequest {
    /// Makes a version: of the current state or, if the query says so, of an earlier one. Any body
    /// is ignored, as the Fedora API requires.
    pub async fn post_version(self: &Arc<Self>) -> Result<Response, LdpError> {
        if !self.library().repository.keeps_versions() {
            return Err(LdpError::NoVersions);
        }
        if self.headers.contains_key(MEMENTO_DATETIME) {
            return Err(LdpError::NotOffered(
                "a version has the time at which it is made: leave out `Memento-Datetime`".to_owned(),
            ));
        }
        let restoring = Restoring::of(self.query.as_deref())?;
        let asked = self.clone();
        // The change is completed when the client leaves.
        let change = tokio::spawn(async move {
            let written = match restoring {
                Some(restoring) => asked.restore(restoring).await?,
                None => asked.snapshot().await?,
            };
            asked.version_made(&written).await
        });
        change.await.map_err(|error| LdpError::Internal(error.to_string()))?
    }

    async fn version_made(&self, written: &Written) -> Result<Response, LdpError> {
        let name = self.name_of(&self.versions().await?, written.revision).await?;
        let mut response = empty(StatusCode::CREATED);
        let headers = response.headers_mut();
        let location = HeaderValue::try_from(self.iri_at(At::Version(name)));
        headers.insert(header::LOCATION, location.map_err(|error| LdpError::Internal(error.to_string()))?);
        if let Ok(value) = HeaderValue::try_from(name.second().http()) {
            headers.insert(MEMENTO_DATETIME, value);
        }
        self.describe_in_time(headers);
        Ok(response)
    }

    async fn snapshot(&self) -> Result<Written, LdpError> {
        for _ in 0..TRIES_MAX {
            let resource = self.resource().await?;
            // No update can be lost by it, so it needs no condition.
            if is_conditional(&self.headers) {
                self.may_change(&resource)?;
            }
            match self.library().repository.update(&resource, &Update::Snapshot).await {
                Err(ResourceError::Moved(_)) => {}
                done => return Ok(done?),
            }
        }
        Err(changes_all_the_time(self.path()))
    }

    async fn restore(&self, restoring: Restoring) -> Result<Written, LdpError> {
        let repository = &self.library().repository;
        let versions = repository.versions(self.path()).await?;
        let is_description = self.target.facet == Facet::Description;
        let versions = if is_description { versions.of_binaries() } else { versions };
        for _ in 0..TRIES_MAX {
            let current = match repository.resource(self.path()).await {
                Ok(current) => Some(current),
                Err(ResourceError::Absent(_)) => None,
                Err(ResourceError::Gone { tombstone }) if tombstone == *self.path() => None,
                Err(error) => return Err(error.into()),
            };
            match &current {
                Some(current) => self.may_change(current)?,
                None => conditions::creating(&self.headers)?,
            }
            let state = match (restoring.name, &current) {
                (Some(name), _) => self.state(&versions, name).await?,
                (None, None) => self.last_state(&versions).await?,
                (None, Some(_)) => {
                    return Err(LdpError::Query("name the version to restore, as in `restore=20250615150640`"));
                }
            };
            let with_contents = is_container(&state.resource) && restoring.contents.unwrap_or(current.is_none());
            if with_contents && !repository.knows_members_as_of(state.below) {
                return Err(LdpError::NotOffered(
                    "it is not known which members it had then (history.resources): restore it without them, by \
                     `contents=false`"
                        .to_owned(),
                ));
            }
            let written = match &current {
                Some(current) => self.revert(current, &state.resource, is_description).await,
                None => self.bring_back(&state.resource).await,
            };
            match written {
                Err(LdpError::Resource(ResourceError::Moved(_) | ResourceError::Exists(_))) => {}
                Err(error) => return Err(error),
                Ok(written) => {
                    if with_contents {
                        self.restore_contents(&state).await?;
                    }
                    return Ok(written);
                }
            }
        }
        Err(changes_all_the_time(self.path()))
    }

    /// The state of something deleted just before that.
    async fn last_state(&self, versions: &Versions) -> Result<State, LdpError> {
        let absent = || ResourceError::Absent(self.path().clone());
        let resource = versions.newest_below(RevisionId::LAST).await?.ok_or_else(absent)?;
        let below = self.library().repository.end_of(&resource).await?.unwrap_or(RevisionId::LAST);
        let name = self.name_of(versions, resource.revision()).await?;
        Ok(State { since: resource.revision(), resource, name, below })
    }

    /// Makes a version the current state of a resource, or only its description.
    async fn revert(&self, current: &Resource, version: &Resource, is_description: bool) -> Result<Written, LdpError> {
        if Model::of(current.kind()) != Model::of(version.kind()) {
            return Err(LdpError::Model("the interaction model of a resource cannot be changed".to_owned()));
        }
        let path = current.path();
        let graph = kept_description(self.library(), version).await?;
        let before = kept_description(self.library(), current).await?;
        let known = references(&before, path);
        let refers_to = references(&graph, path).into_iter().filter(|path| !known.contains(path)).collect();
        let membership = membership_of(version);
        let bytes = match version.kind() {
            Kind::Binary(binary) if !is_description && current.body().binary() != Some(binary) => {
                Some(self.library().repository.upload_again(version, binary).await?)
            }
            _ => None,
        };
        let description = self.library().repository.description(version).await?;
        let members_for = membership::members_for(&membership, path);
        let update = Update::Restored { bytes: bytes.clone(), description, membership, members_for, refers_to };
        let done = self.library().repository.update(current, &update).await.map_err(LdpError::from);
        self.unless_done(bytes.as_ref(), done).await
    }

    /// Creates a resource that is a version of one that was deleted.
    async fn bring_back(&self, version: &Resource) -> Result<Written, LdpError> {
        let (repository, path) = (&self.library().repository, version.path());
        match repository.remove_tombstone(path).await {
            Ok(()) | Err(ResourceError::Absent(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let graph = kept_description(self.library(), version).await?;
        let above = match path.parent() {
            Some(above) => repository.resource(&above).await.ok(),
            None => None,
        };
        let member = above.and_then(|above| membership::member_named(&membership_of(&above), &graph, path));
        let membership = membership_of(version);
        let members_for = membership::members_for(&membership, path);
        let mut bytes = None;
        let kind = match version.kind() {
            Kind::RdfSource => NewKind::RdfSource,
            Kind::Container { .. } => NewKind::Container(membership),
            Kind::Binary(binary) => {
                let uploaded = repository.upload_again(version, binary).await?;
                NewKind::Binary(bytes.insert(uploaded).clone())
            }
        };
        let new = NewResource {
            kind,
            description: repository.description(version).await?,
            member,
            members_for,
            refers_to: references(&graph, path).into_iter().collect(),
        };
        let done = repository.create(path, &new).await.map_err(LdpError::from);
        self.unless_done(bytes.as_ref(), done).await
    }

    /// Gives back bytes that were not used.
    async fn unless_done(
        &self,
        bytes: Option<&Uploaded>,
        done: Result<Written, LdpError>,
    ) -> Result<Written, LdpError> {
        if let (Err(error), Some(bytes)) = (&done, bytes) {
            self.give_back(bytes, error).await;
        }
        done
    }

    /// Brings back what was in a container and is not there now. What is there stays as it is, so
    /// an interrupted call can be repeated.
    async fn restore_contents(&self, state: &State) -> Result<(), LdpError> {
        let repository = &self.library().repository;
        let members = repository.members_as_of(&state.resource, state.below).await?;
        let mut open = vec![(state.resource.path().clone(), members)];
        while let Some((path, members)) = open.last_mut() {
            let Some(page) = members.more(PAGE_MEMBERS).await? else {
                open.pop();
                continue;
            };
            let path = path.clone();
            let containers: Vec<_> = stream::iter(page)
                .map(|child| {
                    let child = path.child(&child.name);
                    async move { self.restore_child(&child.map_err(ResourceError::from)?, state.below).await }
                })
                .buffer_unordered(RESTORED_AT_ONCE)
                .try_filter_map(|child| std::future::ready(Ok(child.filter(is_container))))
                .try_collect()
                .await?;
            for container in containers {
                let members = repository.members_as_of(&container, state.below).await?;
                open.push((container.path().clone(), members));
            }
        }
        Ok(())
    }

    /// Brings back what was at a path, unless something is there. Returns its version.
    async fn restore_child(&self, path: &ResourcePath, below: RevisionId) -> Result<Option<Resource>, LdpError> {
        let repository = &self.library().repository;
        let version = repository.versions(path).await?.in_force(below).await?;
        let Some(version) = version else { return Ok(None) };
        for _ in 0..TRIES_MAX {
            if repository.resource(path).await.is_ok() {
                return Ok(Some(version));
            }
            match self.bring_back(&version).await {
                Err(LdpError::Resource(ResourceError::Moved(_) | ResourceError::Exists(_))) => {}
                done => return done.map(|_| Some(version)),
            }
        }
        Err(changes_all_the_time(path))
    }
}

fn membership_of(resource: &Resource) -> Membership {
    match resource.kind() {
        Kind::Container { membership, .. } => membership.clone(),
        Kind::RdfSource | Kind::Binary(_) => Membership::Basic,
    }
}
