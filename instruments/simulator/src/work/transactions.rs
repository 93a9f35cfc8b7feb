//! Whole transactions, as one client makes them. What each may have done in the end is noted before
//! its next request, so that it is known whenever the server dies.

use std::sync::Arc;

use bytes::Bytes;
use heads::{ObjectsError, ResourcePath, keys};
use library::Library;
use parking_lot::Mutex;
use repository::{Kind, Membership, NewKind, NewResource, Phase, Repository, ResourceError, ResourceResult, Update};
use sha2::{Digest, Sha256};

use super::{Came, GROUPS, Reply, Seen, parsed};
use crate::model::{Mark, Must};
use crate::store::world::World;

/// What a transaction does with a resource.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// Creates it, or replaces what it says or its bytes.
    Put {
        token: String,
        is_bytes: bool,
    },
    Delete,
}

/// How its client ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    /// By a commit beside its last request.
    CommitBeside,
    RollBack,
    /// Not at all.
    Leave,
}

/// A transaction of a client.
#[derive(Clone, Debug)]
pub(crate) struct Transact {
    pub(crate) steps: Vec<(ResourcePath, Does)>,
    pub(crate) end: End,
}

/// How a request of a transaction came out.
enum Staged {
    /// It is part of it, with this mark if it leaves one.
    In(Option<Mark>),
    /// It is not; with the mark that it would have left.
    Not(Option<Mark>),
    /// That is not known.
    Unknown,
}

impl Transact {
    pub(crate) async fn run(self, library: &Library, world: &Arc<Mutex<World>>) -> Came {
        let owner = "client";
        let Ok((id, _)) = library.repository.begin_transaction(owner).await else {
            return Came::replied(Reply::Unknown("none was begun".to_owned()));
        };
        let nth = world.lock().model.transacts();
        let inside = library.repository.in_transaction(id);
        let mut end = self.end;
        let mut steps = self.steps;
        let may_be_deleted =
            steps.iter().any(|(path, _)| path.parent().is_some_and(|above| above == parsed(GROUPS[0])));
        let last = if end == End::CommitBeside { steps.pop() } else { None };
        for (path, does) in steps {
            let object = keys::resource_partition(&path);
            match stage(&inside, &path, does).await {
                Staged::In(mark) => {
                    let world = &mut *world.lock();
                    world.model.holds(nth, &object, world.step);
                    world.model.staged(nth, object, mark);
                }
                Staged::Not(mark) => note_refused(world, nth, object, mark),
                Staged::Unknown => {
                    end = if matches!(end, End::Commit | End::CommitBeside) { End::RollBack } else { end };
                    break;
                }
            }
        }
        let commit = || library.repository.commit_transaction(id, owner);
        let came = match (end, last) {
            (End::CommitBeside, Some((path, does))) => {
                let object = keys::resource_partition(&path);
                let before = {
                    let world = &mut *world.lock();
                    world.model.commits(nth, world.step);
                    world.model.take_staged(nth, &object)
                };
                let (came, staged) = futures::join!(commit(), stage(&inside, &path, does));
                match staged {
                    Staged::In(mark) => world.lock().model.staged(nth, object, mark),
                    Staged::Not(mark) => {
                        world.lock().model.staged(nth, object.clone(), before);
                        note_refused(world, nth, object, mark);
                    }
                    Staged::Unknown => {}
                }
                Some(came)
            }
            (End::Commit | End::CommitBeside, _) => {
                {
                    let world = &mut *world.lock();
                    world.model.commits(nth, world.step);
                }
                let came = commit().await;
                if let Err(ResourceError::Objects(ObjectsError::Conflict(why))) = &came
                    && !may_be_deleted
                {
                    return Came::seen(Seen::Wrong(format!("transaction {nth} had only sure answers, and {why}")));
                }
                Some(came)
            }
            (End::RollBack, _) => {
                let _ = library.repository.roll_back_transaction(id, owner).await;
                None
            }
            (End::Leave, _) => None,
        };
        if let Some(must) = came.as_ref().and_then(after) {
            world.lock().model.must(nth, must);
        }
        Came::replied(Reply::Done(None))
    }
}

