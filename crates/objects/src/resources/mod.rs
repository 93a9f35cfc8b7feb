//! The repository: resources at paths, containers in containers. Their contents are opaque here: a
//! description is a string of bytes, relations are texts. There is no HTTP and no RDF.
//!
//! A resource is an object. Its head has its kind ([`ResourceBody`]) and names the rows of its
//! description and its bytes. A resource is reachable as long as every container above it is live,
//! under the incarnation in which the next lower one was created. So one write of a container's
//! head makes the container and its contents unreachable.
//!
//! Files in reading order: `path.rs` and `body.rs` define resources; `read.rs` finds and reads
//! them; `create.rs`, `update.rs`, `delete.rs` (with `empty.rs` for what a deletion leaves) and
//! `upload.rs` change them; `backlinks.rs` records links to them; `verify.rs` and `damage.rs`
//! check whether they are sound; `collect.rs` and `history.rs` collect what nothing names. A writer
//! passes the [`Resource`] that it read, and gets [`ResourceError::Moved`] if another writer
//! changed it meanwhile. So a condition that was checked beforehand still holds.

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

/// Why a call failed.
#[derive(Debug, Error)]
pub enum ResourceError {
    /// There is no resource.
    #[error("there is nothing at /{0}")]
    Absent(ResourcePath),
    /// The resource, or a container above it, was deleted.
    #[error("/{tombstone} was deleted")]
    Gone {
        /// The deleted path: the requested one, or a container above it.
        tombstone: ResourcePath,
    },
    /// There is a resource already.
    #[error("there is a resource at /{0} already")]
    Exists(ResourcePath),
    /// The parent is not a container.
    #[error("/{0} is no container")]
    NotAContainer(ResourcePath),
    /// The root container cannot be deleted.
    #[error("the container that everything else is in cannot be deleted")]
    Root,
    /// Another writer changed the resource since it was read.
    #[error("/{0} was changed by somebody else")]
    Moved(ResourcePath),
    /// The text is not a valid path.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// An error that any object can have.
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

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The path of the resource.
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

    /// Its path.
    pub fn path(&self) -> &ResourcePath {
        &self.path
    }

    /// Its kind.
    pub fn kind(&self) -> &Kind {
        &self.body.kind
    }

    /// The contents of its head.
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
