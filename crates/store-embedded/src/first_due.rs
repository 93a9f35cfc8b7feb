//! Where the next sweep of expired rows begins.
//!
//! The entries that a sweep has deleted leave marks in files until these are merged. A sweep that
//! began with the first entry would read past all marks each time. So it begins at the first time
//! that an entry may have.
//!
//! It is kept in memory: the first sweep after a start reads from the beginning. What cannot be read
//! stays, and later sweeps begin with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use store::UnixMillis;

/// No entry of a lane is for an earlier time, except those that a running sweep has in hand.
#[derive(Debug, Default)]
pub(crate) struct FirstDue(AtomicU64);

impl FirstDue {
    /// An entry for this time is visible now.
    ///
    /// This has to come after it is visible: a sweep that begins in between would miss it otherwise,
    /// and so would all later ones.
    pub(crate) fn added(&self, time: UnixMillis) {
        self.0.fetch_min(time.0, Ordering::AcqRel);
    }

    /// No entry is for an earlier time than this now. While a sweep is at work nothing is known.
    pub(crate) fn time(&self) -> UnixMillis {
        match self.0.load(Ordering::Acquire) {
            u64::MAX => UnixMillis(0),
            time => UnixMillis(time),
        }
    }

    /// Begins a sweep. One that begins before this one has ended leaves to it what it has in hand.
    pub(crate) fn begin(self: &Arc<Self>) -> Unswept {
        Unswept { of: self.clone(), from: UnixMillis(self.0.swap(u64::MAX, Ordering::AcqRel)) }
    }
}

/// What a running sweep has in hand. However it ends, the next one begins where this one has come
/// to.
#[derive(Debug)]
pub(crate) struct Unswept {
    of: Arc<FirstDue>,
    from: UnixMillis,
}

impl Unswept {
    /// Whether another sweep has all of it in hand.
    pub(crate) fn is_with_another(&self) -> bool {
        self.from.0 == u64::MAX
    }

    /// The key behind which the entries are that may be due.
    pub(crate) fn behind(&self) -> Bytes {
        Bytes::copy_from_slice(&self.from.0.to_be_bytes())
    }

    /// All entries for earlier times are gone.
    pub(crate) fn come_to(&mut self, time: UnixMillis) {
        self.from = self.from.max(time);
    }
}

impl Drop for Unswept {
    fn drop(&mut self) {
        self.of.added(self.from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the next sweep begins.
    fn next(first: &Arc<FirstDue>) -> u64 {
        first.begin().from.0
    }

    #[test]
    fn a_sweep_begins_where_the_last_one_has_come_to() {
        let first = Arc::new(FirstDue::default());
        let mut sweep = first.begin();
        assert_eq!(sweep.from, UnixMillis(0));
        sweep.come_to(UnixMillis(50));
        sweep.come_to(UnixMillis(40));
        drop(sweep);
        assert_eq!(next(&first), 50);
        assert_eq!(next(&first), 50, "a sweep that did nothing changes nothing");
    }

    #[test]
    fn a_sweep_begins_with_what_was_added_meanwhile() {
        let first = Arc::new(FirstDue::default());
        let mut sweep = first.begin();
        first.added(UnixMillis(20));
        sweep.come_to(UnixMillis(50));
        drop(sweep);
        assert_eq!(next(&first), 20);
        first.added(UnixMillis(90));
        assert_eq!(next(&first), 20);
    }

    #[test]
    fn what_a_sweep_has_in_hand_is_left_to_it_and_not_lost() {
        let first = Arc::new(FirstDue::default());
        let fails = first.begin();
        let mut other = first.begin();
        assert!(other.is_with_another());
        other.come_to(UnixMillis(50));
        drop(other);
        drop(fails);
        assert_eq!(next(&first), 0);
    }
}
