//! Revision ids: unique, ordered by time, and no counters.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use store::{Clock, Random, UnixMillis};

/// Sixteen bytes whose byte order is the order of minting: 6 bytes of milliseconds, 2 bytes of a
/// counter within one millisecond, 8 bytes that distinguish writers. A hybrid clock mints them, so
/// that they never decrease in one process.
///
/// Incarnations are revision ids too: the id under which an object was created.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RevisionId(pub [u8; 16]);

impl RevisionId {
    /// Below every id that is ever minted.
    pub const ZERO: Self = Self([0; 16]);

    /// Above every id that is ever minted.
    pub const LAST: Self = Self([0xFF; 16]);

    /// The smallest id of a millisecond.
    pub fn first_at(moment: UnixMillis) -> Self {
        let mut id = [0; 16];
        id[..6].copy_from_slice(&moment.0.min((1 << 48) - 1).to_be_bytes()[2..]);
        Self(id)
    }

    /// The smallest id of a millisecond with this counter.
    pub fn first_with(moment: UnixMillis, counter: u16) -> Self {
        let mut id = Self::first_at(moment);
        id.0[6..8].copy_from_slice(&counter.to_be_bytes());
        id
    }

    /// Its counter within its millisecond. The ids of one object's heads differ in time or counter,
    /// because each is minted above the one before.
    pub fn counter(&self) -> u16 {
        u16::from_be_bytes([self.0[6], self.0[7]])
    }

    /// The next id, in the order of ids.
    pub fn successor(&self) -> Self {
        Self(u128::from_be_bytes(self.0).saturating_add(1).to_be_bytes())
    }

    /// When it was minted, according to its writer's clock.
    pub fn time(&self) -> UnixMillis {
        let mut bytes = [0; 8];
        bytes[2..].copy_from_slice(&self.0[..6]);
        UnixMillis(u64::from_be_bytes(bytes))
    }

    /// The id that `text` (32 hexadecimal digits) names.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Mints revision ids: a hybrid clock that never goes back, and a nonce of this writer.
pub struct RevisionClock {
    clock: Arc<dyn Clock>,
    nonce: [u8; 8],
    /// Milliseconds and counter of the last id, as one number.
    last: Mutex<u64>,
}

impl RevisionClock {
    /// A clock for one writer (one process).
    pub fn new(clock: Arc<dyn Clock>, random: &dyn Random) -> Self {
        Self { clock, nonce: random.bytes(), last: Mutex::new(0) }
    }

    /// Another clock of the same writer, for ids of another kind.
    pub fn of_the_same_writer(&self) -> Self {
        Self { clock: self.clock.clone(), nonce: self.nonce, last: Mutex::new(0) }
    }

    /// A new id, above all that this clock has minted before.
    pub fn mint(&self) -> RevisionId {
        self.mint_above(RevisionId::ZERO)
    }

    /// A new id that is also above `floor`, whichever writer minted that. So a clock that lags
    /// catches up.
    pub fn mint_above(&self, floor: RevisionId) -> RevisionId {
        let mut floor_tick = [0; 8];
        floor_tick.copy_from_slice(&floor.0[..8]);
        let mut last = self.last.lock();
        let now = self.clock.now().0 << 16;
        *last = now.max(*last + 1).max(u64::from_be_bytes(floor_tick) + 1);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&last.to_be_bytes());
        id[8..].copy_from_slice(&self.nonce);
        RevisionId(id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use store::{ManualClock, SystemRandom};

    use super::*;

    #[test]
    fn ids_rise_even_when_the_clock_runs_back() {
        let clock = Arc::new(ManualClock::new(UnixMillis(1_000_000)));
        let revisions = RevisionClock::new(clock.clone(), &SystemRandom);
        let first = revisions.mint();
        clock.set(UnixMillis(10));
        let second = revisions.mint();
        clock.advance(Duration::from_secs(3_600));
        let third = revisions.mint();
        assert!(first < second && second < third);
        assert_eq!(first.time(), UnixMillis(1_000_000));
    }

    #[test]
    fn an_id_is_minted_above_a_floor_from_a_faster_clock() {
        let fast = RevisionClock::new(Arc::new(ManualClock::new(UnixMillis(9_000))), &SystemRandom);
        let slow = RevisionClock::new(Arc::new(ManualClock::new(UnixMillis(1_000))), &SystemRandom);
        let floor = fast.mint();
        assert!(slow.mint_above(floor) > floor);
    }

    #[test]
    fn two_writers_never_mint_the_same_id() {
        let clock = Arc::new(ManualClock::new(UnixMillis(5)));
        assert_ne!(
            RevisionClock::new(clock.clone(), &SystemRandom).mint(),
            RevisionClock::new(clock, &SystemRandom).mint()
        );
    }

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = RevisionClock::new(Arc::new(ManualClock::new(UnixMillis(77))), &SystemRandom).mint();
        assert_eq!(RevisionId::parse(&id.to_string()), Some(id));
        assert_eq!(RevisionId::parse("not hexadecimal"), None);
    }
}
