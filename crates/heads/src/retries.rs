//! Repeats calls that fail for a passing reason, within bounds.

use std::future::Future;
use std::time::Duration;

use store::{Call, Class, Deadline, Outcome, Step, boxed};

use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;

/// The most tries of a change before the caller gets an error, or an unknown outcome.
pub const TRIES_MAX: u32 = 12;
/// The pause before the second try; each further pause is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// A bound on tries, with pauses in between.
pub struct Tries {
    left: u32,
    pause: Duration,
}

impl Default for Tries {
    fn default() -> Self {
        Self { left: TRIES_MAX, pause: PAUSE_FIRST }
    }
}

impl Tries {
    /// Waits a little; returns false after the last try.
    #[boxed]
    pub async fn again(&mut self) -> bool {
        self.left -= 1;
        if self.left == 0 {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

impl Heads {
    /// Repeats `attempt` while it fails for a passing reason, within bounds.
    pub async fn retry_transient<T, F>(&self, attempt: impl Fn() -> F) -> ObjectsResult<T>
    where
        F: Future<Output = ObjectsResult<T>>,
    {
        let mut tries = Tries::default();
        loop {
            match attempt().await {
                Err(error) if error.is_passing() => {
                    if !tries.again().await {
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
    }

    /// Runs steps that are never refused (puts, removals) until they are acknowledged.
    #[boxed]
    pub async fn put_acknowledged(&self, class: Class, steps: Vec<Step>) -> ObjectsResult<()> {
        self.run_acknowledged(self.call(class), steps).await
    }

    /// The same for small steps of a removal.
    #[boxed]
    pub async fn put_removing(&self, steps: Vec<Step>) -> ObjectsResult<()> {
        self.run_acknowledged(self.call(Class::Description).removing(), steps).await
    }

    /// The same for steps of a removal of which there may be many.
    #[boxed]
    pub async fn put_owed(&self, steps: Vec<Step>) -> ObjectsResult<()> {
        self.run_acknowledged(self.call(Class::Description).owed(), steps).await
    }

    /// The same for steps of any call, which has as long for each try.
    #[boxed]
    pub async fn run_acknowledged(&self, call: Call, steps: Vec<Step>) -> ObjectsResult<()> {
        let within = call.deadline.remaining();
        self.retry_transient(|| async {
            let call = Call { deadline: Deadline::within(within), ..call };
            match self.inner.store.run(call, steps.clone()).await? {
                Outcome::Applied => Ok(()),
                Outcome::Unknown { reason } => Err(store::StoreError::Unavailable(reason).into()),
                Outcome::Refused { step, .. } => {
                    Err(ObjectsError::Internal(format!("step {step} of unconditional steps was refused")))
                }
            }
        })
        .await
    }
}

/// The error after many tries during which other writers were always faster.
pub fn changes_all_the_time(what: impl std::fmt::Display, unsure: bool) -> ObjectsError {
    let reason = format!("{what} is being changed again and again");
    if unsure { ObjectsError::Unknown(reason) } else { ObjectsError::Overloaded(reason) }
}
