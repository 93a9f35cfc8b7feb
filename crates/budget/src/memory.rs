//! One budget for the memory that clients make the server use at once: bodies while they arrive, the
//! lists, plans and graphs made from them, and updates while they are computed.
//!
//! A request takes a share before it holds anything, and returns it together with what was made. A
//! request without a share waits for one, for a limited time. A request that has a share and needs
//! more is refused at once if there is no more; otherwise two requests could wait for each other.
//! Small shares come from a part of their own, so that they do not wait behind large ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::shares::{Overloaded, Party, Shares};

/// The largest share that counts as small.
const SMALL_BYTES: u64 = 64 << 10;

/// The fraction of the budget for small shares only: one of so many.
const SMALL_ONE_OF: u64 = 8;

/// The most requests that may wait for a share.
const WAITING_MAX: u64 = 256;

/// How long a request waits before it is refused for now.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The budget. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    small: Shares,
    large: Shares,
    places: Shares,
    waiting: VecDeque<Waiting>,
}

/// A request that waits for its share.
#[derive(Debug)]
struct Waiting {
    party: Party,
    bytes: u64,
    granted: oneshot::Sender<Share>,
}

/// Bytes that a party may hold. Dropping it returns them.
#[derive(Debug)]
pub struct Share {
    memory: Memory,
    party: Party,
    small_bytes: u64,
    large_bytes: u64,
}

impl Memory {
    /// What a request holds may go without a share if it has so few bytes.
    pub const FREE_BYTES: usize = 4 << 10;

    /// A budget of `bytes`.
    pub fn new(bytes: u64) -> Self {
        let small = Shares::new(bytes / SMALL_ONE_OF);
        let large = Shares::new(Self::largest_share(bytes));
        Self(Arc::new(Mutex::new(State { small, large, places: Shares::new(WAITING_MAX), waiting: VecDeque::new() })))
    }

    /// The largest share of a budget of `bytes` while there are no others.
    pub fn largest_share(bytes: u64) -> u64 {
        bytes - bytes / SMALL_ONE_OF
    }

    /// The most that one request may need of a budget of `bytes`: it fits in twice. A share that grows
    /// needs as much more as it has, because a party holds at most as much as is still free.
    pub fn largest_request(bytes: u64) -> u64 {
        Self::largest_share(bytes) / 2
    }

    /// The most that one request may need of this budget.
    pub fn request_bytes_max(&self) -> u64 {
        self.0.lock().large.total() / 2
    }

    /// Bytes in use now.
    pub fn taken_bytes(&self) -> u64 {
        let state = self.0.lock();
        state.small.taken() + state.large.taken()
    }

    /// Waits for a share for a request that has none. Fails with [`Overloaded`] if
    /// that takes too long.
    pub async fn reserve(&self, party: &Party, bytes: u64) -> Result<Share, Overloaded> {
        let granted = {
            let mut state = self.0.lock();
            if let Some(share) = self.take(&mut state, party, bytes) {
                return Ok(share);
            }
            if bytes > state.large.total() || !state.places.take(party, 1) {
                return Err(overloaded(bytes));
            }
            let (granted, waiting) = oneshot::channel();
            state.waiting.push_back(Waiting { party: party.clone(), bytes, granted });
            waiting
        };
        let _place = WaitingPlace { memory: self, party };
        // A share that is granted at the last moment returns with the channel.
        match tokio::time::timeout(WAIT_MAX, granted).await {
            Ok(Ok(share)) => Ok(share),
            _ => Err(overloaded(bytes)),
        }
    }

    /// A share that is available at once; fails if there is none.
    pub fn try_reserve(&self, party: &Party, bytes: u64) -> Result<Share, Overloaded> {
        self.take(&mut self.0.lock(), party, bytes).ok_or_else(|| overloaded(bytes))
    }

