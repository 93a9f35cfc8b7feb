//! Work on threads that may block, and how many of them read at once.

use std::sync::Arc;
use std::thread;

use store::{Deadline, StoreError, StoreResult};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

/// So many reads of each processor may wait for the disk at the same time. A disk answers so many
/// together, and further threads only take the processors from each other.
const READS_PER_PROCESSOR: usize = 32;

/// The least for a machine of few processors.
const READS_MIN: usize = 64;

/// Lets a bounded number of reads run on threads that may block. Without the bound, a disk that
/// stops for a moment gets as many threads as there are requests, and all of them wake at once.
pub(crate) struct Readers(Arc<Semaphore>);

impl Readers {
    /// As many as the processors may have.
    pub(crate) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self::at_most((READS_PER_PROCESSOR * processors).max(READS_MIN))
    }

    fn at_most(reads: usize) -> Self {
        Self(Arc::new(Semaphore::new(reads)))
    }

    /// Reads on a thread that may block, in its turn, and waits at most until the deadline. A read
    /// counts until it has ended, also after its caller has gone away.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        deadline: Deadline,
        read: impl FnOnce() -> StoreResult<T> + Send + 'static,
    ) -> StoreResult<T> {
        let turn = timeout_at(deadline.0, self.0.clone().acquire_owned()).await;
        let turn = turn.ok().and_then(Result::ok).ok_or(StoreError::DeadlinePassed)?;
        blocking(deadline, move || {
            let _turn = turn;
            read()
        })
        .await
    }
}

/// Runs `work` on a thread that may block, and waits at most until the deadline.
pub(crate) async fn blocking<T: Send + 'static>(
    deadline: Deadline,
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    if deadline.passed() {
        return Err(StoreError::DeadlinePassed);
    }
    let work =
        tokio::task::spawn_blocking(move || if deadline.passed() { Err(StoreError::DeadlinePassed) } else { work() });
    match timeout_at(deadline.0, work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(failed)) => Err(StoreError::Unavailable(format!("a read failed: {failed}"))),
        Err(_) => Err(StoreError::DeadlinePassed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    fn within(duration: Duration) -> Deadline {
        Deadline(Instant::now() + duration)
    }

    #[tokio::test]
    async fn reads_beyond_the_most_wait_for_a_turn_until_their_deadline() {
        let readers = Arc::new(Readers::at_most(2));
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let released = Arc::new(parking_lot::Mutex::new(released));
        // Their callers go away at the deadline, and they keep their turns.
        for _ in 0..2 {
            let (begin, released) = (begin.clone(), released.clone());
            let stalls = readers.read(within(Duration::from_secs(60)), move || {
                begin.send(()).unwrap();
                released.lock().recv().map_err(|_| StoreError::DeadlinePassed)
            });
            drop(tokio::time::timeout(Duration::from_millis(1), stalls).await);
            begun.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        let late = readers.read(within(Duration::from_millis(20)), || Ok(())).await;
        assert!(matches!(late, Err(StoreError::DeadlinePassed)), "{late:?}");
        let waiting = tokio::spawn({
            let readers = readers.clone();
            async move { readers.read(within(Duration::from_secs(60)), || Ok(7)).await }
        });
        release.send(()).unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), 7);
        drop(release);
    }
}
