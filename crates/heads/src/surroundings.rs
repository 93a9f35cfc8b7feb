//! What a library takes from its machine: time, randomness and threads. All three are passed in, so
//! that a run can be repeated; the simulator passes its own.

use std::future::Future;
use std::sync::Arc;

use store::{Clock, Random, SystemRandom};
use tokio::runtime::Handle;

use crate::actor::Name;
use crate::error::{ObjectsError, ObjectsResult};
use crate::rules::Rules;

/// What a library takes from outside, besides the store.
#[derive(Clone)]
pub struct Surroundings {
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// The source of ids, stamps and new names.
    pub random: Arc<dyn Random>,
    /// Where processor-bound work runs.
    pub compute: Compute,
    /// The rules in force: all of them, except in tests.
    pub rules: Rules,
}

impl Surroundings {
    /// Those of this machine, with a clock.
    pub fn of_this_machine(clock: Arc<dyn Clock>) -> Self {
        Self { clock, random: Arc::new(SystemRandom), compute: Compute::Threads, rules: Rules::default() }
    }
}

/// Where processor-bound work runs. (Inflating and compressing while a ZIP is sent runs on a pool
/// of the crate `pack`, for levels other than unchanged frames.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// On tokio's threads for blocking work.
    #[default]
    Threads,
    /// In the caller's task, so that each run has the same timing.
    Inline,
}

impl Compute {
    /// Runs a job.
    pub async fn run<T: Send + 'static>(self, job: impl FnOnce() -> T + Send + 'static) -> ObjectsResult<T> {
        match self {
            Self::Threads => tokio::task::spawn_blocking(job).await.map_err(ended_without_an_answer),
            Self::Inline => Ok(job()),
        }
    }

    /// Runs processor-bound work that also waits for calls of the store, in the name of the caller's
    /// task. On a thread it runs to its end, even if no caller waits for it any more.
    pub async fn drive<T, F>(self, work: impl FnOnce() -> F + Send + 'static) -> ObjectsResult<T>
    where
        T: Send + 'static,
        F: Future<Output = ObjectsResult<T>> + Send,
    {
        match self {
            Self::Threads => {
                let (runtime, name) = (Handle::current(), Name::of_this_task());
                let done = tokio::task::spawn_blocking(move || runtime.block_on(name.acting(work())));
                done.await.map_err(ended_without_an_answer)?
            }
            Self::Inline => work().await,
        }
    }
}

fn ended_without_an_answer(error: tokio::task::JoinError) -> ObjectsError {
    ObjectsError::Internal(format!("a blocking task ended without an answer: {error}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::actor;

    #[tokio::test]
    async fn work_on_a_thread_is_done_in_the_name_of_the_task_that_waits_for_it() {
        for compute in [Compute::Threads, Compute::Inline] {
            let named = || compute.drive(|| async { Ok((actor::current(), actor::agent())) });
            let (name, agent) = actor::acting("mapper", Some("mapper/2".into()), named()).await.unwrap();
            assert_eq!((name.as_deref(), agent.as_deref()), (Some("mapper"), Some("mapper/2")), "{compute:?}");
            assert_eq!(named().await.unwrap(), (None, None), "{compute:?}");
        }
    }
}
