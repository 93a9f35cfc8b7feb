//! Operations on resources.

use std::collections::BTreeSet;

use bytes::Bytes;
use heads::{ListToken, ObjectsError, ResourcePath, RevisionId, keys};
use library::Library;
use repository::ResourceError;
use repository::{DigestAlgorithm, Kind, Membership, NewKind, NewResource, Resource, Update, Uploaded, Written};

use super::{Came, Seen, What, damage, refused, refused_object};
use crate::model::Reply;

pub(super) fn written(path: &ResourcePath, revision: RevisionId) -> Came {
    Came::replied(Reply::Done(Some((keys::resource_partition(path), revision))))
}

/// A new resource, with the bytes that were uploaded for it.
async fn made(library: &Library, path: &ResourcePath, what: &What) -> Result<(NewResource, Option<Uploaded>), Came> {
    let (kind, description, uploaded) = match what {
        What::Statements(token) => (NewKind::RdfSource, Bytes::from(token.clone()), None),
        What::Container => return Ok((NewResource::empty_container(), None)),
        What::Group(token) => (NewKind::Group(Membership::Basic), Bytes::from(token.clone()), None),
        What::Bytes(token) => {
            let uploaded = upload(library, path, token).await?;
            (NewKind::Binary(uploaded.clone()), Bytes::new(), Some(uploaded))
        }
    };
    Ok((NewResource { kind, description, ..NewResource::empty_container() }, uploaded))
}

/// The bytes of a token. For a third of the tokens they are few, so that they go into a row.
fn bytes_of(token: &str) -> Bytes {
    let number: usize = token.trim_start_matches('t').parse().unwrap_or(0);
    Bytes::from(token.repeat(if number.is_multiple_of(3) { 1 } else { 30 }))
}

pub(super) async fn upload(library: &Library, path: &ResourcePath, token: &str) -> Result<Uploaded, Came> {
    let source = futures::stream::iter([Ok::<_, std::io::Error>(bytes_of(token))]);
    library.repository.upload(path, source, &[]).await.map_err(|error| Came::replied(Reply::Unknown(error.to_string())))
}

/// Discards an upload, unless it is unknown whether something names it, as the repository door
/// does.
pub(super) async fn give_back(library: &Library, uploaded: Option<Uploaded>, error: ResourceError) -> Came {
    if let Some(uploaded) = uploaded
        && !matches!(error, ResourceError::Objects(ObjectsError::Unknown(_)))
    {
        library.repository.discard(&uploaded).await;
    }
    Came::replied(refused(&error))
}

/// Creates a resource, also in place of a tombstone if `over` says so.
pub(super) async fn create(library: &Library, path: &ResourcePath, what: &What, over: bool) -> Came {
    let (new, uploaded) = match made(library, path, what).await {
        Ok(made) => made,
        Err(came) => return came,
    };
    create_new(library, path, &new, uploaded, over).await
}

/// Creates a resource whose bytes are uploaded already.
pub(super) async fn create_new(
    library: &Library,
    path: &ResourcePath,
    new: &NewResource,
    uploaded: Option<Uploaded>,
    over: bool,
) -> Came {
    let created = match over {
        true => library.repository.create_over(path, new).await,
        false => library.repository.create(path, new).await,
    };
    match created {
        Ok(Written { path, revision }) => written(&path, revision),
        Err(error) => {
            let gone = match &error {
                ResourceError::Gone { tombstone } => Some(tombstone.clone()),
                _ => None,
            };
            let came = give_back(library, uploaded, error).await;
            Came { seen: gone.map_or(Seen::Nothing, |path| Seen::Gone { path }), ..came }
        }
    }
}

pub(super) async fn post(library: &Library, container: &ResourcePath, wish: Option<&str>, what: &What) -> Came {
    let (new, uploaded) = match made(library, container, what).await {
        Ok(made) => made,
        Err(came) => return came,
    };
    let make = |_: &Resource, _: &ResourcePath| Ok::<_, ResourceError>(new.clone());
    match library.repository.create_in(container, wish, make).await {
        Ok(Written { path, revision }) => written(&path, revision),
        Err(error) => give_back(library, uploaded, error).await,
    }
}

