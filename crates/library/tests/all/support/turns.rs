//! Several tasks at the same time, whose single steps interleave in an order that a test chooses.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task;

use super::memory::Fault;

/// The steps that wait for their turn.
#[derive(Default)]
pub struct Turns {
    waiting: Mutex<Vec<Waiting>>,
}

struct Waiting {
    /// The task whose step it is.
    task: Option<task::Id>,
    go: oneshot::Sender<Option<Fault>>,
}

impl Turns {
    /// Waits for its turn, and returns the fault to apply at it.
    pub async fn wait(&self) -> Option<Fault> {
        let (go, turn) = oneshot::channel();
        self.waiting.lock().push(Waiting { task: task::try_id(), go });
        turn.await.ok().flatten()
    }

    /// Lets the step that has waited longest continue, of all tasks or of one, and returns when no
    /// task can continue without another turn. Returns false if no task waited.
    ///
    /// Time must be paused (`start_paused`): then it passes only when there is nothing else to do.
    pub async fn next(&self, of: Option<task::Id>, fault: Option<Fault>) -> bool {
        let first = {
            let mut waiting = self.waiting.lock();
            // Tasks that died do not wait any more.
            waiting.retain(|waiting| !waiting.go.is_closed());
            let first = waiting.iter().position(|waiting| of.is_none() || waiting.task == of);
            first.map(|at| waiting.remove(at))
        };
        let waited = first.is_some_and(|first| first.go.send(fault).is_ok());
        tokio::time::sleep(Duration::from_millis(1)).await;
        waited
    }
}
