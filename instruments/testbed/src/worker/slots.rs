//! How many requests one connection of HTTP/2 takes at once. A request beyond that is not sent until an
//! earlier one has ended, and does not count as sent before.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::{Mutex, Notify};

/// The places of a connection for requests.
#[derive(Clone)]
pub struct Slots(Rc<State>);

struct State {
    /// How many the server allows now.
    allowed: Box<dyn Fn() -> usize>,
    used: Cell<usize>,
    /// Held by the one that takes the next place. It goes to those that wait in their order.
    turn: Mutex<()>,
    freed: Notify,
}

/// A place of a connection. It is free again when this value is dropped.
pub struct Slot(Slots);

impl Slots {
    /// Places of which so many are allowed.
    pub fn new(allowed: impl Fn() -> usize + 'static) -> Self {
        let (turn, freed) = (Mutex::new(()), Notify::new());
        Self(Rc::new(State { allowed: Box::new(allowed), used: Cell::new(0), turn, freed }))
    }

    /// Waits for a place, in the order of those that wait.
    pub async fn take(&self) -> Slot {
        let state = &self.0;
        // A place may be free before the one that waits for it runs again: a later one is behind it.
        let _turn = state.turn.lock().await;
        while state.used.get() >= (state.allowed)() {
            state.freed.notified().await;
        }
        state.used.set(state.used.get() + 1);
        Slot(self.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let state = &self.0.0;
        state.used.set(state.used.get() - 1);
        // If nobody waits yet, the next one that does looks again at once.
        state.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn no_more_than_allowed_are_taken_at_once_and_who_gives_up_keeps_nobody_waiting() {
        let slots = Slots::new(|| 2);
        let (one, two) = (slots.take().await, slots.take().await);
        let mut third = Box::pin(slots.take());
        let mut fourth = Box::pin(slots.take());
        assert!(third.as_mut().now_or_never().is_none() && fourth.as_mut().now_or_never().is_none());
        drop(one);
        // The third was woken and has gone: its place goes to the fourth.
        drop(third);
        let fourth = fourth.await;
        assert!(slots.take().now_or_never().is_none());
        drop((two, fourth));
        assert!(slots.take().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_place_goes_to_the_first_that_waits_although_a_later_one_asks_before_it_runs_again() {
        let slots = Slots::new(|| 1);
        let first = slots.take().await;
        let mut second = Box::pin(slots.take());
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let mut third = Box::pin(slots.take());
        assert!(third.as_mut().now_or_never().is_none(), "the second has waited longer");
        let second = second.as_mut().now_or_never();
        assert!(second.is_some() && third.as_mut().now_or_never().is_none());
        drop(second);
        assert!(third.as_mut().now_or_never().is_some());
    }
}
