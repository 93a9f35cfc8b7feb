//! What can go wrong below the seam, as facts a caller can act on.

use thiserror::Error;

use crate::row::Table;

/// The result of a call of the store.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why a call has no answer. A failed [`crate::Store::run`] applied nothing; where that is not sure, it answers
/// [`crate::Outcome::Unknown`] instead.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A limit of the seam was passed (see [`crate::Limits`]); the same request will never succeed.
    #[error("over a limit of the store: {what} is {actual}, at most {max} are allowed")]
    Limit {
        /// What was measured.
        what: &'static str,
        /// Its size.
        actual: u64,
        /// The limit.
        max: u64,
    },
    /// Too much is waiting already; try again later.
    #[error("the store is overloaded: {0}; try again later")]
    Overloaded(String),
    /// The deadline passed before there was an answer (reads only; writes are unknown then).
    #[error("the store did not answer by the deadline")]
    DeadlinePassed,
    /// No room on the disk: writes are refused while reads go on.
    #[error("no room for writing: {0}")]
    Full(String),
    /// Durability can no longer be promised, so writes are refused until a restart.
    #[error("the store refuses writes since an earlier failure: {0}")]
    Poisoned(String),
    /// Changes are refused on purpose (see [`crate::read_only`]); reads go on.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// What is stored fails its checksum, or cannot be what was written.
    #[error("damaged data in table {table}: {detail}")]
    Corrupt {
        /// Where.
        table: Table,
        /// What is wrong.
        detail: String,
    },
    /// A passing failure (a node away, an interrupted call): the same request may succeed now.
    #[error("the store is unavailable for now: {0}")]
    Unavailable(String),
    /// Another process holds the data folder.
    #[error("the data folder {folder} is held by another process")]
    Held {
        /// The folder.
        folder: String,
    },
    /// The data is of another format than this program's.
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
    /// The store cannot be opened because what it is made of is damaged or not there.
    #[error("the store in {location} cannot be read: {detail}")]
    Unreadable {
        /// Where.
        location: String,
        /// What is wrong.
        detail: String,
    },
    /// The request makes no sense to the store (a guarded row put plainly, a tag too long): a defect of the caller.
    #[error("invalid request to the store: {0}")]
    Invalid(String),
    /// The operating system refused something.
    #[error("{context}: {source}")]
    Io {
        /// What was tried.
        context: String,
        /// What it said.
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
