//! Randomness, passed in like the time: what a library draws can be repeated where a test or the simulator passes the source.

/// A source of random bytes.
pub trait Random: Send + Sync + 'static {
    /// Fills `bytes` with random ones.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Random {
    /// So many random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

/// The generator of the thread, which the operating system seeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        rand::fill(bytes);
    }
}