fn note_refused(world: &Arc<Mutex<World>>, nth: usize, object: Bytes, mark: Option<Mark>) {
    if let Some(mark) = mark {
        world.lock().model.refused_to_stage(nth, object, mark);
    }
}

/// What must have happened after a commit came out so; `None`: it is not known.
fn after(came: &ResourceResult<()>) -> Option<Must> {
    match came {
        Ok(()) | Err(ResourceError::Committing { .. }) => Some(Must::All),
        Err(ResourceError::Objects(ObjectsError::Conflict(_))) => Some(Must::Nothing),
        Err(ResourceError::TransactionOver { phase: Phase::Expired | Phase::RolledBack, .. }) => Some(Must::Nothing),
        Err(_) => None,
    }
}

async fn stage(inside: &Repository, path: &ResourcePath, does: Does) -> Staged {
    let resource = match inside.resource(path).await {
        Ok(resource) => Some(resource),
        Err(ResourceError::Absent(_)) => None,
        Err(ResourceError::Gone { .. } | ResourceError::TransactionOver { .. }) => return Staged::Not(None),
        Err(_) => return Staged::Unknown,
    };
    let (token, is_bytes) = match (does, &resource) {
        (Does::Delete, Some(resource)) => return outcome(inside.delete(resource).await.map(|_| ()), None),
        (Does::Delete, None) => return Staged::Not(None),
        (Does::Put { token, is_bytes }, _) => (token, is_bytes),
    };
    // Others may delete what a commit creates before everything in it is there.
    let would_be_deleted = resource.is_none() && *path == parsed(GROUPS[0]);
    if would_be_deleted || is_in_missing_group(inside, path).await {
        return Staged::Not(None);
    }
    let is_group = GROUPS.contains(&&*path.to_string());
    let is_bytes = is_bytes && !is_group;
    let is_bytes = resource.as_ref().map_or(is_bytes, |resource| matches!(resource.kind(), Kind::Binary(_)));
    let text = Bytes::from(token.repeat(if is_bytes { 30 } else { 1 }));
    let mark: Mark = Sha256::digest(&text).into();
    let uploaded = match is_bytes {
        true => {
            let source = futures::stream::iter([Ok::<_, std::io::Error>(text.clone())]);
            match inside.upload(path, source, &[]).await {
                Ok(uploaded) => Some(uploaded),
                Err(_) => return Staged::Unknown,
            }
        }
        false => None,
    };
    let written = match (&resource, &uploaded) {
        (Some(resource), Some(uploaded)) => inside.update(resource, &Update::Binary(uploaded.clone())).await,
        (Some(resource), None) => {
            let (membership, members_for, refers_to) = (Membership::Basic, None, Vec::new());
            let update = Update::Description { description: text, membership, members_for, refers_to };
            inside.update(resource, &update).await
        }
        (None, uploaded) => {
            let kind = match uploaded.clone() {
                Some(uploaded) => NewKind::Binary(uploaded),
                None if is_group => NewKind::Group(Membership::Basic),
                None => NewKind::RdfSource,
            };
            let description = if uploaded.is_some() { Bytes::new() } else { text };
            inside.create(path, &NewResource { kind, description, ..NewResource::empty_container() }).await
        }
    };
    if let (Err(error), Some(uploaded)) = (&written, &uploaded)
        && !matches!(error, ResourceError::Objects(ObjectsError::Unknown(_)))
    {
        inside.discard(uploaded).await;
    }
    outcome(written.map(|_| ()), Some(mark))
}

/// Whether a resource is to be in a group that is not there. Its creation would make a container of
/// another kind in the place of the group.
async fn is_in_missing_group(inside: &Repository, path: &ResourcePath) -> bool {
    match path.parent().filter(|above| !above.is_root()) {
        Some(above) => inside.resource(&above).await.is_err(),
        None => false,
    }
}

fn outcome(came: ResourceResult<()>, mark: Option<Mark>) -> Staged {
    match came {
        Ok(()) => Staged::In(mark),
        Err(
            ResourceError::Moved(_)
            | ResourceError::Exists(_)
            | ResourceError::TransactionOver { .. }
            | ResourceError::Objects(ObjectsError::Held { .. }),
        ) => Staged::Not(mark),
        Err(_) => Staged::Unknown,
    }
}
