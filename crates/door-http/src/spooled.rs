//! Answers to the lines of a request, while they wait for a client that does not read yet. They take
//! shares of the memory until they are read, also those that wait in a file.

use std::io;
use std::sync::Arc;
use store::boxed;

use budget::{Memory, Party, Share};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::spool;

/// The answer to a line, with the share of the memory that it takes.
pub struct Answered {
    text: String,
    share: Option<Share>,
}

impl Answered {
    /// An answer without a share of its own: it is short.
    pub fn free(text: String) -> Self {
        Self { text, share: None }
    }

    /// An answer that keeps of a share as much as it takes.
    pub fn within(text: String, mut share: Share) -> Self {
        // A refusal may be longer than what its line took a share for. It is short all the same.
        let _ = share.resize(text.len() as u64);
        Self { text, share: Some(share) }
    }
}

/// The writing end. If it is dropped before [`Writer::finish`], the response ends with an error.
pub struct Writer {
    spool: spool::Writer,
    spooled: Arc<Spooled>,
    memory: Memory,
    party: Party,
}

/// What waits for the client.
#[derive(Default)]
struct Spooled {
    state: Mutex<State>,
    /// Something was read, or nobody reads any more.
    has_room: Notify,
}

#[derive(Default)]
struct State {
    unread_bytes: usize,
    share: Option<Share>,
    /// Whether nobody reads any more.
    is_unread: bool,
}

/// What the reading end has of it.
struct Reader(Arc<Spooled>);

/// Makes both ends, for a request of a party.
pub fn new(memory: Memory, party: Party) -> (Writer, impl Stream<Item = io::Result<Bytes>> + Send + 'static) {
    let (spool, pieces) = spool::new();
    let spooled = Arc::new(Spooled::default());
    let reader = Reader(spooled.clone());
    let pieces = pieces.inspect(move |piece| reader.note(piece));
    (Writer { spool, spooled, memory, party }, pieces)
}

impl Writer {
    /// Adds an answer. Waits for the client to read while others wait and there is no memory for one
    /// more. What nobody will read is dropped.
    #[boxed]
    pub async fn write(&self, mut answered: Answered) -> io::Result<()> {
        while !self.holds(&mut answered) {
            self.spooled.has_room.notified().await;
        }
        self.spool.write(answered.text.as_bytes()).await
    }

    /// Takes the memory for an answer while it waits. Returns whether there is some.
    fn holds(&self, answered: &mut Answered) -> bool {
        let mut state = self.spooled.state.lock();
        if state.is_unread {
            return true;
        }
        let unread_bytes = state.unread_bytes + answered.text.len();
        if state.unread_bytes == 0 {
            // It has its share already, so the client always gets the next answer.
            state.share = answered.share.take();
        } else if self.memory.hold(&self.party, &mut state.share, unread_bytes).is_err() {
            return false;
        }
        state.unread_bytes = unread_bytes;
        true
    }

    /// Ends the output.
    pub fn finish(self) {
        self.spool.finish();
    }
}

impl Reader {
    /// Notes that a piece of the output was read.
    fn note(&self, piece: &io::Result<Bytes>) {
        let mut state = self.0.state.lock();
        state.unread_bytes -= piece.as_ref().map_or(0, Bytes::len);
        if state.unread_bytes == 0 {
            state.share = None;
        }
        drop(state);
        self.0.has_room.notify_one();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        *self.0.state.lock() = State { is_unread: true, ..State::default() };
        self.0.has_room.notify_one();
    }
}
