//! Errors of calls about resources.

use heads::error::ObjectsError;
use heads::path::{InvalidPath, ResourcePath};
use thiserror::Error;

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
