//! What the index says of a path, as the store has it now.

use bytes::Bytes;
use heads::{ObjectState, ObjectsError, ObjectsResult, ResourcePath, RevisionId, keys};
use repository::{Kind, Membership, Repository, Resource, ResourceError};
use store::boxed;

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
    /// Whether the path had no revision before. Then the index has no earlier document of it, unless
    /// its head was lost and the index was not.
    pub is_first: bool,
}

/// Reads what is to be in the index of paths. Paths of which nothing is to be changed are left out:
/// the root is not in the index. What cannot be reached because a container above it was deleted is
/// left alone until it is deleted itself.
#[boxed]
pub async fn describe(
    repository: &Repository,
    heads: &heads::Heads,
    own_types: OwnTypes,
    paths: &[ResourcePath],
) -> ObjectsResult<Vec<Change>> {
    let mut changes = Vec::with_capacity(paths.len());
    let mut live = Vec::with_capacity(paths.len());
    for (path, found) in paths.iter().zip(repository.resources_at(paths).await?) {
        match found {
            _ if path.is_root() => {}
            Ok(resource) => live.push(resource),
            Err(ResourceError::Objects(error)) if error.is_damage() => {
                tracing::warn!(%path, %error, "a resource is damaged; the search index keeps what it has of it");
            }
            Err(ResourceError::Objects(error)) => return Err(error),
            Err(_) => changes.extend(deleted(heads, path).await?),
        }
    }
    let (short, long): (Vec<_>, Vec<_>) = live.iter().partition(|resource| resource.body().description.pieces <= 1);
    let mut add = |resource: &Resource, description: ObjectsResult<Bytes>| {
        let types = match description {
            Err(error) if error.is_damage() => Vec::new(),
            description => own_types(resource.path(), &description?),
        };
        changes.push(Change::of(resource, types));
        Ok::<_, ObjectsError>(())
    };
    let descriptions = repository.descriptions(&short).await?;
    short.into_iter().zip(descriptions).try_for_each(|(resource, description)| add(resource, description))?;
    for resource in long {
        let is_read = resource.body().description.pieces <= DESCRIPTION_ROWS_MAX;
        let description = if is_read { repository.description(resource).await } else { Ok(Bytes::new()) };
        add(resource, description)?;
    }
    Ok(changes)
}

impl Change {
    /// What is to be in the index of a live resource with types of its own.
    fn of(resource: &Resource, mut own_types: Vec<String>) -> Self {
        // Of the server's types only this one is not of a whole kind.
        own_types.extend(resource.is_group().then(|| ARCHIVAL_GROUP.to_owned()));
        let document = Document::new(
            resource.incarnation().time(),
            resource.description_revision().time(),
            shape(resource),
            own_types,
        );
        let (path, revision) = (resource.path().clone(), resource.revision());
        Self { path, revision, document: Some(document), is_first: resource.is_first() }
    }
}

/// The change of a path at which nothing can be reached.
async fn deleted(heads: &heads::Heads, path: &ResourcePath) -> ObjectsResult<Option<Change>> {
    let partition = keys::resource_partition(path);
    let head = heads.retry_transient(|| heads.head_at(&partition)).await?;
    let deleted = head.filter(|row| row.head.state != ObjectState::Live);
    let change = |revision| Change { path: path.clone(), revision, document: None, is_first: false };
    Ok(deleted.map(|row| change(row.head.revision)))
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
