//! What is known of a selection without its plan.

use serde::{Deserialize, Serialize};
use store::UnixMillis;

/// The description of a selection, without its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionInfo {
    /// Its id: 32 hexadecimal digits that cannot be guessed.
    pub id: String,
    /// The party of the requester that made it ([`audit::Requester::owner`]).
    pub owner: String,
    /// When it was made.
    pub created: UnixMillis,
    /// When it ends.
    pub ends: UnixMillis,
    /// Bytes of its archive.
    pub len_bytes: u64,
    /// The entity tag of its archive, without quotation marks.
    pub etag: String,
    /// Entries of its archive.
    pub entries: u64,
    /// Volumes in it.
    pub volumes: u64,
    /// The number of requested things that are not in it.
    pub missing: u64,
}
