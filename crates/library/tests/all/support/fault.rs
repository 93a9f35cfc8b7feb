//! Faults at steps of [`super::memory::Memory`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

/// A fault at a step.
#[derive(Clone)]
pub enum Fault {
    /// The process dies before it: from then on every call returns an error.
    Crash,
    /// It is applied, and the writer gets no response.
    UnknownApplied,
    /// It is not applied, and the writer gets no response.
    UnknownLost,
    /// It is not applied yet. It arrives when `deliver` is called or so many further steps were
    /// run.
    UnknownLate(usize),
    /// There is no room from then on.
    Full,
    /// It is refused for the moment.
    Overloaded,
    /// It is refused because of the present row.
    Refused,
    /// It waits until the gate is opened.
    Hold(Arc<Gate>),
    /// It is applied, then waits until the gate is opened, and the writer gets no response.
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

/// A place where a step waits.
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

    /// Waits, but not forever: the runtime of a failed test ends only when its imports do.
    pub async fn wait(&self) {
        self.reached.add_permits(1);
        if let Ok(opened) = tokio::time::timeout(Duration::from_secs(120), self.open.acquire()).await {
            opened.unwrap().forget();
        }
    }
}
