//! What a library takes from the machine that it runs on: time, randomness and threads. All three are passed in, so that a run can be
//! repeated: the simulator passes its own.

use std::future::Future;
use std::sync::Arc;

use store::{Clock, Random, SystemRandom};
use tokio::runtime::Handle;

use crate::error::{ObjectsError, ObjectsResult};
use crate::rules::Rules;

/// What a library takes from outside, apart from the store.
#[derive(Clone)]
pub struct Surroundings {
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Where ids, stamps and fresh names are drawn from.
    pub random: Arc<dyn Random>,
    /// Where work runs that takes processor time.
    pub compute: Compute,
    /// The rules that are kept: all of them, but for a test.
    pub rules: Rules,
}

impl Surroundings {
    /// Those of this machine, with a clock.
    pub fn of_this_machine(clock: Arc<dyn Clock>) -> Self {
        Self { clock, random: Arc::new(SystemRandom), compute: Compute::Threads, rules: Rules::default() }
    }
}

/// Where work runs that takes processor time rather than waiting. (What inflates and compresses while a ZIP is sent runs on a pool of
/// the crate `pack`, for levels other than that of frames as they are.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// On tokio's threads for what blocks.
    #[default]
    Threads,
    /// Where the caller is: nothing ends earlier or later than in another run.
    Inline,
}

impl Compute {
    /// Runs a job.
    pub(crate) async fn run<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> ObjectsResult<T> {
        match self {
            Self::Threads => tokio::task::spawn_blocking(job).await.map_err(ended_without_an_answer),
            Self::Inline => Ok(job()),
        }
    }

    /// Runs what takes processor time between calls of the store that it waits for. On a thread it goes on to its end, even if nobody
    /// waits for it any more.
    pub(crate) async fn drive<T, F>(self, work: impl FnOnce() -> F + Send + 'static) -> ObjectsResult<T>
    where
        T: Send + 'static,
        F: Future<Output = ObjectsResult<T>> + Send,
    {
        match self {
            Self::Threads => {
                let runtime = Handle::current();
                let done = tokio::task::spawn_blocking(move || runtime.block_on(work()));
                done.await.map_err(ended_without_an_answer)?
            }
            Self::Inline => work().await,
        }
    }
}

fn ended_without_an_answer(error: tokio::task::JoinError) -> ObjectsError {
    ObjectsError::Internal(format!("a blocking task ended without an answer: {error}"))
}
