//! Draws places in a list.

use rand::seq::index;

/// A place among `count`; 0 if there are none.
pub(crate) fn below(count: usize) -> usize {
    if count == 0 { 0 } else { rand::random_range(0..count) }
}

/// Different places among `count`, `wanted` of them or all.
pub(crate) fn places(count: usize, wanted: usize) -> Vec<usize> {
    index::sample(&mut rand::rng(), count, wanted.min(count)).into_vec()
}
