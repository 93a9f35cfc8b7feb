//! Large contents: written as a stream, named by an id, read by range.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::clock::UnixMillis;
use crate::error::StoreResult;
use crate::random::{Random, SystemRandom};
use crate::stored::Stored;
use crate::value_kind::ValueKind;

/// An engine that keeps the bytes of contents in rows puts at most so many into each row, and into
/// each partition at most so many rows.
pub const CHUNK_BYTES_MAX: usize = 128 << 10;
/// See [`CHUNK_BYTES_MAX`].
pub const CHUNKS_MAX: u64 = 256;

/// An engine that keeps the bytes of contents in files may keep a row of checksums of at most so
/// many bytes, for so many bytes of the content, in the partition of its header.
pub const SUMS_BYTES_MAX: usize = 16 << 10;
/// See [`SUMS_BYTES_MAX`].
pub const SUMMED_BYTES: u64 = 256 << 20;

/// The name of a content, given by the store.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContentId(pub [u8; 16]);

impl ContentId {
    /// A fresh random id.
    pub fn fresh() -> Self {
        Self::drawn(&SystemRandom)
    }

    /// A fresh id, drawn from `random`.
    pub fn drawn(random: &dyn Random) -> Self {
        Self(random.bytes())
    }
}

/// A text that is not an id of a content: an id has 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id of a content")]
pub struct NoContentId;

impl FromStr for ContentId {
    type Err = NoContentId;

    fn from_str(text: &str) -> Result<Self, NoContentId> {
        let id = u128::from_str_radix(text, 16).map(|id| Self(id.to_be_bytes())).map_err(|_| NoContentId)?;
        if id.to_string() == text { Ok(id) } else { Err(NoContentId) }
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The state of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentState {
    /// It is being uploaded. Until the lease expires nobody may delete it, unless it is certain that
    /// the upload has ended.
    Uploading,
    /// Complete and immutable.
    Sealed,
    /// To be deleted: it can no longer be sealed.
    Condemned,
}

/// What the store knows of a content besides its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentHeader {
    /// Its state.
    pub state: ContentState,
    /// The partition of the object that will name it. A collector looks there before it deletes the
    /// content.
    pub owner: Bytes,
    /// Its length in bytes; known once it is sealed.
    pub len: u64,
    /// When an upload that sends nothing loses its lease.
    pub lease_until: UnixMillis,
}

impl Stored for ContentHeader {
    const KIND: ValueKind = ValueKind::ContentHeader;
}

/// The bytes of a content, coming in or going out.
pub type ContentStream = BoxStream<'static, StoreResult<Bytes>>;
