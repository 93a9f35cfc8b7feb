//! An answer with the memory that it takes.

use std::pin::Pin;

use budget::{Memory, Overloaded, Party, Share};

use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;

/// A small answer takes no share of the memory.
const SMALL_BYTES: usize = 1 << 10;

/// An answer, until it is sent.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    share: Option<Share>,
}

/// The answers of commands that run as one.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Vec<Answer>> + Send>>;

impl Answer {
    /// An answer that takes no share.
    pub(crate) fn free(reply: Reply) -> Self {
        Self { reply, share: None }
    }

    /// A refusal. It takes no share: it is short, and says whether something was changed.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self::free(Reply::Refused(refusal))
    }

    /// An answer with the share that was taken for it.
    pub(crate) fn holding(reply: Reply, share: Option<Share>) -> Self {
        Self { reply, share }
    }

    /// An answer with its share. The answer of a change takes it before the change is written, so that
    /// no change is made whose answer cannot be sent.
    ///
    /// Errors: there is no memory for it.
    pub(crate) fn within(memory: &Memory, party: &Party, reply: Reply) -> CommandResult<Self> {
        let bytes = reply.bytes();
        if is_small(bytes) || matches!(reply, Reply::Refused(_)) {
            return Ok(Self::free(reply));
        }
        let refusal = |_| Refusal::overloaded("there is no memory for the answer now");
        let share = memory.try_reserve(party, bytes as u64).map_err(refusal)?;
        Ok(Self::holding(reply, Some(share)))
    }

    /// The reply and its share.
    pub(crate) fn parts(self) -> (Reply, Option<Share>) {
        (self.reply, self.share)
    }
}

/// Whether an answer of so many bytes takes no share.
pub(crate) fn is_small(bytes: usize) -> bool {
    bytes <= SMALL_BYTES
}

/// A share for `bytes` that are held, unless they are few.
pub(crate) fn share_of(memory: &Memory, party: &Party, bytes: usize) -> Result<Option<Share>, Overloaded> {
    if bytes <= Memory::FREE_BYTES { Ok(None) } else { memory.try_reserve(party, bytes as u64).map(Some) }
}
