//! Retries calls that fail for a passing reason, so that one failure does not end a copy of hours.

use std::time::Duration;

use crate::{Call, Class, Deadline, StoreError, StoreResult};

/// How long one call may take.
const CALL_MAX: Duration = Duration::from_secs(30);

/// The pause before the second try; each further one is twice as long, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(50);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A call that sees every finished write. A copy reads everything once.
pub(super) fn call() -> Call {
    Call::new(Class::Content, Deadline::within(CALL_MAX)).strong().once()
}

/// How often a call that fails for a passing reason is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The number of tries, at least one.
    pub tries: u32,
}

impl Default for Patience {
    /// Retries for a little more than 15 seconds.
    fn default() -> Self {
        Self { tries: 10 }
    }
}

impl Patience {
    /// Repeats `attempt` while it fails for a passing reason, within bounds.
    pub(super) async fn with<T, F>(self, attempt: impl Fn() -> F) -> StoreResult<T>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut pause = PAUSE_FIRST;
        for _ in 1..self.tries {
            match attempt().await {
                Err(error) if error.is_passing() => tokio::time::sleep(pause).await,
                ended => return ended,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        attempt().await
    }
}
