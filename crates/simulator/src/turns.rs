//! Turns: each step of the store waits for one. Nothing of a server goes on but by a turn or by time, and both are given by the driver; so
//! the order of everything is drawn.

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::trace::Op;

/// What happens at a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out and answered.
    Go,
    /// It surely is not carried out, and whoever asked is told so.
    Fail,
    /// Nobody knows: it was carried out.
    UnknownApplied,
    /// Nobody knows: it is carried out after so many further steps.
    UnknownLate(u64),
    /// Nobody knows: it is never carried out.
    UnknownLost,
}

/// What a turn is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    /// One of several rows that are read together.
    ReadTogether,
    Write,
    /// A compare-and-write.
    Head,
    /// The confirmation of a child, which may be lost.
    Confirmation,
    /// A pin of a selection.
    Pin,
}

impl Kind {
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadTogether)
    }
}

/// A step that waits for its turn.
pub(crate) struct Waiting {
    /// Grows by one with each that waits.
    pub(crate) number: u64,
    /// For which operation, if it is for one.
    pub(crate) op: Option<Op>,
    pub(crate) kind: Kind,
    pub(crate) what: String,
    /// It is not given a turn before this step.
    pub(crate) held_until: u64,
    go: oneshot::Sender<Fate>,
}

/// All steps that wait.
#[derive(Default)]
pub(crate) struct Turns {
    waiting: Mutex<(u64, Vec<Waiting>)>,
}

impl Turns {
    /// Waits for a turn. It never comes for a server that died: its calls are dropped while they wait.
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

    /// Holds up what waits since the last call, as `hold` says: until which step.
    pub(crate) fn hold_new(&self, after: u64, mut hold: impl FnMut(&Waiting) -> u64) -> u64 {
        let mut waiting = self.waiting.lock();
        let (last, steps) = &mut *waiting;
        steps.retain(|step| !step.go.is_closed());
        steps.iter_mut().filter(|step| step.number > after).for_each(|step| step.held_until = hold(step));
        *last
    }

    /// Takes one of those that can have their turn at `step`, of which `choose` is told the operations; `None`: there are none.
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

    /// Lets all that are held up go on.
    pub(crate) fn release(&self) {
        self.waiting.lock().1.iter_mut().for_each(|step| step.held_until = 0);
    }

    /// Whether somebody waits.
    pub(crate) fn is_empty(&self) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.1.retain(|step| !step.go.is_closed());
        waiting.1.is_empty()
    }
}

impl Waiting {
    /// Gives the turn.
    pub(crate) fn go(self, fate: Fate) {
        // Whoever waited may be gone.
        let _ = self.go.send(fate);
    }
}
