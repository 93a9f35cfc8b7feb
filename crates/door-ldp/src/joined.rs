//! The transaction that a request is part of.

use library::Library;
use repository::TransactionId;
use store::UnixMillis;

/// The transaction that a request is part of.
#[derive(Clone)]
pub struct Joined {
    /// Its id.
    pub id: TransactionId,
    /// When it expires.
    pub until: UnixMillis,
    /// The library as it sees it.
    pub library: Library,
}
