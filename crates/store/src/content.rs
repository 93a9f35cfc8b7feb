//! Large contents: a stream in, an id out; a range of it back.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::clock::UnixMillis;
use crate::error::StoreResult;
use crate::random::{Random, SystemRandom};

/// The name of a content, given by the store.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContentId(pub [u8; 16]);

impl ContentId {
    /// A fresh random id.
    pub fn fresh() -> Self {
        Self::drawn(&SystemRandom)
    }

    /// A fresh id that is drawn from `random`.
    pub fn drawn(random: &dyn Random) -> Self {
        Self(random.bytes())
    }
}

/// A text that names no content: other than 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no id of a content")]
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

/// Where a content stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentState {
    /// It is being uploaded; the lease says until when nobody may take it away.
    Uploading,
    /// Complete and immutable.
    Sealed,
    /// To be collected: it can no longer be sealed.
    Condemned,
}

/// What is known of a content besides its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentHeader {
    /// Where it stands.
    pub state: ContentState,
    /// The partition of the object that will name it, so that a collector knows whom to ask.
    pub owner: Bytes,
    /// Bytes; known once it is sealed.
    pub len: u64,
    /// Until when an upload may stay silent.
    pub lease_until: UnixMillis,
}

/// A content's bytes as they come in or go out.
pub type ContentStream = BoxStream<'static, StoreResult<Bytes>>;
