//! Work for a request on a thread of its own, which ends soon after its client has left.

use heads::ObjectsError;
use volumes::{Caller, Waiting};

/// Runs a job that takes processor time on a thread of its own. Nothing ends such a thread from
/// outside, so the job checks now and then whether the client still waits. What the job holds (a
/// share of memory) is held until it ends.
pub async fn while_waiting<T: Send + 'static>(
    job: impl FnOnce(&Waiting) -> T + Send + 'static,
) -> Result<T, ObjectsError> {
    let (client, waiting) = Caller::new();
    let done = tokio::task::spawn_blocking(move || job(&waiting)).await;
    drop(client);
    done.map_err(|error| ObjectsError::Internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    /// Bounds every wait.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_job_is_told_that_its_client_has_left() {
        let (begun, has_begun) = mpsc::channel();
        let (ended, has_ended) = mpsc::channel();
        let mut job = Box::pin(while_waiting(move |client| {
            begun.send(client.lasts()).unwrap();
            while client.lasts() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        }));
        assert!((&mut job).now_or_never().is_none());
        assert!(has_begun.recv_timeout(PATIENCE).unwrap(), "the client waits when it begins");
        assert!(has_ended.try_recv().is_err());
        drop(job);
        has_ended.recv_timeout(PATIENCE).unwrap();
    }

    #[tokio::test]
    async fn the_client_that_waits_gets_what_the_job_returns() {
        assert!(while_waiting(Waiting::lasts).await.unwrap());
    }
}
