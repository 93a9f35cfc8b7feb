//! Turns: each step of the store waits for one. A server proceeds only by a turn or with time, and
//! the driver gives both. So the order of everything is drawn.

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::trace::Op;

/// The fate of a step at its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is applied, and the caller gets the result.
    Go,
    /// It certainly is not applied, and the caller gets that result.
    Fail,
    /// The outcome is unknown: it was applied.
    UnknownApplied,
    /// The outcome is unknown: it is applied after that many further steps.
    UnknownLate(u64),
    /// The outcome is unknown: it is never applied.
    UnknownLost,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    /// One of several rows in a joint read.
    ReadTogether,
    Write,
    /// A compare-and-write.
    Head,
    /// The confirmation of a child, which may be lost.
    Confirmation,
    /// A pin of a selection.
    Pin,
    /// The announcement of a change.
    Announcement,
    /// A change of records.
    Record,
}

impl Kind {
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadTogether)
    }
}

/// A step that waits for its turn.
pub(crate) struct Waiting {
    /// Rises by one with each waiting step.
    pub(crate) number: u64,
    /// Its operation, if it has one.
    pub(crate) op: Option<Op>,
    pub(crate) kind: Kind,
    pub(crate) what: String,
    /// The step before which it gets no turn.
    pub(crate) held_until: u64,
    go: oneshot::Sender<Fate>,
}

/// All waiting steps.
#[derive(Default)]
pub(crate) struct Turns {
    waiting: Mutex<(u64, Vec<Waiting>)>,
}

impl Turns {
    /// Waits for a turn. A dead server never gets one: its calls are dropped while they wait.
    pub(crate) async fn wait(&self, op: Option<Op>, kind: Kind, what: String) -> Fate {
        let (go, turn) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            waiting.0 += 1;
            let number = waiting.0;
            waiting.1.push(Waiting { number, op, kind, what, held_until: 0, go });
        }
        match turn.await {
            Ok(fate) => fate,
            Err(_) => std::future::pending().await,
        }
    }

    /// Holds up the steps that began to wait since the last call, each until the step that `hold`
    /// returns.
    pub(crate) fn hold_new(&self, after: u64, mut hold: impl FnMut(&Waiting) -> u64) -> u64 {
        let mut waiting = self.waiting.lock();
        let (last, steps) = &mut *waiting;
        steps.retain(|step| !step.go.is_closed());
        steps.iter_mut().filter(|step| step.number > after).for_each(|step| step.held_until = hold(step));
        *last
    }

    /// Removes one of the steps that can have their turn at `step`. `choose` gets their operations.
    /// Returns `None` if there are none.
    pub(crate) fn take(&self, step: u64, choose: impl FnOnce(&[Option<Op>]) -> usize) -> Option<Waiting> {
        let mut waiting = self.waiting.lock();
        let ready: Vec<usize> =
            waiting.1.iter().enumerate().filter(|(_, one)| one.held_until <= step).map(|(at, _)| at).collect();
        if ready.is_empty() {
            return None;
        }
        let ops: Vec<_> = ready.iter().map(|at| waiting.1[*at].op).collect();
        let at = ready[choose(&ops)];
        Some(waiting.1.remove(at))
    }

    /// Lets all steps that are held up continue.
    pub(crate) fn release(&self) {
        self.waiting.lock().1.iter_mut().for_each(|step| step.held_until = 0);
    }

    /// Whether no step waits.
    pub(crate) fn is_empty(&self) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.1.retain(|step| !step.go.is_closed());
        waiting.1.is_empty()
    }
}

impl Waiting {
    /// Gives the turn.
    pub(crate) fn go(self, fate: Fate) {
        // The waiting task may be gone.
        let _ = self.go.send(fate);
    }
}
