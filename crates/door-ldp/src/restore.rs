//! New versions of a resource without a new state: a snapshot, and an earlier version or something
//! deleted that becomes the current state again. Both are a POST to `fcr:versions` (Fedora API,
//! section 4.3.3); the second one has `restore` in its query. `receive.rs` has those with a stated
//! time.
//!
//! A restored state is a new version with rows and bytes of its own. Rows of an earlier version
//! cannot be shared: the collector deletes them when that version is no longer kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::response::Response;
use door_http::Second;
use futures::{StreamExt, stream};
use heads::actor;
use heads::retries::Tries;
use heads::{ResourcePath, RevisionId};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use repository::{
    Kind, Membership, NewKind, NewResource, PastMembers, Resource, ResourceError, Update, Uploaded, Versions, Written,
};

use crate::address::{At, Facet};
use crate::conditions::{self, is_conditional};
use crate::errors::LdpError;
use crate::membership;
use crate::mementos::MEMENTO_DATETIME;
use crate::model::Model;
use crate::query::Parameters;
use crate::request::{LdpRequest, TRIES_MAX, changes_all_the_time, empty};
use crate::statements::is_container;
use crate::stored::{kept_description, references};
use crate::timegate;
use crate::version_name::VersionName;

/// Members that are read together.
const PAGE_MEMBERS: usize = 128;
/// Members that could not be restored and are named.
const SKIPPED_NAMED_MAX: usize = 10;
/// Members that are restored at the same time. Each description may be as large as a body.
const RESTORED_AT_ONCE: usize = 4;

/// Why a member that was deleted is not restored, also if versions of it are kept.
const HIDDEN: &str = "it was deleted, and what was deleted is not shown (ldp.deleted_versions)";

/// What a request asks to restore.
struct Restoring {
    which: Which,
    /// Whether to bring back members that a container had then and has not now; `None`: if the
    /// container itself is brought back.
    contents: Option<bool>,
}

/// Which state to restore.
#[derive(Clone, Copy)]
enum Which {
    /// That with a name.
    Named(VersionName),
    /// That which was in force at a time.
    At(Second),
    /// What was deleted, as it was last.
    Last,
}

/// What to bring back of a container's members.
#[derive(Clone, Copy)]
enum Contents {
    /// Those that it had when exactly the revisions below this one had been made, as they were
    /// then.
    AsOf(RevisionId),
    /// Those that it had when it was deleted by this revision, as they were last.
    Last(RevisionId),
}

/// What to restore.
struct Found {
    /// The version.
    version: Resource,
    contents: Contents,
}

/// The member that was looked at, and whether it could be brought back.
enum Member {
    /// It is there, or was brought back as this version.
    There(Box<Resource>),
    /// It cannot come back. The others can.
    Skipped(String),
}

impl Restoring {
    /// `None` if the request does not ask for it.
    fn of(query: Option<&str>, headers: &HeaderMap) -> Result<Option<Self>, LdpError> {
        let asked = Parameters::only(query, &["restore", "contents"])?;
        let which = match asked.value("restore") {
            None => None,
            Some("") => Some(timegate::wanted(headers)?.map_or(Which::Last, Which::At)),
            Some(version) => Some(Which::Named(version.parse()?)),
        };
        let contents = asked.truth("contents")?;
        if which.is_none() && contents.is_some() {
            return Err(LdpError::parameter("contents", "it goes with `restore`, which is missing"));
        }
        Ok(which.map(|which| Self { which, contents }))
    }
}

impl LdpRequest {
    /// Makes a version: of the current state or, if the query says so, of an earlier one. Any body
    /// is ignored, as the Fedora API requires, unless it is a version with a stated time.
    pub async fn post_version(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        if !self.library().repository.keeps_versions(self.path()) {
            return Err(LdpError::NoVersions);
        }
        if self.headers.contains_key(MEMENTO_DATETIME) {
            return self.receive_version(body).await;
        }
        let restoring = Restoring::of(self.query.as_deref(), &self.headers)?;
        let asked = self.clone();
        // The change is completed when the client leaves.
        let change = actor::spawn(async move {
            let written = match restoring {
                None => asked.snapshot().await?,
                Some(restoring) => {
                    let restored = asked.restore(restoring).await?;
                    asked.as_version(restored).await.map_err(LdpError::after_change)?
                }
            };
            asked.version_made(&written).await.map_err(LdpError::after_change)
        });
        change.await.map_err(|error| LdpError::Internal(error.to_string()))?
    }

