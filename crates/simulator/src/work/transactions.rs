//! Whole transactions, as one client makes them. What each may have done in the end is noted before
//! its next request, so that it is known whenever the server dies.

use std::sync::Arc;

use bytes::Bytes;
use heads::{ObjectsError, ResourcePath, keys};
use library::Library;
use parking_lot::Mutex;
use repository::{Kind, Membership, NewKind, NewResource, Phase, Repository, ResourceError, ResourceResult, Update};
use sha2::{Digest, Sha256};

use super::{Came, Reply};
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
    /// It is not.
    Not,
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
        for (path, does) in self.steps {
            match stage(&inside, &path, does).await {
                Staged::In(mark) => world.lock().model.staged(nth, keys::resource_partition(&path), mark),
                Staged::Not => {}
                Staged::Unknown => {
                    end = if end == End::Commit { End::RollBack } else { end };
                    break;
                }
            }
        }
        match end {
            End::Commit => {
                world.lock().model.must(nth, Must::AllOrNothing);
                let came = library.repository.commit_transaction(id, owner).await;
                if let Some(must) = after(&came) {
                    world.lock().model.must(nth, must);
                }
            }
            End::RollBack => _ = library.repository.roll_back_transaction(id, owner).await,
            End::Leave => {}
        }
        Came::replied(Reply::Done(None))
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
        Err(ResourceError::Gone { .. }) => return Staged::Not,
        Err(_) => return Staged::Unknown,
    };
    let (token, is_bytes) = match (does, &resource) {
        (Does::Delete, Some(resource)) => return outcome(inside.delete(resource).await.map(|()| None)),
        (Does::Delete, None) => return Staged::Not,
        (Does::Put { token, is_bytes }, _) => (token, is_bytes),
    };
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
            let kind = uploaded.clone().map_or(NewKind::RdfSource, NewKind::Binary);
            let description = if uploaded.is_some() { Bytes::new() } else { text };
            inside.create(path, &NewResource { kind, description, ..NewResource::empty_container() }).await
        }
    };
    if let (Err(error), Some(uploaded)) = (&written, &uploaded)
        && !matches!(error, ResourceError::Objects(ObjectsError::Unknown(_)))
    {
        inside.discard(uploaded).await;
    }
    outcome(written.map(|_| Some(mark)))
}

fn outcome(came: ResourceResult<Option<Mark>>) -> Staged {
    match came {
        Ok(mark) => Staged::In(mark),
        Err(ResourceError::Moved(_) | ResourceError::Exists(_) | ResourceError::Objects(ObjectsError::Held { .. })) => {
            Staged::Not
        }
        Err(_) => Staged::Unknown,
    }
}