    /// Makes a share large enough for `bytes` that are held, unless they are few. It grows in few
    /// steps.
    pub fn hold(&self, party: &Party, share: &mut Option<Share>, bytes: usize) -> Result<(), Overloaded> {
        let wanted = bytes.next_power_of_two() as u64;
        match share {
            Some(share) if share.bytes() >= wanted => Ok(()),
            Some(share) => share.resize(wanted),
            None if bytes <= Self::FREE_BYTES => Ok(()),
            None => {
                *share = Some(self.try_reserve(party, wanted)?);
                Ok(())
            }
        }
    }

    fn take(&self, state: &mut State, party: &Party, bytes: u64) -> Option<Share> {
        let is_small = bytes <= SMALL_BYTES && state.small.take(party, bytes);
        let (small_bytes, large_bytes) = if is_small { (bytes, 0) } else { (0, bytes) };
        let is_taken = is_small || state.large.take(party, bytes);
        is_taken.then(|| Share { memory: self.clone(), party: party.clone(), small_bytes, large_bytes })
    }

    /// Returns bytes, and grants shares that fit now to waiting requests, in the order of their
    /// arrival.
    fn give_back(&self, party: &Party, small_bytes: u64, large_bytes: u64) {
        let mut too_late = Vec::new();
        let mut state = self.0.lock();
        state.small.give_back(party, small_bytes);
        state.large.give_back(party, large_bytes);
        for waiting in std::mem::take(&mut state.waiting) {
            if waiting.granted.is_closed() {
                continue;
            }
            match self.take(&mut state, &waiting.party, waiting.bytes) {
                Some(share) => too_late.extend(waiting.granted.send(share).err()),
                None => state.waiting.push_back(waiting),
            }
        }
        drop(state);
        // A request that does not wait any more returns its share, which takes the lock.
        drop(too_late);
    }
}

/// A place in the queue. Dropping it returns the place.
struct WaitingPlace<'a> {
    memory: &'a Memory,
    party: &'a Party,
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.memory.0.lock().places.give_back(self.party, 1);
    }
}

impl Share {
    /// The bytes of this share.
    pub fn bytes(&self) -> u64 {
        self.small_bytes + self.large_bytes
    }

