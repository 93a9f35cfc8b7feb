//! The repository: resources at paths, containers in containers. What they say is opaque here: a description is a string of
//! bytes, relations are texts. No HTTP and no RDF.
//!
//! A resource is an object whose head says what it is ([`ResourceBody`]) and which rows hold its description and its bytes. It
//! is reachable as long as every container above it is live, under the incarnation that the one below was created in; so a
//! container is gone for everybody, with all that is in it, with one write of its head.
//!
//! How to read it: `path.rs` and `body.rs`: what there is; `read.rs`: how it is found and read; `create.rs`, `update.rs`,
//! `delete.rs` (with `empty.rs`, what that leaves), `upload.rs`: how it changes; `backlinks.rs`: who points at it; `verify.rs` and
//! `damage.rs`: whether it is sound; `collect.rs` and `history.rs`: what nothing names. Who changes a resource passes the [`Resource`] that
//! was read, and is told [`ResourceError::Moved`] if somebody else changed it meanwhile; so conditions can be looked at beforehand, and hold.

pub(crate) mod backlinks;
pub mod body;
mod collect;
mod create;
mod damage;
mod delete;
pub(crate) mod describe;
mod empty;
mod history;
pub mod path;
mod read;
mod update;
pub mod upload;
mod verify;

use thiserror::Error;

use crate::error::ObjectsError;
use crate::head::{Head, HeadRow};
use crate::revision::RevisionId;

pub use backlinks::Backlinks;
pub use body::{
    Binary, Elsewhere, Handling, Kind, MemberRule, Membership, Place, Relation, ResourceBody, StoredDescription,
};
pub use create::{NewKind, NewResource};
pub use damage::Part;
pub(crate) use delete::{RunningJobs, stored_path};
pub use path::{InvalidPath, ResourcePath};
pub use read::{Child, ChildPage};
pub use update::Update;
pub use upload::{DigestAlgorithm, UploadError, Uploaded};
pub use verify::{DamagedPart, ResourcePage, VerifiedResource};

/// The result of a call about resources.
pub type ResourceResult<T> = Result<T, ResourceError>;

/// Why not.
#[derive(Debug, Error)]
pub enum ResourceError {
    /// Nothing is there.
    #[error("there is nothing at /{0}")]
    Absent(ResourcePath),
    /// It was deleted, or what it was in.
    #[error("/{tombstone} was deleted")]
    Gone {
        /// What was deleted: the path that was asked for, or a container above it.
        tombstone: ResourcePath,
    },
    /// Something is there already.
    #[error("there is a resource at /{0} already")]
    Exists(ResourcePath),
    /// What is to have something in it is no container.
    #[error("/{0} is no container")]
    NotAContainer(ResourcePath),
    /// The container that everything is in cannot be deleted.
    #[error("the container that everything else is in cannot be deleted")]
    Root,
    /// Somebody else changed it since it was read.
    #[error("/{0} was changed by somebody else")]
    Moved(ResourcePath),
    /// A path that is none.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// As with all objects.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

/// A live resource, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    path: ResourcePath,
    row: HeadRow,
    body: ResourceBody,
}

/// What a write made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where.
    pub path: ResourcePath,
    /// The new revision.
    pub revision: RevisionId,
}

impl Resource {
    /// The live resource of this head.
    fn of(path: ResourcePath, row: HeadRow) -> Option<Self> {
        let body = row.head.live_resource()?.clone();
        Some(Self { path, row, body })
    }

    /// Where it is.
    pub fn path(&self) -> &ResourcePath {
        &self.path
    }

    /// What it is.
    pub fn kind(&self) -> &Kind {
        &self.body.kind
    }

    /// Everything its head says.
    pub fn body(&self) -> &ResourceBody {
        &self.body
    }

    /// The id under which it was created.
    pub fn incarnation(&self) -> RevisionId {
        self.row.head.incarnation
    }

    /// The revision of its description.
    pub fn description_revision(&self) -> RevisionId {
        match &self.body.kind {
            Kind::Binary(_) => self.body.description.revision,
            Kind::RdfSource | Kind::Container { .. } => self.row.head.revision,
        }
    }

    fn head(&self) -> &Head {
        &self.row.head
    }
}
