//! How many records expire in each of the coming hours.
//!
//! The hours are those of the clock (UTC). An hour is counted once, in the list of rows by expiry,
//! when it comes within the horizon. From then on the committer adds what it changes. So each entry
//! of an hour that is counted to its end is read at most once, and never for rows that live shorter
//! than the horizon. Right after a start that is one read of the entries of the whole horizon, some
//! seconds of it in each sweep.
//!
//! An hour with very many entries is counted in part, and its number is a lower bound: there are at
//! least so many. It is counted again when half of what was counted has gone, so each entry is still
//! read a few times only.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use store::UnixMillis;

/// The number of hours, including the one that has begun.
pub(crate) const HOURS: u64 = 24;

const HOUR_MS: u64 = 3_600_000;

/// The hour of a time.
pub(crate) fn hour_of(time: UnixMillis) -> u64 {
    time.0 / HOUR_MS
}

/// The first moment of an hour.
pub(crate) fn begin_of(hour: u64) -> UnixMillis {
    UnixMillis(hour.saturating_mul(HOUR_MS))
}

/// By how much lists of steps change the number of rows that expire, by hour.
pub(crate) type Moved = BTreeMap<u64, i64>;

/// The counted hours.
#[derive(Debug, Default)]
pub(crate) struct Forecast(Mutex<BTreeMap<u64, Hour>>);

/// Entries of an hour that were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) entries: u64,
    /// Whether the count ended early: there may be more.
    pub(crate) is_part: bool,
}

#[derive(Debug, Default)]
struct Hour {
    /// Entries that were there when they were counted last; `None`: they are being counted for the
    /// first time.
    found: Option<Counted>,
    /// What was added and removed since.
    moved: i64,
    /// What was added and removed since a count began; `None`: none goes on.
    moved_meanwhile: Option<i64>,
}

impl Hour {
    /// The entries now, or a lower bound of them.
    fn entries(&self) -> Option<u64> {
        Some(self.found?.entries.saturating_add_signed(self.moved))
    }

    /// Whether it was counted in part, and half of that has gone.
    fn is_used_up(&self) -> bool {
        let found = self.found.filter(|found| found.is_part);
        found.is_some_and(|found| self.entries().is_some_and(|entries| entries <= found.entries / 2))
    }
}

impl Forecast {
    /// Begins to count an hour that is not counted yet. The caller has to count the entries of this
    /// very moment, between two groups.
    pub(crate) fn begin(&self, hour: u64) -> bool {
        let mut hours = self.0.lock();
        let is_new = !hours.contains_key(&hour);
        hours.entry(hour).or_insert_with(|| Hour { moved_meanwhile: Some(0), ..Hour::default() });
        is_new
    }

    /// The same for an hour that was counted in part, if it has to be counted again. Until that has
    /// ended the hour keeps its number, and no other count of it begins.
    pub(crate) fn begin_again(&self, hour: u64) -> bool {
        let mut hours = self.0.lock();
        let begins = |hour: &&mut Hour| hour.moved_meanwhile.is_none() && hour.is_used_up();
        let Some(hour) = hours.get_mut(&hour).filter(begins) else { return false };
        hour.moved_meanwhile = Some(0);
        true
    }

    /// The entries of an hour were counted; `None`: that failed, or has to be repeated.
    pub(crate) fn found(&self, hour: u64, counted: Option<Counted>) {
        let mut hours = self.0.lock();
        let Some(known) = hours.get_mut(&hour) else { return };
        let moved_meanwhile = known.moved_meanwhile.take().unwrap_or_default();
        let Some(counted) = counted else {
            if known.found.is_none() {
                hours.remove(&hour);
            }
            return;
        };
        // So many were there at least when the count began: an earlier count may have come further.
        let moved_before = known.moved.saturating_sub(moved_meanwhile);
        let before = known.found.filter(|_| counted.is_part);
        let before = before.map_or(0, |found| found.entries.saturating_add_signed(moved_before));
        known.found = Some(Counted { entries: counted.entries.max(before), ..counted });
        known.moved = moved_meanwhile;
    }

