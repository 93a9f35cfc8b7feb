//! By how much things grow that nobody reads before they grow.
//!
//! Who adds to a thing without reading it does not know how large it is. To bound it all the same,
//! it is looked at now and then: once it may have grown by a stated amount. A bounded number of
//! things is remembered, each with by how much it has grown. If there are more, those that have
//! grown least are forgotten. What is not remembered counts as grown by as much as anything that was
//! forgotten. So nothing has ever grown by more than it counts.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

/// Counts by how much things grow until somebody looks at them.
///
/// A thing grows by at most [`Unseen::new`]'s `max` before its first look, and as much after each
/// look that finds room. None needs a look before it has grown by half as much, however much others
/// grow.
///
/// If many more things grow than are remembered, all counts are set to zero from time to time.
/// Then, and in a new process, a thing may grow by `max` once more. Before that, at least a quarter
/// of what all remembered things may grow has been counted. The things are in [`Unseen::PARTS`]
/// equal parts, each with its own time for this.
#[derive(Debug)]
pub struct Unseen {
    /// Makes it hard to find things of one part.
    salt: RandomState,
    /// So many things of a part are remembered.
    things: usize,
    max: u32,
    parts: [Mutex<Part>; Unseen::PARTS],
}

/// What is known of the things of a part. It takes no memory before one of them grows.
#[derive(Debug, Default)]
struct Part {
    /// By how much each remembered thing has grown at most, by its hash.
    remembered: HashMap<u64, u32>,
    /// By how much each other thing has grown at most.
    others: u32,
}

impl Part {
    /// By how much a thing has grown at most. If it is not remembered, it is from now on.
    fn grown(&mut self, hash: u64, things_max: usize, others_max: u32) -> &mut u32 {
        if self.remembered.len() >= things_max && !self.remembered.contains_key(&hash) {
            self.forget(others_max);
        }
        self.remembered.entry(hash).or_insert(self.others)
    }

    /// Forgets the half of the things that have grown least; all if others would then count as grown
    /// by more than `others_max`. There is at least one.
    fn forget(&mut self, others_max: u32) {
        let mut all: Vec<u32> = self.remembered.values().copied().collect();
        let middle = all.len() / 2;
        let (_, middle, _) = all.select_nth_unstable(middle);
        let others = self.others.max(*middle);
        if others > others_max {
            self.remembered.clear();
            self.others = 0;
        } else {
            self.remembered.retain(|_, grown| *grown > others);
            self.others = others;
        }
    }
}

impl Unseen {
    /// Things are divided into so many parts.
    pub const PARTS: usize = 64;

