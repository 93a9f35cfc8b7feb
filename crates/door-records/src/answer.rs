//! An answer with the memory that it takes.

use std::pin::Pin;

use budget::{Memory, Party, Share};

use crate::error::Refusal;
use crate::reply::Reply;

/// A small answer takes no share of the memory.
const SMALL_BYTES: usize = 1 << 10;

/// An answer, until it is sent.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    _share: Option<Share>,
}

/// The answers of commands that run as one.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Vec<Answer>> + Send>>;

impl Answer {
    /// An answer that takes no share.
    pub(crate) fn free(reply: Reply) -> Self {
        Self { reply, _share: None }
    }

    /// An answer with its share, or a refusal if there is no memory for it.
    pub(crate) fn within(memory: &Memory, party: &Party, reply: Reply) -> Self {
        let bytes = reply.bytes();
        if bytes <= SMALL_BYTES {
            return Self::free(reply);
        }
        match memory.try_reserve(party, bytes as u64) {
            Ok(share) => Self { reply, _share: Some(share) },
            Err(_) => Self::free(Reply::Refused(Refusal::overloaded("there is no memory for the answer now"))),
        }
    }
}