    pub async fn version_made(&self, written: &Written) -> Result<Response, LdpError> {
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

    /// A restored state as a version. What was brought back after its deletion is none yet where
    /// versions are explicit. If another writer was faster, it is none either.
    async fn as_version(&self, restored: Written) -> Result<Written, LdpError> {
        let repository = &self.library().repository;
        if !repository.are_versions_explicit(self.path()) || self.versions().await?.has(restored.revision).await? {
            return Ok(restored);
        }
        let resource = self.resource().await?;
        if resource.revision() != restored.revision {
            return Err(ResourceError::Moved(self.path().clone()).into());
        }
        Ok(repository.update(&resource, &Update::Snapshot).await?)
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
        let is_description = self.target.facet == Facet::Description;
        let mut tries = Tries::default();
        loop {
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
            // They are read after the current state, so that a last state is not that before it.
            let versions = self.versions().await?;
            if versions.is_being_deleted() {
                return Err(LdpError::BeingDeleted(self.path().clone()));
            }
            let found = match (restoring.which, &current) {
                (Which::Named(name), _) => {
                    let state = self.state(&versions, name).await?;
                    Found { version: state.resource, contents: Contents::AsOf(state.below) }
                }
                (Which::At(second), _) => {
                    let (name, list) = (VersionName::of_second(second), self.iri_at(At::All));
                    let absent = || LdpError::NoVersion { path: self.path().clone(), name, list };
                    let then = match self.library().repository.are_versions_explicit(self.path()) {
                        true => versions.newest_change_below(second.end()).await?,
                        false => versions.in_force(second.end()).await?,
                    };
                    let version = then.ok_or_else(absent)?;
                    Found { version, contents: Contents::AsOf(second.end()) }
                }
                (Which::Last, None) => self.last(&versions, RevisionId::LAST).await?,
                // What an interrupted request left out is brought back.
                (Which::Last, Some(current)) if restoring.contents == Some(true) => {
                    let found = self.last(&versions, current.incarnation()).await?;
                    self.restore_contents(&found, false).await?;
                    return Ok(Written { path: self.path().clone(), revision: current.revision() });
                }
                (Which::Last, Some(_)) => {
                    return Err(LdpError::Query(
                        "there is something: name the version to restore, as in `restore=20250615150640`; or bring \
                         back what was in a deleted container and is missing, by `restore=&contents=true`",
                    ));
                }
            };
            let with_contents = is_container(&found.version) && restoring.contents.unwrap_or(current.is_none());
            let (Contents::AsOf(below) | Contents::Last(below)) = found.contents;
            if with_contents && !repository.knows_as_of(self.path(), below) {
                return Err(LdpError::NotOffered(
                    "it is not known which members it had then (history.resources): restore it without them, by \
                     `contents=false`"
                        .to_owned(),
                ));
            }
            let written = match &current {
                Some(current) => self.revert(current, &found.version, is_description).await,
                None => self.bring_back(&found.version).await,
            };
            match written {
                Err(LdpError::Resource(ResourceError::Moved(_) | ResourceError::Exists(_))) => {}
                Err(error) => return Err(error),
                Ok(written) => {
                    if with_contents {
                        self.restore_contents(&found, true).await?;
                    }
                    return Ok(written);
                }
            }
            if !tries.again().await {
                return Err(changes_all_the_time(self.path()));
            }
        }
    }

    /// The last state of what was deleted last, before a revision.
    async fn last(&self, versions: &Versions, before: RevisionId) -> Result<Found, LdpError> {
        let absent = || ResourceError::Absent(self.path().clone());
        let version = versions.newest_change_below(before).await?.ok_or_else(absent)?;
        let deleted = self.library().repository.end_of(&version).await?.unwrap_or(RevisionId::LAST);
        Ok(Found { version, contents: Contents::Last(deleted) })
    }

    /// Makes a version the current state of a resource, or only its description.
    async fn revert(&self, current: &Resource, version: &Resource, is_description: bool) -> Result<Written, LdpError> {
        if Model::of(current) != Model::of(version) {
            return Err(LdpError::Model("the interaction model of a resource cannot be changed".to_owned()));
        }
        let path = current.path();
        self.may_change_members_of(current)?;
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
        let members_for = self.members_for(&membership, path)?;
        let update = Update::Restored { bytes: bytes.clone(), description, membership, members_for, refers_to };
        let done = self.library().repository.update(current, &update).await.map_err(LdpError::from);
        self.unless_done(bytes.as_ref(), done).await
    }

    /// Creates a resource that is a version of one that was deleted. Its tombstone goes only once
    /// everything of the version could be read.
    async fn bring_back(&self, version: &Resource) -> Result<Written, LdpError> {
        let (repository, path) = (&self.library().repository, version.path());
        self.may_touch_above(path).await?;
        let graph = kept_description(self.library(), version).await?;
        let above = match path.parent() {
            Some(above) => match repository.resource(&above).await {
                Ok(above) => Some(above),
                // Creating it fails, then.
                Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => None,
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        let member = above.and_then(|above| membership::member_named(&membership_of(&above), &graph, path));
        let membership = membership_of(version);
        let members_for = self.members_for(&membership, path)?;
        let mut bytes = None;
        let kind = match version.kind() {
            Kind::RdfSource => NewKind::RdfSource,
            Kind::Container { .. } if version.is_group() => NewKind::Group(membership),
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
        let done = repository.create_over(path, &new).await.map_err(LdpError::from);
        self.unless_done(bytes.as_ref(), done).await
    }

    /// Gives back bytes that were not used.
    pub async fn unless_done(
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
    /// an interrupted call can be repeated. What cannot come back is left out, and named by an error
    /// at the end. `is_made`: whether the request has changed something before.
    async fn restore_contents(&self, found: &Found, is_made: bool) -> Result<(), LdpError> {
        let made = AtomicBool::new(is_made);
        let restored = self.restore_members(found, &made).await;
        restored.map_err(|error| if made.into_inner() { error.after_change() } else { error })
    }

    /// The same. Sets `made` once something is brought back.
    async fn restore_members(&self, found: &Found, made: &AtomicBool) -> Result<(), LdpError> {
        let contents = found.contents;
        let mut skipped = Vec::new();
        let mut skipped_count = 0;
        let mut skip = |why| {
            skipped_count += 1;
            if skipped.len() < SKIPPED_NAMED_MAX {
                skipped.push(why);
            }
        };
        let (Contents::AsOf(below) | Contents::Last(below)) = contents;
        let knows = |path: &ResourcePath| self.library().repository.knows_as_of(path, below);
        let mut open = vec![(found.version.path().clone(), self.members_of(&found.version, contents).await?)];
        while let Some((path, members)) = open.last_mut() {
            let Some(page) = members.more_incarnations(PAGE_MEMBERS).await? else {
                open.pop();
                continue;
            };
            let path = path.clone();
            let restored: Vec<_> = stream::iter(page)
                .map(|(name, incarnation)| {
                    let child = path.child(&name);
                    async move {
                        let child = child.map_err(ResourceError::from)?;
                        self.restore_child(&child, incarnation, contents, made).await
                    }
                })
                .buffer_unordered(RESTORED_AT_ONCE)
                .collect()
                .await;
            for member in restored {
                match member? {
                    Some(Member::There(version)) if is_container(&version) && knows(version.path()) => {
                        open.push((version.path().clone(), self.members_of(&version, contents).await?));
                    }
                    Some(Member::There(version)) if is_container(&version) => {
                        skip(format!("/{}: it is not known which members it had (history.trees)", version.path()));
                    }
                    Some(Member::Skipped(why)) => skip(why),
                    Some(Member::There(_)) | None => {}
                }
            }
        }
        match skipped_count {
            0 => Ok(()),
            count => Err(LdpError::NotAllRestored { path: found.version.path().clone(), count, first: skipped }),
        }
    }

    async fn members_of(&self, version: &Resource, contents: Contents) -> Result<PastMembers, LdpError> {
        let repository = &self.library().repository;
        Ok(match contents {
            Contents::AsOf(below) => repository.members_as_of(version, below).await?,
            Contents::Last(deleted) => repository.last_members(version, deleted).await?,
        })
    }

    /// Brings back what was at a path, unless something is there. `None` if there was nothing.
    async fn restore_child(
        &self,
        path: &ResourcePath,
        incarnation: RevisionId,
        contents: Contents,
        made: &AtomicBool,
    ) -> Result<Option<Member>, LdpError> {
        let repository = &self.library().repository;
        let shows_deleted = self.settings().deleted_versions;
        let hidden = || Some(Member::Skipped(format!("/{path}: {HIDDEN}")));
        let versions = match repository.versions_shown(path, shows_deleted).await {
            Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) if !shows_deleted => return Ok(hidden()),
            versions => versions?,
        };
        let version = match contents {
            Contents::AsOf(below) => versions.in_force(below).await?,
            Contents::Last(_) if !repository.keeps_versions(path) => None,
            Contents::Last(_) => versions.newest_of(incarnation).await?,
        };
        let Some(version) = version else {
            let is_removed = match contents {
                Contents::AsOf(below) => versions.was_removed(below).await?,
                Contents::Last(_) => false,
            };
            let why = match (repository.keeps_versions(path), is_removed || repository.are_versions_explicit(path)) {
                (false, _) => Some("its versions are not kept (history.trees)"),
                (true, true) => Some("this version of it is not kept"),
                (true, false) => None,
            };
            return Ok(why.map(|why| Member::Skipped(format!("/{path}: {why}"))));
        };
        let mut tries = Tries::default();
        loop {
            match repository.resource(path).await {
                Ok(there) if is_container(&there) || !is_container(&version) => {
                    return Ok(Some(Member::There(Box::new(version))));
                }
                Ok(_) => return Ok(Some(Member::Skipped(format!("/{path} is something else now, and no container")))),
                // It was deleted just now.
                Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) if !shows_deleted => return Ok(hidden()),
                Err(_) => {}
            }
            match self.bring_back(&version).await {
                Err(LdpError::Resource(ResourceError::Moved(_) | ResourceError::Exists(_))) => {}
                // Its bytes or its description are damaged, for example.
                Err(error) if !error.is_passing() => return Ok(Some(Member::Skipped(format!("/{path}: {error}")))),
                done => {
                    done?;
                    made.store(true, Ordering::Relaxed);
                    return Ok(Some(Member::There(Box::new(version))));
                }
            }
            if !tries.again().await {
                return Err(changes_all_the_time(path));
            }
        }
    }
}

fn membership_of(resource: &Resource) -> Membership {
    match resource.kind() {
        Kind::Container { membership, .. } => membership.clone(),
        Kind::RdfSource | Kind::Binary(_) => Membership::Basic,
    }
}
