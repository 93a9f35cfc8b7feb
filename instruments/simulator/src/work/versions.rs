//! Versions that clients ask for, send with times of their own, restore, remove and read, and
//! deleted resources that they bring back from a version.

use std::mem::discriminant;
use std::sync::Arc;

use bytes::Bytes;
use heads::{LibraryOptions, ObjectsResult, ResourcePath, RevisionId, keys};
use library::Library;
use parking_lot::Mutex;
use repository::{
    Kind, Membership, NewKind, NewResource, NewVersion, Resource, ResourceError, ResourceResult, Update, Uploaded,
    Versions, Written,
};
use store::UnixMillis;

use super::resources::{create_new, give_back, upload, written, wrong_with};
use super::{Came, Seen, VERSIONED, Work, damage, parsed, refused, refused_object};
use crate::model::{Model, Reply, Sums, kept_of};
use crate::store::world::World;
use crate::trace::Op;

/// Versions that a client reads whole, at most. They are spread over those that are listed.
pub(super) const READ_MAX: usize = 3;

/// The versions of a resource, as a client found them.
#[derive(Clone, Debug)]
pub(crate) struct FoundVersions {
    pub(crate) path: ResourcePath,
    /// Those that are listed, oldest first.
    pub(crate) listed: Vec<RevisionId>,
    /// The states of some of them.
    pub(crate) read: Vec<(RevisionId, Sums)>,
    /// Those of them that could not be read, each with what is wrong.
    pub(crate) broken: Vec<(RevisionId, String)>,
}

impl Work {
    /// The same; but what is to be brought back is something deleted that has a version, if there
    /// is any.
    pub(crate) fn aimed(self, model: &Model, options: &LibraryOptions) -> Self {
        let (path, nth) = match self {
            Self::BringBack { path, nth } => (path, nth),
            other => return other,
        };
        let can_come_back = |path: &ResourcePath| {
            let object = keys::resource_partition(path);
            model.can_come_back(&object, kept_of(&object, options))
        };
        let path = match can_come_back(&path) {
            true => path,
            false => VERSIONED.into_iter().map(parsed).find(can_come_back).unwrap_or(path),
        };
        Self::BringBack { path, nth }
    }
}

pub(super) async fn ask_for_version(library: &Library, path: &ResourcePath) -> Came {
    let resource = match library.repository.resource(path).await {
        Ok(resource) => resource,
        Err(error) => return Came::replied(refused(&error)),
    };
    match library.repository.update(&resource, &Update::Snapshot).await {
        Ok(Written { path, revision }) => written(&path, revision),
        Err(error) => Came::replied(refused(&error)),
    }
}

/// Sends a version with a time of its own. What is sent is noted before, so that it is known
/// whenever the server dies.
pub(super) async fn send_version(
    library: &Library,
    path: &ResourcePath,
    nth: u64,
    token: &str,
    world: &Arc<Mutex<World>>,
) -> Came {
    let resource = match library.repository.resource(path).await {
        Ok(resource) => resource,
        Err(error) => return Came::replied(refused(&error)),
    };
    let bytes = match resource.kind() {
        Kind::Binary(_) => match upload(library, path, token).await {
            Ok(uploaded) => Some(uploaded),
            Err(came) => return came,
        },
        Kind::RdfSource | Kind::Container { .. } => None,
    };
    let (at, description) = (second_of(nth, library.clock().now()), Bytes::from(token.to_owned()));
    let (object, place) = (keys::resource_partition(path), RevisionId::first_at(at));
    let sums = Sums::of_sent(&description, bytes.as_ref());
    world.lock().model.sends_version(&object, place, sums);
    let new = NewVersion { at, description, membership: Membership::Basic, bytes: bytes.clone() };
    let came = match library.repository.receive_version(&resource, &new).await {
        Ok(_) => Came::replied(Reply::Done(None)),
        Err(error) => give_back(library, bytes, error).await,
    };
    world.lock().model.sent_version(&object, place, sums, &came.reply);
    came
}

/// The second that a client states: one of few long ago, or one of the last ones, in which
/// something else may have been.
fn second_of(nth: u64, now: UnixMillis) -> UnixMillis {
    let second = if nth.is_multiple_of(3) { (now.0 / 1_000).saturating_sub(1 + nth % 4) } else { 1 + nth % 8 };
    UnixMillis(1_000 * second)
}

/// Makes one of the listed versions the current state again, as the repository door does. Which one
/// is noted before, so that the new state can be compared with it whenever the server dies.
pub(super) async fn restore(
    library: &Library,
    path: &ResourcePath,
    nth: usize,
    op: Op,
    world: &Arc<Mutex<World>>,
) -> Came {
    let (resource, version) = match to_restore(library, path, nth).await {
        Ok(Some(found)) => found,
        Ok(None) => return Came::replied(Reply::Refused("there is no such version of the same kind".to_owned())),
        Err(error) => return Came::replied(refused(&error)),
    };
    let (description, bytes) = match state_of(library, Some(&resource), &version).await {
        Ok(state) => state,
        Err(error) => return Came::replied(refused_object(&error)),
    };
    world.lock().model.restores(op, version.revision());
    let (membership, members_for, refers_to) = (Membership::Basic, None, Vec::new());
    let update = Update::Restored { bytes: bytes.clone(), description, membership, members_for, refers_to };
    match library.repository.update(&resource, &update).await {
        Ok(Written { path, revision }) => written(&path, revision),
        Err(error) => give_back(library, bytes, error).await,
    }
}

