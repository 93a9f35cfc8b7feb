//! Turns to change records, and the changes that the store has not answered yet.
//!
//! A change begins with what the one before it leaves. It needs not wait until that is durable: it
//! is given to the store as a write that compares. The store writes both at once, with one sync.
//! Otherwise a record that many clients change would change once per sync.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex as Lock;
use store::{Deadline, PlainValue, StoreError, StoreResult};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::timeout_at;

/// Where changes of some records take turns. All of it is in one allocation: there are many places,
/// so no cache of the processor has the next one.
#[derive(Default)]
pub(crate) struct Place(Arc<UnderWay>);

/// A turn to read a record, to decide on its change and to give it to the store, until it is dropped.
pub(crate) struct Turn {
    under_way: Arc<UnderWay>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.under_way.turn.add_permits(1);
    }
}

/// Turns to change records, until they are dropped.
pub struct Turns {
    pub(crate) _held: Vec<Turn>,
}

/// The turn of a place, and its changes that have not ended.
struct UnderWay {
    /// Has one permit, unless somebody has the turn.
    turn: Semaphore,
    chain: Lock<Chain>,
    /// Notified when the last one has ended.
    all_ended: Notify,
}

impl Default for UnderWay {
    fn default() -> Self {
        Self { turn: Semaphore::new(1), chain: Lock::default(), all_ended: Notify::default() }
    }
}

/// Changes of one record, each of which begins with what the one before it leaves.
#[derive(Default)]
struct Chain {
    id: Bytes,
    /// The number of those that have not ended.
    count: usize,
    /// What they leave if all of them are applied; `None`: no record.
    left: Option<PlainValue>,
    /// One of them is not applied, or that is not known. So those behind it are refused.
    is_broken: bool,
}

/// A change that has not ended. Dropping it ends the change; those that follow it are refused unless
/// it was applied.
pub(crate) struct Link {
    under_way: Arc<UnderWay>,
    is_applied: bool,
}

impl Place {
    /// Its turn.
    ///
    /// Errors: [`StoreError::DeadlinePassed`].
    pub(crate) async fn turn(&self, deadline: Deadline) -> StoreResult<Turn> {
        let permit = timeout_at(deadline.0, self.0.turn.acquire()).await;
        permit.ok().and_then(Result::ok).map(|permit| self.turn_of(permit)).ok_or(StoreError::DeadlinePassed)
    }

    /// Its turn, once no change is under way.
    ///
    /// Errors: [`StoreError::DeadlinePassed`].
    pub(crate) async fn turn_alone(&self, deadline: Deadline) -> StoreResult<Turn> {
        let turn = self.turn(deadline).await?;
        turn.wait_until(deadline, |chain| (chain.count == 0).then_some(())).await?;
        Ok(turn)
    }

    /// Its turn, if nobody has it and no change is under way.
    pub(crate) fn free_turn(&self) -> Option<Turn> {
        let permit = self.0.turn.try_acquire().ok()?;
        (self.0.chain.lock().count == 0).then(|| self.turn_of(permit))
    }

    /// The turn keeps the permit, and gives it back at its end.
    fn turn_of(&self, permit: SemaphorePermit<'_>) -> Turn {
        permit.forget();
        Turn { under_way: self.0.clone() }
    }
}

impl Turn {
    /// What the changes of a record that are under way leave; `None`: there are none, and the next
    /// change begins with what is stored. Waits for changes of other records, and for those behind a
    /// change that failed.
    ///
    /// Errors: [`StoreError::DeadlinePassed`].
    pub(crate) async fn left(&self, deadline: Deadline, id: &Bytes) -> StoreResult<Option<Option<PlainValue>>> {
        let left = |chain: &Chain| match chain {
            Chain { count: 0, .. } => Some(None),
            Chain { is_broken: false, .. } if chain.id == *id => Some(Some(chain.left.clone())),
            _ => None,
        };
        self.wait_until(deadline, left).await
    }

    async fn wait_until<T>(&self, deadline: Deadline, found: impl Fn(&Chain) -> Option<T>) -> StoreResult<T> {
        loop {
            let all_ended = self.under_way.all_ended.notified();
            if let Some(found) = found(&self.under_way.chain.lock()) {
                return Ok(found);
            }
            timeout_at(deadline.0, all_ended).await.map_err(|_| StoreError::DeadlinePassed)?;
        }
    }

    /// Begins a change of a record that leaves `left`. It follows those that are under way.
    pub(crate) fn begin(&self, id: &Bytes, left: Option<PlainValue>) -> Link {
        let mut chain = self.under_way.chain.lock();
        let is_broken = chain.is_broken;
        *chain = Chain { id: id.clone(), count: chain.count + 1, left, is_broken };
        Link { under_way: self.under_way.clone(), is_applied: false }
    }
}

impl Link {
    /// The change was applied.
    pub(crate) fn applied(mut self) {
        self.is_applied = true;
    }

    /// Whether the change is applied is not known yet. No other change follows it.
    pub(crate) fn uncertain(&self) {
        self.under_way.chain.lock().is_broken = true;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut chain = self.under_way.chain.lock();
        chain.is_broken |= !self.is_applied;
        chain.count -= 1;
        if chain.count == 0 {
            *chain = Chain::default();
            self.under_way.all_ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    const ID: Bytes = Bytes::from_static(b"id");

    fn value(text: &'static str) -> Option<PlainValue> {
        Some(PlainValue { value: text.into(), expires_at: None })
    }

    fn soon() -> Deadline {
        Deadline::within(Duration::from_secs(60))
    }

    #[tokio::test]
    async fn a_change_begins_with_what_the_one_under_way_leaves() {
        let place = Place::default();
        let first = place.turn(soon()).await.unwrap().begin(&ID, value("1"));
        let turn = place.turn(soon()).await.unwrap();
        assert_eq!(turn.left(soon(), &ID).await.unwrap(), Some(value("1")));
        let second = turn.begin(&ID, None);
        first.applied();
        assert_eq!(turn.left(soon(), &ID).await.unwrap(), Some(None));
        second.applied();
        assert_eq!(turn.left(soon(), &ID).await.unwrap(), None, "nothing is under way");
    }

    #[tokio::test(start_paused = true)]
    async fn behind_a_change_that_failed_the_next_one_waits_for_all() {
        let place = Place::default();
        let turn = place.turn(soon()).await.unwrap();
        let (first, second) = (turn.begin(&ID, value("1")), turn.begin(&ID, value("2")));
        drop(first);
        assert!(matches!(turn.left(soon(), &ID).await, Err(StoreError::DeadlinePassed)));
        drop(second);
        assert_eq!(turn.left(soon(), &ID).await.unwrap(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn another_record_of_the_same_place_waits_and_turns_for_several_too() {
        let place = Place::default();
        let link = place.turn(soon()).await.unwrap().begin(&ID, value("1"));
        let turn = place.turn(soon()).await.unwrap();
        assert!(matches!(turn.left(soon(), &Bytes::from_static(b"other")).await, Err(StoreError::DeadlinePassed)));
        drop(turn);
        assert!(place.free_turn().is_none());
        assert!(matches!(place.turn_alone(soon()).await, Err(StoreError::DeadlinePassed)));
        link.applied();
        assert!(place.free_turn().is_some());
    }
}
