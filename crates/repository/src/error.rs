//! Errors of calls about resources.

use heads::error::ObjectsError;
use heads::path::{InvalidPath, ResourcePath};
use heads::transaction::{Phase, TransactionId};
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
    /// There is no such transaction, or it is another client's.
    #[error("there is no transaction {0}")]
    NoTransaction(TransactionId),
    /// The transaction has ended, or is being committed.
    #[error("the transaction {id} {}", how_it_ended(*phase))]
    TransactionOver {
        /// The transaction.
        id: TransactionId,
        /// How it ended.
        phase: Phase,
    },
    /// A transaction is committed, and not all of it could be carried out yet. A server goes on.
    #[error("the transaction {id} is committed, and the rest of it follows: {why}")]
    Committing {
        /// The transaction.
        id: TransactionId,
        /// What prevented the rest for now.
        why: String,
    },
    /// Something that is not done in a transaction.
    #[error("{0} in a transaction")]
    NotInTransaction(&'static str),
    /// The text is not a valid path.
    #[error(transparent)]
    Path(#[from] InvalidPath),
    /// An error that any object can have.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

fn how_it_ended(phase: Phase) -> &'static str {
    match phase {
        Phase::Open => "is open",
        Phase::Closing | Phase::Committing => "is being committed",
        Phase::Committed => "was committed",
        Phase::RolledBack => "was rolled back",
        Phase::Expired => "has expired, and nothing of it was kept",
    }
}
