//! Errors of calls about resources.

use heads::claim::TransactionId;
use heads::error::ObjectsError;
use heads::error::utc;
use heads::path::{InvalidPath, ResourcePath};
use heads::transaction::Phase;
use store::UnixMillis;
use thiserror::Error;

use crate::backlinks::GIVING_MAX;

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
    /// An archival group within another one.
    #[error("/{path} would be in /{group}, which is an archival group: there are none within one")]
    InGroup {
        /// What was to be created.
        path: ResourcePath,
        /// The group that it would be in.
        group: ResourcePath,
    },
    /// Too many containers give members to the resource, or did so before.
    #[error(
        "{max} containers give members to /{0}, or did so before, and no more can: add members to one of these, or \
         create the container where one of these was",
        max = GIVING_MAX
    )]
    TooManyGive(ResourcePath),
    /// The root container cannot be deleted.
    #[error("the container that everything else is in cannot be deleted")]
    Root,
    /// Another writer changed the resource since it was read.
    #[error("/{0} was changed by somebody else")]
    Moved(ResourcePath),
    /// There is no such version.
    #[error("/{0} has no such version")]
    NoVersion(ResourcePath),
    /// The version to be removed is the current state.
    #[error("this version is the current state of /{0}: change or delete the resource first")]
    CurrentVersion(ResourcePath),
    /// A version cannot have the time that a client states.
    #[error("{0}")]
    NotReceived(String),
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
    /// Too many transactions are open.
    #[error("{}", too_many(*open, *of_owner, owner, *first_ends))]
    TooManyTransactions {
        /// How many are open, as far as this server knows.
        open: u64,
        /// How many of them are of this owner.
        of_owner: u64,
        /// Who wanted to begin another one.
        owner: String,
        /// When the first of them ends by itself, unless it is renewed; `None` if it is not known.
        first_ends: Option<UnixMillis>,
    },
    /// A transaction is committed, and not all of it could be carried out yet. A server goes on.
    #[error("the transaction {id} is committed, and the rest of it follows: {why}")]
    Committing {
        /// The transaction.
        id: TransactionId,
        /// What prevented the rest for now.
        why: String,
    },
    /// A container is deleted, and not all of its contents could be deleted yet. A server goes on.
    #[error("/{path} is deleted, and the rest of what was in it follows: {why}")]
    Deleting {
        /// The container.
        path: ResourcePath,
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

fn too_many(open: u64, of_owner: u64, owner: &str, first_ends: Option<UnixMillis>) -> String {
    let advice = match of_owner {
        0 => "try again when others have ended theirs",
        _ => "commit some, or roll them back",
    };
    let ends = first_ends.map(|ends| format!("; the first ends at {} unless it is renewed", utc(ends)));
    format!("{open} transactions are open, {of_owner} of them of {owner}: {advice}{}", ends.unwrap_or_default())
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
