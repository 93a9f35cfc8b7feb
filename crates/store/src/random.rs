//! Randomness, passed in like the time: a test or the simulator that passes the source can repeat
//! what a library draws.

/// A source of random bytes.
pub trait Random: Send + Sync + 'static {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Random {
    /// Draws this number of random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

/// The generator of the thread, seeded by the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        rand::fill(bytes);
    }
}
