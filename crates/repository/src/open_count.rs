//! How many transactions are open, as far as one server knows. It bounds how many it begins.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Counts of open transactions by their owners.
#[derive(Default)]
pub(crate) struct OpenCount(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Those that are open: as of the last pass, and those begun here since.
    open: HashMap<String, u64>,
    /// Those that are being begun here.
    beginning: HashMap<String, u64>,
    /// Those that were begun here since the last pass began. It may not have counted them.
    since_pass: HashMap<String, u64>,
}

impl Counts {
    fn of_one(&self, owner: &str) -> u64 {
        [&self.open, &self.beginning].into_iter().filter_map(|counts| counts.get(owner)).sum()
    }

    fn of_all(&self) -> u64 {
        self.open.values().chain(self.beginning.values()).sum()
    }
}

/// The place of a transaction that is being begun. It is given back if that fails.
pub(crate) struct Place<'a> {
    count: &'a OpenCount,
    owner: String,
}

impl OpenCount {
    /// Takes a place for one more transaction. At most `all_max` are open, and `one_max` of one
    /// owner. If that is exceeded, returns how many are open, and how many of them of this owner.
    pub(crate) fn begin(&self, owner: &str, all_max: u64, one_max: u64) -> Result<Place<'_>, (u64, u64)> {
        let mut counts = self.0.lock();
        let (of_all, of_one) = (counts.of_all(), counts.of_one(owner));
        if of_all >= all_max || of_one >= one_max {
            return Err((of_all, of_one));
        }
        *counts.beginning.entry(owner.to_owned()).or_default() += 1;
        Ok(Place { count: self, owner: owner.to_owned() })
    }

    /// One open transaction less, until the next pass counts them.
    pub(crate) fn ended(&self, owner: &str) {
        take_one(&mut self.0.lock().open, owner);
    }

    /// A pass begins to count.
    pub(crate) fn pass_begins(&self) {
        self.0.lock().since_pass.clear();
    }

    /// A pass has counted. Those that were begun meanwhile may be counted twice, until the next
    /// one.
    pub(crate) fn counted(&self, mut open: HashMap<String, u64>) {
        let mut counts = self.0.lock();
        for (owner, begun) in &counts.since_pass {
            *open.entry(owner.clone()).or_default() += begun;
        }
        counts.open = open;
    }

    /// How many are open.
    pub(crate) fn open(&self) -> u64 {
        self.0.lock().open.values().sum()
    }
}

impl Place<'_> {
    /// The transaction is begun.
    pub(crate) fn begun(self) {
        let mut counts = self.count.0.lock();
        let Counts { open, since_pass, .. } = &mut *counts;
        for begun in [open, since_pass] {
            *begun.entry(self.owner.clone()).or_default() += 1;
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        take_one(&mut self.count.0.lock().beginning, &self.owner);
    }
}

fn take_one(counts: &mut HashMap<String, u64>, owner: &str) {
    if let Some(count) = counts.get_mut(owner) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(owner);
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
        assert_eq!(count.begin("ann", 3, 2).err(), Some((2, 2)), "both are being begun");
        drop(first);
        second.begun();
        let _third = count.begin("ann", 3, 2).ok().unwrap();
        let _fourth = count.begin("bob", 3, 2).ok().unwrap();
        assert_eq!(count.begin("bob", 3, 2).err(), Some((3, 1)));
        assert_eq!(count.open(), 1);
    }

    #[test]
    fn a_pass_forgets_none_that_is_begun_beside_it_and_an_end_counts_once() {
        let count = OpenCount::default();
        count.begin("ann", 9, 9).ok().unwrap().begun();
        let place = count.begin("ann", 9, 9).ok().unwrap();
        count.pass_begins();
        place.begun();
        count.counted(HashMap::from([("ann".to_owned(), 1)]));
        assert_eq!(count.open(), 2);
        for _ in 0..3 {
            count.ended("ann");
        }
        assert_eq!(count.open(), 0);
    }
}
