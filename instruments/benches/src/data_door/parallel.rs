//! Runs the same work on all processors.

use std::thread;

use anyhow::{Result, anyhow};

/// Runs one thread per processor. Returns the result of each.
pub fn on_all_processors<T: Send>(work: impl Fn() -> Result<T> + Sync) -> Result<Vec<T>> {
    let threads = thread::available_parallelism()?.get();
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        running.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?).collect()
    })
}
