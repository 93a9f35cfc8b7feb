//! Files that are read again and again, perhaps from a disk that hangs.

use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// Reads a file again and again, one read after the other. A read that does not come back keeps a
/// thread, so none begins beside it.
pub(crate) struct Reading<T> {
    under_way: Mutex<Option<JoinHandle<Result<T, String>>>>,
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self { under_way: Mutex::default() }
    }
}

impl<T: Send + 'static> Reading<T> {
    /// What `read` returns, in a thread for work that blocks, or the read that is under way already. A
    /// caller that waits no more leaves that to the next one.
    ///
    /// Errors: those of the read.
    pub(crate) async fn read(&self, read: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
        let mut under_way = self.under_way.lock().await;
        // What it has read may be old by now.
        if under_way.as_ref().is_some_and(JoinHandle::is_finished) {
            *under_way = None;
        }
        let result = under_way.get_or_insert_with(|| tokio::task::spawn_blocking(read)).await;
        *under_way = None;
        result.unwrap_or_else(|panicked| Err(panicked.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_read_that_hangs_is_waited_for_again_and_none_begins_beside_it() {
        let (reading, begun) = (Reading::default(), Arc::new(AtomicUsize::new(0)));
        let (let_go, hangs) = mpsc::channel::<()>();
        let hanging = reading.read(move || hangs.recv().map(|()| "never").or(Ok("old")));
        assert!(timeout(Duration::from_millis(1), hanging).await.is_err());
        let next = || {
            let begun = begun.clone();
            reading.read(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                Ok("new")
            })
        };
        assert!(next().now_or_never().is_none());
        // It waits already when the disk goes on.
        let (waited, ()) = futures::join!(next(), async { drop(let_go) });
        assert_eq!((waited, begun.load(Ordering::SeqCst)), (Ok("old"), 0));
        assert_eq!((next().await, begun.load(Ordering::SeqCst)), (Ok("new"), 1));
    }
}
