//! Errors of a store, as facts that a caller can act on.

use thiserror::Error;

use crate::class::Durability;
use crate::table::Table;

/// The result of a call of the store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why a call has no answer. A failed [`crate::Store::run`] applied nothing; where that is not
/// certain, it returns [`crate::Outcome::Unknown`] instead.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The request exceeds a limit (see [`crate::Limits`]); the same request will never succeed.
    #[error("over a limit of the store: {what} is {actual}, at most {max} are allowed")]
    Limit {
        /// What was measured.
        what: &'static str,
        /// Its size.
        actual: u64,
        /// The limit.
        max: u64,
    },
    /// Too many calls are waiting; try again later.
    #[error("the store is overloaded: {0}; try again later")]
    Overloaded(String),
    /// The deadline passed before there was an answer. Only reads return this; a write returns
    /// unknown instead.
    #[error("the store did not answer by the deadline")]
    DeadlinePassed,
    /// The write has to survive more than the store can promise; nothing was applied.
    #[error("a write has to survive {wanted}, but this store only promises that it survives {given}")]
    NotDurable {
        /// What it has to survive.
        wanted: Durability,
        /// The most that such a write survives here.
        given: Durability,
    },
    /// The disk is full: writes are refused while reads go on.
    #[error("no room for writing: {0}")]
    Full(String),
    /// The store can no longer promise durability, so writes are refused until a restart.
    #[error("the store refuses writes since an earlier failure: {0}")]
    Poisoned(String),
    /// Changes are refused on purpose (see [`crate::read_only`]); reads go on.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// A stored value fails its checksum or cannot be what was written.
    #[error("damaged data in table {table}: {detail}")]
    Corrupt {
        /// Where.
        table: Table,
        /// What is wrong.
        detail: String,
    },
    /// A passing failure (a node is down, a call was interrupted): the same request may succeed
    /// now.
    #[error("the store is unavailable for now: {0}")]
    Unavailable(String),
    /// Another process holds the data folder.
    #[error("the data folder {folder} is held by another process")]
    Held {
        /// The folder.
        folder: String,
    },
    /// The data has another format than this program's.
    #[error(
        "the store in {location} has format {found}, this program reads format {expected}: use the version of Penates that wrote it"
    )]
    Format {
        /// Where.
        location: String,
        /// The format that was found.
        found: String,
        /// The format that is understood.
        expected: String,
    },
    /// A build before the first release wrote the store. Nothing in it was changed.
    #[error(
        "the store in {location} was written by a build before 0.1.0, which no release reads: export it with that build and load it here; nothing in it was changed"
    )]
    Unreleased {
        /// Where.
        location: String,
    },
    /// The store cannot be opened because a part of it is damaged or missing.
    #[error("the store in {location} cannot be read: {detail}")]
    Unreadable {
        /// Where.
        location: String,
        /// What is wrong.
        detail: String,
    },
    /// The request makes no sense to the store (a plain put of a guarded row, a tag that is too
    /// long): a defect of the caller.
    #[error("invalid request to the store: {0}")]
    Invalid(String),
    /// The operating system refused an operation.
    #[error("{context}: {source}")]
    Io {
        /// The operation.
        context: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

impl StoreError {
    /// Whether the same request may succeed if it is tried again now.
    pub fn is_passing(&self) -> bool {
        matches!(self, StoreError::Overloaded(_) | StoreError::Unavailable(_) | StoreError::DeadlinePassed)
    }
}
