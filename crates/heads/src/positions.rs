//! Positions of the change feed that this process gives: which switches are at work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use store::{Step, UnixMillis};
use tokio::sync::{Notify, OnceCell};

use crate::revision::RevisionId;

/// The positions of the feed, as far as this process announces changes.
#[derive(Default)]
pub(crate) struct Positions {
    /// Switches that are at work, and those that ended and may still be applied, if this process
    /// alone has the store.
    pub(crate) open: Mutex<BTreeMap<RevisionId, Open>>,
    /// The newest bucket that is in its list, acknowledged.
    pub(crate) listed: AtomicU32,
    /// Set once positions are above all that earlier processes gave.
    pub(crate) caught_up: OnceCell<()>,
    /// Notified when a switch has ended.
    pub(crate) ended: Notify,
}

impl Positions {
    /// Mints the position of a switch, and notes the switch, if it is given. Returns the position
    /// and the newest bucket that is known to be listed.
    ///
    /// Both happen under the lock. So a later position finds this switch, and the bucket that is
    /// listed is none that begins behind the position. Switches that were left before the horizon
    /// are forgotten: if they are not applied by now, they never will be.
    pub(crate) fn begin(
        &self,
        switch: Option<Open>,
        horizon: UnixMillis,
        mint: impl FnOnce() -> RevisionId,
    ) -> (RevisionId, u32) {
        let mut open = self.open.lock();
        let listed = self.listed.load(Ordering::Relaxed);
        let position = mint();
        if let Some(switch) = switch {
            while let Some(first) = open.first_entry()
                && first.get().is_left
                && first.key().time() < horizon
            {
                first.remove();
            }
            open.insert(position, switch);
        }
        (position, listed)
    }
}

/// A switch that may still be applied.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) object: Bytes,
    pub(crate) revision: RevisionId,
    /// Whether its writer tries no more.
    pub(crate) is_left: bool,
}

/// The announcement of a switch that is at work.
pub(crate) struct Announcing<'a> {
    pub(crate) positions: &'a Positions,
    /// Its position.
    pub(crate) position: RevisionId,
    /// The bucket of its position.
    pub(crate) bucket: u32,
    /// The steps that announce the change; none once it is announced.
    pub(crate) steps: Vec<Step>,
    pub(crate) is_settled: bool,
}

impl Announcing<'_> {
    /// Notes that its steps were applied, as far as this process knows.
    pub(crate) fn acknowledged(&mut self) {
        self.steps.clear();
        self.positions.listed.fetch_max(self.bucket, Ordering::Relaxed);
    }

    /// Notes how the switch ended: whether a try of it may still arrive.
    pub(crate) fn ended(mut self, is_settled: bool) {
        self.is_settled = is_settled;
    }
}

impl Drop for Announcing<'_> {
    /// A switch that is dropped half way may still be applied.
    fn drop(&mut self) {
        let mut open = self.positions.open.lock();
        if self.is_settled {
            open.remove(&self.position);
        } else if let Some(open) = open.get_mut(&self.position) {
            open.is_left = true;
        }
        drop(open);
        self.positions.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64) -> RevisionId {
        RevisionId::first_at(UnixMillis(time))
    }

    /// Begins a switch at a time, with this horizon.
    fn begin(positions: &Positions, time: u64, horizon: u64) -> Announcing<'_> {
        let open = Open { object: Bytes::new(), revision: at(time), is_left: false };
        let (position, _) = positions.begin(Some(open), UnixMillis(horizon), || at(time));
        Announcing { positions, position, bucket: 0, steps: Vec::new(), is_settled: false }
    }

    #[test]
    fn switches_that_were_left_are_forgotten_behind_the_horizon_and_others_are_not() {
        let positions = Positions::default();
        // Requests that were cancelled.
        (1..=3).for_each(|time| drop(begin(&positions, time, 0)));
        let at_work = begin(&positions, 4, 0);
        drop(begin(&positions, 5, 3));
        let open = |positions: &Positions| positions.open.lock().keys().copied().collect::<Vec<_>>();
        assert_eq!(open(&positions), [3, 4, 5].map(at));
        begin(&positions, 10, 10).ended(true);
        assert_eq!(open(&positions), [4, 5].map(at));
        at_work.ended(true);
        begin(&positions, 11, 10).ended(true);
        assert_eq!(open(&positions), []);
    }

    #[test]
    fn a_bucket_that_another_switch_lists_while_a_position_is_minted_does_not_count() {
        let positions = Positions::default();
        let mint = |time| {
            positions.listed.store(9, Ordering::Relaxed);
            at(time)
        };
        assert_eq!(positions.begin(None, UnixMillis(0), || mint(1)), (at(1), 0));
        assert_eq!(positions.begin(None, UnixMillis(0), || mint(2)), (at(2), 9));
    }
}
