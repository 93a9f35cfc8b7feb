//! How many records expire in each of the coming hours.
//!
//! The hours are those of the clock (UTC). An hour is counted once, in the list of rows by expiry,
//! when it comes within the horizon. From then on the committer adds what it changes. So each entry
//! is read at most once, and never for rows that live shorter than the horizon. Right after a start
//! that is one read of the entries of the whole horizon, some seconds of it in each sweep. An hour
//! with very many entries is counted in part.

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

#[derive(Debug, Default)]
struct Hour {
    /// Entries that were there at first; `None`: they are being counted.
    found: Option<u64>,
    /// What was added and removed since.
    moved: i64,
}

impl Forecast {
    /// Begins to count an hour, unless it is counted. The caller has to count the entries of this
    /// very moment, between two groups.
    pub(crate) fn begin(&self, hour: u64) -> bool {
        let mut hours = self.0.lock();
        let is_new = !hours.contains_key(&hour);
        hours.entry(hour).or_default();
        is_new
    }

    /// The entries of an hour were counted; `None`: that failed.
    pub(crate) fn found(&self, hour: u64, count: Option<u64>) {
        let mut hours = self.0.lock();
        match (count, hours.get_mut(&hour)) {
            (Some(count), Some(hour)) => hour.found = Some(count),
            (None, _) => drop(hours.remove(&hour)),
            (Some(_), None) => {}
        }
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
            }
        }
    }

    /// How many rows expire in an hour and in each after it, as far as all were counted.
    pub(crate) fn from(&self, hour: u64) -> Vec<u64> {
        let hours = self.0.lock();
        let counted = (hour..hour + HOURS).map_while(|hour| {
            let hour = hours.get(&hour)?;
            Some(hour.found?.saturating_add_signed(hour.moved))
        });
        counted.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_while_an_hour_is_counted_is_added() {
        let forecast = Forecast::default();
        forecast.add(&Moved::from([(5, 7)]));
        assert!(forecast.begin(5) && forecast.begin(6) && !forecast.begin(5));
        forecast.add(&Moved::from([(4, 1), (5, 2), (6, -1)]));
        assert!(forecast.from(5).is_empty());
        forecast.found(5, Some(10));
        assert_eq!(forecast.from(5), [12]);
        forecast.found(6, Some(4));
        assert_eq!((forecast.from(5), forecast.from(6), forecast.from(4)), (vec![12, 3], vec![3], vec![]));
        assert!(forecast.begin(7));
        forecast.found(7, None);
        assert!(forecast.begin(7), "it is counted again");
        forecast.forget_before(6);
        assert_eq!((forecast.from(5), forecast.from(6)), (vec![], vec![3]));
    }
}
