//! Counts how often each of many names occurs, in memory that is bounded.
//!
//! Up to a number of different names the counts are exact. Beyond it, names that occur rarely are
//! forgotten: the method of Misra and Gries ("Finding repeated elements", 1982), which forgets many
//! names at once (Agarwal et al., "Mergeable summaries", 2012, section 2). A count is then too low
//! by no more than a margin that is known.

use std::collections::HashMap;
use std::hash::Hash;

/// How often each name occurred.
pub(super) struct Counts<K> {
    counts: HashMap<K, u64>,
    names_max: usize,
    /// How much was subtracted from each count.
    margin: u64,
}

impl<K: Hash + Ord> Counts<K> {
    /// Counts that are exact for up to `names_max` different names.
    pub(super) fn new(names_max: usize) -> Self {
        Self { counts: HashMap::new(), names_max, margin: 0 }
    }

    /// Counts further occurrences of a name.
    pub(super) fn add(&mut self, name: K, occurrences: u64) {
        *self.counts.entry(name).or_default() += occurrences;
        if self.counts.len() > self.names_max {
            self.forget_rarest();
        }
    }

    /// Subtracts the median from all counts, and forgets what reaches zero: at least half of the
    /// names. At least half of the names lose as much as the margin grows. So it is at most all
    /// occurrences together, divided by half of `names_max`.
    fn forget_rarest(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        self.margin += median;
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(median);
            *count > 0
        });
    }

    /// The `most` highest counts; ties by name. Then the margin: each count, also that of a name
    /// that is not listed, may be too low by so much. It is 0 if all are exact.
    pub(super) fn top(self, most: usize) -> (Vec<(K, u64)>, u64) {
        let mut counts: Vec<_> = self.counts.into_iter().collect();
        counts.sort_unstable_by(|(a_name, a), (b_name, b)| b.cmp(a).then_with(|| a_name.cmp(b_name)));
        counts.truncate(most);
        (counts, self.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts names that occur once each, and `frequent` ones behind each of them.
    fn counted(names_max: usize, rare: u64, frequent: &[u64]) -> (HashMap<u64, u64>, u64) {
        let mut counts = Counts::new(names_max);
        for name in 0..rare {
            counts.add(name, 1);
            frequent.iter().for_each(|name| counts.add(*name, 1));
            assert!(counts.counts.len() <= names_max);
        }
        let (top, margin) = counts.top(usize::MAX);
        (top.into_iter().collect(), margin)
    }

    #[test]
    fn counts_are_exact_up_to_the_number_of_names_that_are_held() {
        let mut counts = Counts::new(3);
        for (name, occurrences) in [("a", 1), ("b", 2), ("c", 2), ("b", 1)] {
            counts.add(name, occurrences);
        }
        assert_eq!(counts.top(2), (vec![("b", 3), ("c", 2)], 0));
    }

    #[test]
    fn beyond_it_frequent_names_stay_and_no_count_is_too_low_by_more_than_the_margin() {
        let (rare, frequent) = (1_000, [2_000, 2_001]);
        let (counts, margin) = counted(10, rare, &frequent);
        let all = rare * 3;
        assert!(margin > 0 && margin <= all / 5, "{margin}");
        for name in frequent {
            let count = counts[&name];
            assert!(count <= rare && count + margin >= rare, "{name}: {count}");
        }
        for name in 0..rare {
            assert!(counts.get(&name).is_none_or(|count| *count <= 1), "{name}");
        }
    }

    #[test]
    fn names_that_all_occur_equally_often_may_all_be_forgotten() {
        let (counts, margin) = counted(10, 11, &[]);
        assert_eq!((counts.len(), margin), (0, 1));
    }
}
