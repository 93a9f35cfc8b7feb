//! What can happen at a step of [`super::memory::Memory`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// What happens at a step.
#[derive(Clone)]
pub enum Fault {
    /// The process dies before it: from then on nothing is answered but errors.
    Crash,
    /// It is applied, and nobody is told.
    UnknownApplied,
    /// It is not applied, and nobody is told.
    UnknownLost,
    /// It is not applied yet; it arrives when `deliver` is called or so many further steps were run.
    UnknownLate(usize),
    /// There is no room, from then on.
    Full,
    /// It is refused for the moment.
    Overloaded,
    /// It is refused by what stands there.
    Refused,
    /// It waits until the gate is opened.
    Hold(Arc<Gate>),
    /// It is applied, then waits until the gate is opened, and nobody is told.
    HoldUnknown(Arc<Gate>),
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Crash => f.write_str("Crash"),
            Fault::UnknownApplied => f.write_str("UnknownApplied"),
            Fault::UnknownLost => f.write_str("UnknownLost"),
            Fault::UnknownLate(steps) => write!(f, "UnknownLate({steps})"),
            Fault::Full => f.write_str("Full"),
            Fault::Overloaded => f.write_str("Overloaded"),
            Fault::Refused => f.write_str("Refused"),
            Fault::Hold(_) => f.write_str("Hold"),
            Fault::HoldUnknown(_) => f.write_str("HoldUnknown"),
        }
    }
}

/// Where a step waits.
pub struct Gate {
    reached: Semaphore,
    open: Semaphore,
}

impl Gate {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { reached: Semaphore::new(0), open: Semaphore::new(0) })
    }

    /// Returns when a step waits here.
    pub async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    pub fn open(&self) {
        self.open.add_permits(1);
    }

    /// Waits, but not for ever: the runtime of a test that failed meanwhile ends only when its imports do.
    pub async fn wait(&self) {
        self.reached.add_permits(1);
        if let Ok(opened) = tokio::time::timeout(Duration::from_secs(30), self.open.acquire()).await {
            opened.unwrap().forget();
        }
    }
}
