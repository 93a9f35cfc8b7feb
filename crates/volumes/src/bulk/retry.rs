//! Repeats reads that fail for a passing reason.

use std::future::Future;
use std::time::Duration;

use heads::error::ObjectsResult;

/// The number of tries in all.
const TRIES: u32 = 5;

/// The pause after the first failure; each further one is [`PAUSE_FACTOR`] times as long, at most
/// [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_FACTOR: u32 = 3;
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Repeats an attempt that fails for a passing reason, with growing pauses.
pub(super) async fn retried<T, F: Future<Output = ObjectsResult<T>>>(attempt: impl Fn() -> F) -> ObjectsResult<T> {
    let mut pause = PAUSE_FIRST;
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if error.is_passing() => tracing::debug!(%error, "a read is tried again"),
            result => return result,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * PAUSE_FACTOR).min(PAUSE_MAX);
    }
    attempt().await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use heads::error::ObjectsError;

    #[tokio::test(start_paused = true)]
    async fn what_fails_for_a_passing_reason_is_tried_five_times() {
        let tries = std::cell::Cell::new(0);
        let never = retried(|| async {
            tries.set(tries.get() + 1);
            Err::<(), _>(ObjectsError::Overloaded("busy".to_owned()))
        });
        assert!(never.await.unwrap_err().is_passing());
        assert_eq!(tries.replace(0), 5);
        let third = retried(|| async {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(ObjectsError::Overloaded("busy".to_owned())) } else { Ok(tries.get()) }
        });
        assert_eq!(third.await.unwrap(), 3);
        let other = retried(|| async {
            tries.set(tries.get() + 1);
            Err::<(), _>(ObjectsError::Invalid("never".to_owned()))
        });
        assert!(other.await.is_err());
        assert_eq!(tries.get(), 4, "what does not pass is not tried again");
    }
}
