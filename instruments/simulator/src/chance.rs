//! Random draws of a run. Each purpose has its own stream, so that an additional draw for one
//! purpose shifts no other.

use parking_lot::Mutex;
use rand::{Rng, RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use store::Random;

/// The purpose of a draw.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The setup of a run: engine, levels, options, clocks.
    Setup = 1,
    /// Which operation's turn is next, and which one is held up.
    Schedule = 2,
    /// Faults.
    Faults = 3,
    /// Which replicas receive a write, and which answer a read.
    Replicas = 4,
    /// The clients' requests.
    Workload = 5,
    /// The servers' own draws: ids, stamps, new names. One stream for each start of a server.
    Servers = 6,
    /// The setup of a directed run, so that the setups of other runs stay the same.
    Directed = 7,
    /// The store into which the run's store is copied.
    Copying = 8,
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

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.random_range(0..end)
    }

    /// A position in a list that is not empty.
    pub(crate) fn place(&mut self, len: usize) -> usize {
        self.0.random_range(0..len)
    }

    /// A number from `from` to `to`, inclusive.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0.random_range(from..=to)
    }

    /// True with a probability of `permille` in a thousand.
    pub(crate) fn permille(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// One element.
    pub(crate) fn one_of<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        &some[self.place(some.len())]
    }

    /// `count` of the elements, in their order.
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
