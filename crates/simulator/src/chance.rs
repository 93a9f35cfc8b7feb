//! Everything that is drawn. Each purpose has a stream of its own, so that one more draw for one of them shifts no other.

use parking_lot::Mutex;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use store::Random;

/// What something is drawn for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The setup of a run: engine, levels, options, clocks.
    Setup = 1,
    /// Whose turn is next, and who is held up.
    Schedule = 2,
    /// What goes wrong.
    Faults = 3,
    /// Which replicas get a write, and which answer a read.
    Replicas = 4,
    /// What clients ask for.
    Workload = 5,
    /// What servers draw themselves: ids, stamps, fresh names. One stream for each start of a server.
    Servers = 6,
    /// The setup of a directed run, so that those of all others stay what they are.
    Directed = 7,
}

/// One stream of draws.
#[derive(Clone, Debug)]
pub(crate) struct Chance(ChaCha8Rng);

impl Chance {
    /// The stream of a seed for a purpose.
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        Self::nth(seed, purpose, 0)
    }

    /// The n-th of several streams for the same purpose.
    pub(crate) fn nth(seed: u64, purpose: Purpose, n: u64) -> Self {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        chance.set_stream((purpose as u64) << 32 | n);
        Self(chance)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end)
    }

    /// A place in a list that is not empty.
    pub(crate) fn place(&mut self, len: usize) -> usize {
        self.0.random_range(0..len)
    }

    /// A number from `from` up to and with `to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0.random_range(from..=to)
    }

    /// True so many times in a thousand.
    pub(crate) fn permille(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// One of some.
    pub(crate) fn one_of<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        &some[self.place(some.len())]
    }

    /// So many of some, in the order in which they stand.
    pub(crate) fn some_of(&mut self, from: &[usize], count: usize) -> Vec<usize> {
        let mut left = from.to_vec();
        while left.len() > count {
            let at = self.place(left.len());
            left.remove(at);
        }
        left
    }
}

/// A server's source of randomness.
pub(crate) struct SeededRandom(Mutex<Chance>);

impl SeededRandom {
    pub(crate) fn new(chance: Chance) -> Self {
        Self(Mutex::new(chance))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().0.fill_bytes(bytes);
    }
}
