//! The memory that a response holds for what it reads from the store, as a share of the budget.
//! Most responses hold little, and take none.

use budget::{Memory, Overloaded, Party, Share};
use library::Library;

/// Bytes that a response may hold without a share. A description of one row takes about as many.
const UNCOUNTED_BYTES: u64 = 512 << 10;

/// What a response holds, and its share for that.
pub struct Held {
    memory: Memory,
    party: Party,
    /// The largest share.
    share_max: u64,
    bytes: u64,
    share: Option<Share>,
    /// Whether it may wait for its share.
    waits: bool,
}

impl Held {
    /// Nothing yet. The client that asks pays for what is held.
    pub fn new(library: &Library, party: &Party) -> Self {
        let share_max = share_max(library);
        Self { memory: library.memory.clone(), party: party.clone(), share_max, bytes: 0, share: None, waits: true }
    }

    /// The same for a change, which has a share for its body already. So it does not wait for this
    /// one, and takes half as much at most: otherwise no client could have both.
    pub fn beside_body(library: &Library, party: &Party) -> Self {
        let held = Self::new(library, party);
        Self { share_max: held.share_max / 2, waits: false, ..held }
    }

    /// The bytes that are held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the bytes that are held. A response without a share waits for one. One that has a
    /// share and needs a larger one fails at once if there is none: otherwise two could wait for
    /// each other.
    pub async fn set(&mut self, bytes: u64) -> Result<(), Overloaded> {
        if bytes <= UNCOUNTED_BYTES {
            self.share = None;
        } else {
            let wanted = bytes.min(self.share_max);
            match &mut self.share {
                Some(share) => share.resize(wanted)?,
                None => {
                    let share = match self.waits {
                        true => self.memory.reserve(&self.party, wanted).await?,
                        false => self.memory.try_reserve(&self.party, wanted)?,
                    };
                    self.share = Some(share);
                }
            }
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// The largest share that a response takes for what it reads, however large that is: otherwise there
/// could be descriptions that nobody can read.
pub fn share_max(library: &Library) -> u64 {
    library.memory.request_bytes_max()
}