    /// Remembers about so many things, with 34 bytes of memory for each, at most twice that. A thing
    /// grows by at most `max` before a look. Both are at least one.
    pub fn new(things: usize, max: u32) -> Self {
        Self {
            salt: RandomState::new(),
            things: things.div_ceil(Self::PARTS).max(1),
            max: max.max(1),
            parts: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// Whether a thing may grow by so much without a look. Counts it if so.
    pub fn take(&self, thing: &[u8], by: usize) -> bool {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        self.with(thing, |grown| match grown.checked_add(by).filter(|sum| *sum <= self.max) {
            Some(sum) => {
                *grown = sum;
                true
            }
            None => false,
        })
    }

    /// Somebody has looked at a thing and found room, and it grows by so much.
    pub fn looked_at(&self, thing: &[u8], by: usize) {
        let by = u32::try_from(by).unwrap_or(u32::MAX).min(self.max);
        self.with(thing, |grown| *grown = by);
    }

    /// The number of the part that a thing is in, below [`Unseen::PARTS`].
    pub fn part(&self, thing: &[u8]) -> usize {
        part_of(self.salt.hash_one(thing))
    }

    fn with<T>(&self, thing: &[u8], change: impl FnOnce(&mut u32) -> T) -> T {
        let hash = self.salt.hash_one(thing);
        let mut part = self.parts[part_of(hash)].lock();
        change(part.grown(hash, self.things, self.max / 2))
    }
}

fn part_of(hash: u64) -> usize {
    hash as usize % Unseen::PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some things of one part.
    fn of_one_part<const N: usize>(unseen: &Unseen) -> [[u8; 4]; N] {
        let mut things = (0_u32..).map(u32::to_be_bytes).filter(|thing| unseen.part(thing) == 0);
        std::array::from_fn(|_| things.next().unwrap_or_default())
    }

    #[test]
    fn a_thing_grows_by_the_most_that_is_allowed_before_each_look() {
        let unseen = Unseen::new(1 << 10, 100);
        assert!(unseen.take(b"a", 60) && unseen.take(b"a", 40));
        assert!(!unseen.take(b"a", 1));
        assert!(!unseen.take(b"a", 1), "what is refused counts for nothing, and is refused again");
        unseen.looked_at(b"a", 30);
        assert!(unseen.take(b"a", 70));
        assert!(!unseen.take(b"a", 1), "after the look it has grown by as much once more");
        unseen.looked_at(b"a", usize::MAX);
        assert!(!unseen.take(b"a", 1), "more than is allowed leaves nothing");
    }

    #[test]
    fn more_than_is_allowed_at_once_always_takes_a_look() {
        let unseen = Unseen::new(1, 100);
        assert!(!unseen.take(b"a", 101) && !unseen.take(b"a", usize::MAX));
        assert!(unseen.take(b"a", 100));
    }

    #[test]
    fn things_of_one_part_that_grow_in_turn_take_a_look_only_once_they_have_grown_as_much_as_is_allowed() {
        let unseen = Unseen::new(2 * Unseen::PARTS, 100);
        let things = of_one_part::<2>(&unseen);
        let mut looks = 0;
        for _ in 0..1_000 {
            for thing in &things {
                if !unseen.take(thing, 1) {
                    unseen.looked_at(thing, 1);
                    looks += 1;
                }
            }
        }
        assert_eq!(looks, 2 * 9);
    }

    #[test]
    fn a_thing_that_grows_little_takes_no_look_however_much_and_however_many_others_grow() {
        let unseen = Unseen::new(8 * Unseen::PARTS, 100);
        for round in 0..40_u32 {
            for other in 0..1_000_u32 {
                let other = [&b"other"[..], &other.to_be_bytes()].concat();
                if !unseen.take(&other, 30) {
                    unseen.looked_at(&other, 30);
                }
            }
            for number in 0..50 {
                let thing = [round, number].map(u32::to_be_bytes).concat();
                assert!(unseen.take(&thing, 50), "{round} {number}");
            }
        }
    }

    #[test]
    fn what_is_forgotten_counts_as_grown_by_as_much_as_anything_that_was_forgotten() {
        let unseen = Unseen::new(2 * Unseen::PARTS, 100);
        let [a, b, c] = of_one_part(&unseen);
        assert!(unseen.take(&a, 40) && unseen.take(&b, 45));
        assert!(unseen.take(&c, 1), "there is no room for three");
        assert!(!unseen.take(&a, 56) && unseen.take(&a, 55));
    }

    #[test]
    fn what_has_grown_most_is_remembered() {
        let unseen = Unseen::new(4 * Unseen::PARTS, 100);
        let [a, others @ ..] = of_one_part::<40>(&unseen);
        assert!(unseen.take(&a, 99));
        for other in &others {
            assert!(unseen.take(other, 1));
        }
        assert!(!unseen.take(&a, 2));
        unseen.looked_at(&a, 0);
        assert!(unseen.take(&a, 100) && !unseen.take(&a, 1));
    }

    #[test]
    fn all_counts_of_a_part_begin_anew_once_things_that_were_not_seen_would_count_for_more_than_half() {
        let unseen = Unseen::new(2 * Unseen::PARTS, 100);
        let [a, b, c] = of_one_part(&unseen);
        assert!(unseen.take(&a, 60) && unseen.take(&b, 51));
        assert!(!unseen.take(&a, 50));
        assert!(unseen.take(&c, 1));
        assert!(unseen.take(&a, 100), "from the beginning");
    }
}
