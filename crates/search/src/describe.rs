//! What the index says of a path, as the store has it now.

use heads::{ObjectState, ObjectsResult, ResourcePath, RevisionId, keys};
use repository::{Kind, Membership, Repository, Resource, ResourceError};

use crate::document::{Document, Shape};

/// The types that a description gives its resource: of a path and the stored form of the
/// description.
pub type OwnTypes = fn(&ResourcePath, &[u8]) -> Vec<String>;

/// The most rows of a description whose types are read: 15 MB.
const DESCRIPTION_ROWS_MAX: u32 = 256;

/// The type of an archival group.
const ARCHIVAL_GROUP: &str = "http://fedora.info/definitions/v4/repository#ArchivalGroup";

/// What is to be in the index of a path, at least as of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: ResourcePath,
    pub revision: RevisionId,
    /// `None`: it was deleted.
    pub document: Option<Document>,
}

/// Reads what is to be in the index of a path. `None`: nothing is to be changed. The root is not in
/// the index. What cannot be reached because a container above it was deleted is left alone until
/// it is deleted itself.
pub async fn describe(
    repository: &Repository,
    heads: &heads::Heads,
    own_types: OwnTypes,
    path: &ResourcePath,
) -> ObjectsResult<Option<Change>> {
    if path.is_root() {
        return Ok(None);
    }
    let resource = match repository.resource(path).await {
        Ok(resource) => resource,
        Err(ResourceError::Objects(error)) if error.is_damage() => {
            tracing::warn!(%path, %error, "a resource is damaged; the search index keeps what it has of it");
            return Ok(None);
        }
        Err(ResourceError::Objects(error)) => return Err(error),
        Err(_) => return deleted(heads, path).await,
    };
    let mut own_types = match read_own_types(repository, own_types, &resource).await {
        Err(error) if error.is_damage() => Vec::new(),
        types => types?,
    };
    // Of the server's types only this one is not of a whole kind.
    own_types.extend(resource.is_group().then(|| ARCHIVAL_GROUP.to_owned()));
    let document = Document::new(
        resource.incarnation().time(),
        resource.description_revision().time(),
        shape(&resource),
        own_types,
    );
    Ok(Some(Change { path: path.clone(), revision: resource.revision(), document: Some(document) }))
}

/// The change of a path at which nothing can be reached.
async fn deleted(heads: &heads::Heads, path: &ResourcePath) -> ObjectsResult<Option<Change>> {
    let partition = keys::resource_partition(path);
    let head = heads.retry_transient(|| heads.head_at(&partition)).await?;
    let deleted = head.filter(|row| row.head.state != ObjectState::Live);
    Ok(deleted.map(|row| Change { path: path.clone(), revision: row.head.revision, document: None }))
}

async fn read_own_types(
    repository: &Repository,
    own_types: OwnTypes,
    resource: &Resource,
) -> ObjectsResult<Vec<String>> {
    if resource.body().description.pieces > DESCRIPTION_ROWS_MAX {
        return Ok(Vec::new());
    }
    Ok(own_types(resource.path(), &repository.description(resource).await?))
}

fn shape(resource: &Resource) -> Shape {
    match resource.kind() {
        Kind::RdfSource => Shape::RdfSource,
        Kind::Container { membership: Membership::Basic, .. } => Shape::BasicContainer,
        Kind::Container { membership: Membership::Direct(_), .. } => Shape::DirectContainer,
        Kind::Container { membership: Membership::Indirect(..), .. } => Shape::IndirectContainer,
        Kind::Binary(binary) => Shape::Binary {
            modified: binary.revision.time(),
            len_bytes: binary.elsewhere().is_none().then_some(binary.len_bytes),
            media_type: binary.media_type.clone(),
        },
    }
}
