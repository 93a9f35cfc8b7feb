//! How many transactions are open, as far as one server knows. It bounds how many it begins.

use std::collections::HashMap;

use parking_lot::Mutex;
use store::UnixMillis;

/// Counts of open transactions by their owners.
#[derive(Default)]
pub(crate) struct OpenCount(Mutex<Counts>);

/// The open transactions of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenOnes {
    count: u64,
    /// When the first of them ends by itself, as far as that is known. It may have been renewed, or
    /// ended, since.
    first_ends: Option<UnixMillis>,
}

impl OpenOnes {
    /// One more, which ends at this time.
    pub(crate) fn add(&mut self, ends: UnixMillis) {
        self.join(Self { count: 1, first_ends: Some(ends) });
    }

    fn join(&mut self, others: Self) {
        self.count += others.count;
        self.first_ends = [self.first_ends, others.first_ends].into_iter().flatten().min();
    }
}

/// Too many transactions are open.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany {
    pub(crate) open: u64,
    pub(crate) of_owner: u64,
    /// When the first one ends whose end makes room.
    pub(crate) first_ends: Option<UnixMillis>,
}

#[derive(Default)]
struct Counts {
    /// Those that are open: as of the last pass, and those begun here since.
    open: HashMap<String, OpenOnes>,
    /// Those that are being begun here.
    beginning: HashMap<String, u64>,
    /// Those that were begun here since the last pass began. It may not have counted them.
    since_pass: HashMap<String, OpenOnes>,
}

impl Counts {
    fn of_one(&self, owner: &str) -> u64 {
        let open = self.open.get(owner).map_or(0, |open| open.count);
        open + self.beginning.get(owner).copied().unwrap_or_default()
    }

    fn of_all(&self) -> u64 {
        self.open.values().map(|open| open.count).sum::<u64>() + self.beginning.values().sum::<u64>()
    }

    fn first_ends(&self, owner: Option<&str>) -> Option<UnixMillis> {
        match owner {
            Some(owner) => self.open.get(owner)?.first_ends,
            None => self.open.values().filter_map(|open| open.first_ends).min(),
        }
    }
}

/// The place of a transaction that is being begun. It is given back if that fails.
pub(crate) struct Place<'a> {
    count: &'a OpenCount,
    owner: String,
}

impl OpenCount {
    /// Takes a place for one more transaction. At most `all_max` are open, and `one_max` of one
    /// owner.
    pub(crate) fn begin(&self, owner: &str, all_max: u64, one_max: u64) -> Result<Place<'_>, TooMany> {
        let mut counts = self.0.lock();
        let (open, of_owner) = (counts.of_all(), counts.of_one(owner));
        if open >= all_max || of_owner >= one_max {
            let whose = (of_owner >= one_max).then_some(owner);
            return Err(TooMany { open, of_owner, first_ends: counts.first_ends(whose) });
        }
        *counts.beginning.entry(owner.to_owned()).or_default() += 1;
        Ok(Place { count: self, owner: owner.to_owned() })
    }

    /// One open transaction less, until the next pass counts them.
    pub(crate) fn ended(&self, owner: &str) {
        let open = &mut self.0.lock().open;
        if let Some(ones) = open.get_mut(owner) {
            ones.count = ones.count.saturating_sub(1);
            if ones.count == 0 {
                open.remove(owner);
            }
        }
    }

    /// A pass begins to count.
    pub(crate) fn pass_begins(&self) {
        self.0.lock().since_pass.clear();
    }

    /// A pass has counted. Those that were begun meanwhile may be counted twice, until the next
    /// one.
    pub(crate) fn counted(&self, mut open: HashMap<String, OpenOnes>) {
        let mut counts = self.0.lock();
        for (owner, begun) in &counts.since_pass {
            open.entry(owner.clone()).or_default().join(*begun);
        }
        counts.open = open;
    }

    /// How many are open.
    pub(crate) fn open(&self) -> u64 {
        self.0.lock().open.values().map(|open| open.count).sum()
    }
}

impl Place<'_> {
    /// The transaction is begun, and ends at this time by itself.
    pub(crate) fn begun(self, ends: UnixMillis) {
        let mut counts = self.count.0.lock();
        let Counts { open, since_pass, .. } = &mut *counts;
        for begun in [open, since_pass] {
            begun.entry(self.owner.clone()).or_default().add(ends);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let beginning = &mut self.count.0.lock().beginning;
        if let Some(count) = beginning.get_mut(&self.owner) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                beginning.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_are_taken_before_a_transaction_is_begun_and_given_back_if_it_is_not() {
        let count = OpenCount::default();
        let first = count.begin("ann", 3, 2).ok().unwrap();
        let second = count.begin("ann", 3, 2).ok().unwrap();
        let too_many =
            |open, of_owner, ends: Option<u64>| Some(TooMany { open, of_owner, first_ends: ends.map(UnixMillis) });
        assert_eq!(count.begin("ann", 3, 2).err(), too_many(2, 2, None), "both are being begun");
        drop(first);
        second.begun(UnixMillis(7));
        let _third = count.begin("ann", 3, 2).ok().unwrap();
        let _fourth = count.begin("bob", 3, 2).ok().unwrap();
        assert_eq!(count.begin("bob", 3, 2).err(), too_many(3, 1, Some(7)), "the first of all makes room");
        assert_eq!(count.begin("bob", 9, 1).err(), too_many(3, 1, None), "none of bob's is known to end");
        assert_eq!(count.open(), 1);
    }

    #[test]
    fn a_pass_forgets_none_that_is_begun_beside_it_and_an_end_counts_once() {
        let count = OpenCount::default();
        count.begin("ann", 9, 9).ok().unwrap().begun(UnixMillis(1));
        let place = count.begin("ann", 9, 9).ok().unwrap();
        count.pass_begins();
        place.begun(UnixMillis(2));
        count.counted(HashMap::from([("ann".to_owned(), OpenOnes { count: 1, first_ends: Some(UnixMillis(1)) })]));
        assert_eq!(count.open(), 2);
        for _ in 0..3 {
            count.ended("ann");
        }
        assert_eq!(count.open(), 0);
    }
}