    /// Forgets the hours before one.
    pub(crate) fn forget_before(&self, hour: u64) {
        let mut hours = self.0.lock();
        *hours = hours.split_off(&hour);
    }

    /// A group was committed.
    pub(crate) fn add(&self, moved: &Moved) {
        if moved.is_empty() {
            return;
        }
        let mut hours = self.0.lock();
        for (hour, by) in moved {
            if let Some(hour) = hours.get_mut(hour) {
                hour.moved += by;
                if let Some(meanwhile) = &mut hour.moved_meanwhile {
                    *meanwhile += by;
                }
            }
        }
    }

    /// How many rows expire in an hour and in each after it, as far as all were counted. Of an hour
    /// that was counted in part it is a lower bound.
    pub(crate) fn from(&self, hour: u64) -> Vec<u64> {
        let hours = self.0.lock();
        (hour..hour + HOURS).map_while(|hour| hours.get(&hour)?.entries()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(entries: u64) -> Option<Counted> {
        Some(Counted { entries, is_part: false })
    }

    fn part(entries: u64) -> Option<Counted> {
        Some(Counted { entries, is_part: true })
    }

    #[test]
    fn what_changes_while_an_hour_is_counted_is_added() {
        let forecast = Forecast::default();
        forecast.add(&Moved::from([(5, 7)]));
        assert!(forecast.begin(5) && forecast.begin(6) && !forecast.begin(5));
        forecast.add(&Moved::from([(4, 1), (5, 2), (6, -1)]));
        assert!(forecast.from(5).is_empty());
        forecast.found(5, whole(10));
        assert_eq!(forecast.from(5), [12]);
        forecast.found(6, whole(4));
        assert_eq!((forecast.from(5), forecast.from(6), forecast.from(4)), (vec![12, 3], vec![3], vec![]));
        assert!(forecast.begin(7));
        forecast.found(7, None);
        assert!(forecast.begin(7), "it is counted again");
        forecast.forget_before(6);
        assert_eq!((forecast.from(5), forecast.from(6)), (vec![], vec![3]));
    }

    #[test]
    fn an_hour_that_was_counted_in_part_is_counted_again_when_half_of_that_has_gone() {
        let forecast = Forecast::default();
        assert!(forecast.begin(5));
        forecast.found(5, part(10));
        forecast.add(&Moved::from([(5, -4)]));
        assert!(!forecast.begin_again(5));
        forecast.add(&Moved::from([(5, -1)]));
        assert!(!forecast.begin(5) && forecast.begin_again(5));
        assert!(!forecast.begin_again(5), "one count of an hour goes on at a time");
        // What goes meanwhile is not counted twice.
        forecast.add(&Moved::from([(5, -2)]));
        assert_eq!(forecast.from(5), [3], "it keeps its number meanwhile");
        forecast.found(5, part(10));
        assert_eq!(forecast.from(5), [8]);
        assert!(!forecast.begin_again(5));
        forecast.add(&Moved::from([(5, -4)]));
        assert!(forecast.begin_again(5));
        forecast.found(5, whole(7));
        forecast.add(&Moved::from([(5, -6)]));
        assert_eq!(forecast.from(5), [1]);
        assert!(!forecast.begin_again(5), "all were counted");
    }

    #[test]
    fn a_count_that_ends_earlier_or_fails_makes_no_number_lower() {
        let forecast = Forecast::default();
        assert!(forecast.begin(5));
        forecast.found(5, part(10));
        forecast.add(&Moved::from([(5, -6)]));
        assert!(forecast.begin_again(5));
        forecast.add(&Moved::from([(5, 1)]));
        forecast.found(5, None);
        assert_eq!(forecast.from(5), [5]);
        forecast.add(&Moved::from([(5, -1)]));
        assert!(forecast.begin_again(5));
        forecast.add(&Moved::from([(5, 1)]));
        forecast.found(5, part(2));
        assert_eq!(forecast.from(5), [5]);
    }
}