pub(super) async fn update(library: &Library, path: &ResourcePath, what: &What) -> Came {
    let resource = match library.repository.resource(path).await {
        Ok(resource) => resource,
        Err(error) => return Came::replied(refused(&error)),
    };
    let (update, uploaded) = match (resource.kind(), what) {
        (Kind::Binary(_), What::Bytes(token)) => match upload(library, path, token).await {
            Ok(uploaded) => (Update::Binary(uploaded.clone()), Some(uploaded)),
            Err(came) => return came,
        },
        (_, What::Statements(token) | What::Bytes(token)) => {
            let description = Bytes::from(token.clone());
            let membership = Membership::Basic;
            (Update::Description { description, membership, members_for: None, refers_to: Vec::new() }, None)
        }
        (_, What::Container | What::Group(_)) => {
            return Came::replied(Reply::Refused("it stays what it is".to_owned()));
        }
    };
    match library.repository.update(&resource, &update).await {
        Ok(Written { path, revision }) => written(&path, revision),
        Err(error) => give_back(library, uploaded, error).await,
    }
}

pub(super) async fn delete(library: &Library, path: &ResourcePath) -> Came {
    let resource = match library.repository.resource(path).await {
        Ok(resource) => resource,
        Err(error) => return Came::replied(refused(&error)),
    };
    match library.repository.delete(&resource).await {
        // It is made, also if servers have to finish it.
        Ok(()) | Err(ResourceError::Deleting { .. }) => Came::replied(Reply::Done(None)),
        Err(error) => Came::replied(refused(&error)),
    }
}

pub(super) async fn read(library: &Library, path: &ResourcePath) -> Came {
    let life = library.options().plan_life;
    let began = library.clock().now();
    let resource = match library.repository.resource(path).await {
        Ok(resource) => resource,
        Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => {
            return Came::seen(Seen::Resource { path: path.clone(), revision: None });
        }
        Err(ResourceError::Objects(error)) => {
            return damage(&error).unwrap_or_else(|| Came::replied(refused_object(&error)));
        }
        Err(error) => return Came::replied(refused(&error)),
    };
    let revision = resource.revision();
    match wrong_with(library, &resource).await {
        Some(wrong) if library.clock().now().since(began) <= life => {
            Came::seen(Seen::Wrong(format!("/{path}: {wrong}")))
        }
        _ => Came::seen(Seen::Resource { path: path.clone(), revision: Some(revision) }),
    }
}

/// What is wrong with a resource as it reads, if anything.
pub(super) async fn wrong_with(library: &Library, resource: &Resource) -> Option<String> {
    let damaged = |error: ObjectsError| error.is_damage().then(|| error.to_string());
    if let Err(error) = library.repository.description(resource).await {
        return damaged(error);
    }
    let Kind::Binary(binary) = resource.kind() else { return None };
    match library.repository.digests(resource, binary, &[DigestAlgorithm::Sha256]).await {
        Ok(digests) => {
            let is_right = digests.iter().all(|(_, digest)| digest[..] == binary.sha256);
            (!is_right).then(|| "its bytes are others".to_owned())
        }
        Err(error) => damaged(error),
    }
}

pub(super) async fn list(library: &Library, container: &ResourcePath, page: usize) -> Came {
    let resource = match library.repository.resource(container).await {
        Ok(resource) => resource,
        Err(error) => return Came::replied(refused(&error)),
    };
    let mut names = BTreeSet::new();
    let mut after: Option<ListToken> = None;
    loop {
        let found = match library.repository.children(&resource, after.as_ref(), page).await {
            Ok(found) => found,
            Err(error) => return damage(&error).unwrap_or_else(|| Came::replied(refused_object(&error))),
        };
        for child in found.children {
            if !names.insert(child.name.clone()) {
                return Came::seen(Seen::Wrong(format!("/{container} lists {} twice", child.name)));
            }
        }
        after = found.next;
        if after.is_none() {
            break;
        }
    }
    Came::seen(Seen::Children { container: container.clone(), incarnation: resource.incarnation(), names })
}