    /// Changes the share to `bytes`. Fails with [`Overloaded`] if that many more are
    /// not available now.
    pub fn resize(&mut self, bytes: u64) -> Result<(), Overloaded> {
        match bytes.checked_sub(self.bytes()) {
            Some(more) => {
                if more > 0 && !self.memory.0.lock().large.take(&self.party, more) {
                    return Err(overloaded(bytes));
                }
                self.large_bytes += more;
            }
            None => {
                let less = self.bytes() - bytes;
                let of_large = less.min(self.large_bytes);
                (self.large_bytes, self.small_bytes) =
                    (self.large_bytes - of_large, self.small_bytes - (less - of_large));
                self.memory.give_back(&self.party, less - of_large, of_large);
            }
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.give_back(&self.party, self.small_bytes, self.large_bytes);
    }
}

fn overloaded(bytes: u64) -> Overloaded {
    Overloaded(format!("requests hold so much memory (limits.memory) that {bytes} bytes more are not to be had"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::FutureExt;

    use super::*;

    const MB: u64 = 1 << 20;

    fn party(number: u8) -> Party {
        Party::Network([192, 0, 2, number].into())
    }

    #[tokio::test]
    async fn what_is_held_never_exceeds_the_budget_and_all_of_it_comes_back() {
        let memory = Memory::new(80 * MB);
        let mut shares = Vec::new();
        for number in 0..100 {
            shares.extend(memory.try_reserve(&party(number), 15 * MB).ok());
            shares.extend((0..50).filter_map(|_| memory.try_reserve(&party(number), SMALL_BYTES).ok()));
        }
        assert!(memory.taken_bytes() <= 80 * MB && memory.taken_bytes() > 60 * MB, "{}", memory.taken_bytes());
        drop(shares);
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[tokio::test]
    async fn a_small_share_is_had_at_once_while_large_ones_wait() {
        let memory = Memory::new(80 * MB);
        let (first, second) = (party(1), party(2));
        let held = memory.try_reserve(&first, 70 * MB).unwrap();
        let mut waiting = Box::pin(memory.reserve(&second, 10 * MB));
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(memory.reserve(&first, SMALL_BYTES).now_or_never().unwrap().unwrap().bytes(), SMALL_BYTES);
        drop(held);
        assert_eq!(waiting.await.unwrap().bytes(), 10 * MB);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_too_long_and_whoever_finds_too_many_waiting_is_told_to_come_again() {
        let memory = Memory::new(80 * MB);
        let second = party(2);
        let held = memory.try_reserve(&party(1), 70 * MB).unwrap();
        assert!(memory.reserve(&second, 10 * MB).await.is_err());
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(memory.reserve(&second, 10 * MB))).collect();
        let refused = waiting.iter_mut().filter_map(|waiting| waiting.now_or_never()).count() as u64;
        assert_eq!(refused, WAITING_MAX / 2, "one party has at most half of the places");
        assert!(memory.reserve(&party(3), 10 * MB).now_or_never().is_none(), "another may wait still");
        drop(waiting);
        drop(held);
        assert_eq!(memory.taken_bytes(), 0, "nobody who went away is granted anything");
        assert!(memory.reserve(&party(2), 10 * MB).await.is_ok());
    }

    #[tokio::test]
    async fn a_share_grows_only_by_what_is_there_and_shrinks_for_others() {
        let memory = Memory::new(80 * MB);
        let mut share = memory.try_reserve(&party(1), SMALL_BYTES).unwrap();
        let other = memory.try_reserve(&party(2), 60 * MB).unwrap();
        assert!(share.resize(20 * MB).is_err());
        assert_eq!(share.bytes(), SMALL_BYTES, "what was refused changes nothing");
        share.resize(5 * MB).unwrap();
        let third = party(3);
        let mut waiting = Box::pin(memory.reserve(&third, 8 * MB));
        assert!((&mut waiting).now_or_never().is_none());
        share.resize(1_000).unwrap();
        assert_eq!(waiting.await.unwrap().bytes(), 8 * MB);
        drop((share, other));
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[tokio::test]
    async fn what_is_held_takes_a_share_once_it_is_not_little_and_grows_in_few_steps() {
        let (memory, party) = (Memory::new(80 * MB), party(1));
        let (mut share, mut steps) = (None, 0);
        for bytes in 0..100_000 {
            let before = memory.taken_bytes();
            memory.hold(&party, &mut share, bytes).unwrap();
            assert_eq!(share.is_some(), bytes > Memory::FREE_BYTES);
            steps += u32::from(memory.taken_bytes() != before);
            assert!(share.is_none() || memory.taken_bytes() >= bytes as u64);
        }
        assert_eq!(steps, 5);
        assert!(memory.hold(&party, &mut share, 100 << 20).is_err());
        drop(share);
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[tokio::test]
    async fn more_than_all_is_refused_without_waiting() {
        let memory = Memory::new(80 * MB);
        assert!(memory.reserve(&Party::Local, 71 * MB).now_or_never().unwrap().is_err());
        assert_eq!(Memory::largest_share(80 * MB), 70 * MB);
    }

    #[tokio::test]
    async fn the_largest_request_gets_its_share_in_pieces_too() {
        let (memory, party) = (Memory::new(80 * MB), party(1));
        let most = memory.request_bytes_max();
        assert_eq!((most, Memory::largest_request(80 * MB)), (35 * MB, 35 * MB));
        let mut share = memory.try_reserve(&party, MB).unwrap();
        for bytes in [2 * MB, most - 1, most] {
            share.resize(bytes).unwrap();
        }
        assert_eq!(share.bytes(), most);
    }
}