/// The resource at a path and one of its listed versions; `None` if none is listed, or this one is of
/// another kind or was removed meanwhile.
async fn to_restore(
    library: &Library,
    path: &ResourcePath,
    nth: usize,
) -> ResourceResult<Option<(Resource, Resource)>> {
    let resource = library.repository.resource(path).await?;
    let (versions, listed) = versions_of(library, path).await?;
    if listed.is_empty() {
        return Ok(None);
    }
    let version = versions.at(listed[nth % listed.len()]).await?;
    let version = version.filter(|version| discriminant(version.kind()) == discriminant(resource.kind()));
    Ok(version.map(|version| (resource, version)))
}

/// Brings back what was deleted as one of its versions, as the repository door does. Which one is
/// noted before, so that the new state can be compared with it whenever the server dies.
pub(super) async fn bring_back(
    library: &Library,
    path: &ResourcePath,
    nth: usize,
    op: Op,
    world: &Arc<Mutex<World>>,
) -> Came {
    let version = match to_bring_back(library, path, nth).await {
        Ok(Some(version)) => version,
        Ok(None) => return Came::replied(Reply::Refused("there is a resource, or no version".to_owned())),
        Err(error) => return Came::replied(refused(&error)),
    };
    let (description, bytes) = match state_of(library, None, &version).await {
        Ok(state) => state,
        Err(error) => return Came::replied(refused_object(&error)),
    };
    let kind = match (&bytes, version.kind()) {
        (Some(bytes), _) => NewKind::Binary(bytes.clone()),
        (None, Kind::Container { .. }) => NewKind::Container(Membership::Basic),
        (None, _) => NewKind::RdfSource,
    };
    let new = NewResource { kind, description, ..NewResource::empty_container() };
    world.lock().model.brings_back(op, version.revision());
    create_new(library, path, &new, bytes, true).await
}

/// A version of what was deleted at a path: the newest change, or any that is listed. `None` if
/// there is a resource, or no version. The versions are read after the current state, as in the
/// door.
async fn to_bring_back(library: &Library, path: &ResourcePath, nth: usize) -> ResourceResult<Option<Resource>> {
    match library.repository.resource(path).await {
        Ok(_) => return Ok(None),
        Err(ResourceError::Absent(_)) => {}
        Err(ResourceError::Gone { tombstone }) if tombstone == *path => {}
        Err(error) => return Err(error),
    }
    let (versions, listed) = versions_of(library, path).await?;
    if nth.is_multiple_of(2) || listed.is_empty() {
        return versions.newest_change_below(RevisionId::LAST).await;
    }
    versions.at(listed[nth % listed.len()]).await
}

/// The description of a version and, unless the resource has them now, its bytes.
async fn state_of(
    library: &Library,
    resource: Option<&Resource>,
    version: &Resource,
) -> ObjectsResult<(Bytes, Option<Uploaded>)> {
    let description = library.repository.description(version).await?;
    let bytes = match version.kind() {
        Kind::Binary(binary) if resource.is_none_or(|resource| resource.body().binary() != Some(binary)) => {
            Some(library.repository.upload_again(version, binary).await?)
        }
        _ => None,
    };
    Ok((description, bytes))
}

/// Removes one of the listed versions. That it may be removed is noted before, so that it is known
/// whenever the server dies.
pub(super) async fn remove_version(
    library: &Library,
    path: &ResourcePath,
    nth: usize,
    world: &Arc<Mutex<World>>,
) -> Came {
    let listed = match versions_of(library, path).await {
        Ok((_, listed)) if listed.is_empty() => return Came::replied(Reply::Refused("none is listed".to_owned())),
        Ok((_, listed)) => listed,
        Err(error) => return Came::replied(refused(&error)),
    };
    let (object, revision) = (keys::resource_partition(path), listed[nth % listed.len()]);
    world.lock().model.removes_version(&object, revision);
    let reply = match library.repository.remove_version(path, revision).await {
        Ok(()) => Reply::Done(None),
        Err(error) => refused(&error),
    };
    let world = &mut *world.lock();
    world.model.removed_version(&object, revision, &reply, world.step);
    Came::replied(reply)
}

/// Lists the versions of a resource, and reads at most `max` of them whole.
pub(super) async fn read_versions(library: &Library, path: ResourcePath, max: usize) -> Came {
    let mut found = FoundVersions { path, listed: Vec::new(), read: Vec::new(), broken: Vec::new() };
    match find(library, &mut found, max).await {
        // There never was a resource.
        Ok(()) | Err(ResourceError::Absent(_)) => Came::seen(Seen::Versions(found)),
        Err(ResourceError::Objects(error)) => damage(&error).unwrap_or_else(|| Came::replied(refused_object(&error))),
        Err(error) => Came::replied(refused(&error)),
    }
}

async fn find(library: &Library, found: &mut FoundVersions, max: usize) -> ResourceResult<()> {
    let (versions, listed) = versions_of(library, &found.path).await?;
    let step = listed.len().div_ceil(max).max(1);
    for revision in listed.iter().rev().step_by(step).filter(|revision| **revision >= versions.from()) {
        let wrong = match versions.at(*revision).await {
            Ok(Some(version)) => {
                found.read.push((*revision, Sums::of(version.body())));
                wrong_with(library, &version).await
            }
            Ok(None) => Some("it is listed, and not found".to_owned()),
            // The state of a received version is read only now. The version may be removed by now.
            Err(ResourceError::Objects(error)) if error.is_damage() => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        found.broken.extend(wrong.map(|wrong| (*revision, wrong)));
    }
    found.listed = listed;
    Ok(())
}

/// The versions at a path, and the revisions of those that are listed.
async fn versions_of(library: &Library, path: &ResourcePath) -> ResourceResult<(Versions, Vec<RevisionId>)> {
    let versions = library.repository.versions(path).await?;
    let page = versions.page(RevisionId::ZERO, RevisionId::LAST, usize::MAX).await?;
    Ok((versions, page.iter().map(|version| version.revision).collect()))
}
