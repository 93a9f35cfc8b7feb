//! A future that runs to its end, even if nobody waits for it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Runs a future on its caller's task. If it is dropped before its end, a task of its own runs the
/// rest. So the usual case costs no task.
pub(crate) struct Unbroken<T: Send + 'static> {
    /// `None` once it has ended, or panicked.
    rest: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: Send + 'static> Unbroken<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { rest: Some(Box::pin(future)) }
    }
}

impl<T: Send + 'static> Future for Unbroken<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(mut rest) = self.rest.take() else { return Poll::Pending };
        let polled = rest.as_mut().poll(context);
        if polled.is_pending() {
            self.rest = Some(rest);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Unbroken<T> {
    fn drop(&mut self) {
        // While the runtime ends, nothing runs on.
        if let (Some(rest), Ok(runtime)) = (self.rest.take(), Handle::try_current()) {
            runtime.spawn(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn what_is_dropped_before_its_end_runs_to_its_end() {
        let (go, gone) = oneshot::channel::<()>();
        let (done, end) = oneshot::channel();
        let mut unbroken = Unbroken::new(async move {
            gone.await.unwrap();
            done.send(7).unwrap();
        });
        timeout(Duration::ZERO, &mut unbroken).await.unwrap_err();
        drop(unbroken);
        go.send(()).unwrap();
        assert_eq!(timeout(Duration::from_secs(60), end).await.unwrap(), Ok(7));
    }

    #[tokio::test]
    async fn what_was_not_begun_runs_too() {
        let (done, end) = oneshot::channel();
        drop(Unbroken::new(async move { done.send(7).unwrap() }));
        assert_eq!(timeout(Duration::from_secs(60), end).await.unwrap(), Ok(7));
    }

    #[tokio::test]
    async fn what_has_ended_does_not_run_again() {
        assert_eq!(Unbroken::new(async { 7 }).await, 7);
    }

    #[test]
    fn what_is_dropped_without_a_runtime_ends_there() {
        drop(Unbroken::new(async { unreachable!() }));
    }
}
