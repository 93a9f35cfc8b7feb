//! Reads a range of a partition page by page, and in parts where many rows were removed.
//!
//! For one page a node reads no more than 100,000 tombstones (`tombstone_failure_threshold`). It
//! keeps them for ten days (`schema.rs`). If there are more of them before or between rows, the
//! read fails. Then the rest of the range is divided, and its parts are read one after the other.
//!
//! Nobody knows the keys that were removed. So the parts are equal by the bytes of their bounds,
//! and one that has too many tombstones is divided again. Keys that begin with a time, as in
//! queues, lie close together. They take two divisions for each byte that they have in common, and
//! then some for each 100,000 tombstones.
//!
//! A walk reads the partitions of a single token in the same way, if one of them begins with too
//! many tombstones.

use bytes::{Bytes, BytesMut};
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::value::SerializeValue;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use store::{Deadline, Direction};

use crate::failure::Failure;
use crate::requests::Requests;
use crate::routing::Asks;

/// Into how many parts a range is divided. A read that fails has read 100,000 tombstones; a read of
/// an empty part is short. So few divisions into many parts take less time than many into two.
const PARTS: u64 = 16;

/// How often one read divides. Usually its deadline comes first.
const DIVISIONS_MAX: u32 = 100;

/// So many bytes after the common beginning of its bounds decide where a range is divided.
const DIGITS: usize = 15;

/// A read of a range of a partition, or of all partitions that share a token.
pub(crate) struct RangeRead<'a, P> {
    pub(crate) requests: &'a Requests,
    pub(crate) deadline: Deadline,
    pub(crate) level: Consistency,
    /// Reads rows from a key to a key, and rows from a key on.
    pub(crate) statements: [&'a PreparedStatement; 2],
    /// The stored form of the partition, or the token.
    pub(crate) partition: P,
    pub(crate) parts: Parts,
}

impl<P: SerializeValue + Sync> RangeRead<'_, P> {
    /// The next page, of so many rows at most; `None`: the whole range is read. It may be empty.
    /// The caller notes each row of it ([`Parts::seen`]). Rows that it does not note may come
    /// again.
    pub(crate) async fn page(&mut self, rows: i32) -> Result<Option<QueryRowsResult>, Failure> {
        while let Some(KeyRange { from, to }) = self.parts.to_read.last() {
            let page = (rows, self.parts.paging.clone());
            let [to_a_key, from_a_key] = self.statements;
            let (requests, deadline, level, partition) = (self.requests, self.deadline, self.level, &self.partition);
            let asks = self.parts.asks();
            let read = match to {
                Some(to) => requests.page(deadline, level, asks, to_a_key, (partition, from, to), page).await,
                None => requests.page(deadline, level, asks, from_a_key, (partition, from), page).await,
            };
            match read {
                Ok((rows, next)) => {
                    self.parts.has_read(next);
                    return Ok(Some(rows));
                }
                Err(failure @ Failure::TooManyRemoved(_)) => {
                    if !self.parts.divide() {
                        return Err(failure);
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }
}

/// A range of keys.
struct KeyRange {
    /// The first key.
    from: Bytes,
    /// The key before which it ends; `None`: the end of the partition.
    to: Option<Bytes>,
}

/// What is still to be read of a range.
pub(crate) struct Parts {
    direction: Direction,
    /// The next part is the last one here.
    to_read: Vec<KeyRange>,
    /// Where the next page of that part begins.
    paging: PagingState,
    /// The key of the last row that was read.
    last: Option<Bytes>,
    divisions_left: u32,
}

impl Parts {
    /// A whole range.
    pub(crate) fn of(from: Bytes, to: Option<Bytes>, direction: Direction) -> Self {
        let to_read = vec![KeyRange { from, to }];
        Self { direction, to_read, paging: PagingState::start(), last: None, divisions_left: DIVISIONS_MAX }
    }

    /// How many nodes the next read asks. After a division more reads are likely to fail.
    fn asks(&self) -> Asks {
        if self.divisions_left == DIVISIONS_MAX { Asks::TwoIfSlow } else { Asks::One }
    }

    /// Notes that everything up to the row at this key was read.
    pub(crate) fn seen(&mut self, key: &Bytes) {
        self.last = Some(key.clone());
    }

    /// Notes that a page was read, and where the next one begins.
    fn has_read(&mut self, next: Option<PagingState>) {
        if next.is_none() {
            self.to_read.pop();
        }
        self.paging = next.unwrap_or_default();
    }

    /// Divides the rest of the part that is being read. Returns whether that was possible.
    pub(crate) fn divide(&mut self) -> bool {
        let Some(rest) = self.to_read.pop().map(|part| self.rest_of(part)) else { return false };
        let cuts = cuts(&rest.from, rest.to.as_deref());
        if cuts.is_empty() || self.divisions_left == 0 {
            return false;
        }
        self.divisions_left -= 1;
        self.paging = PagingState::start();
        let begins = std::iter::once(rest.from).chain(cuts.iter().cloned());
        let ends = cuts.iter().cloned().map(Some).chain([rest.to]);
        let parts = begins.zip(ends).map(|(from, to)| KeyRange { from, to });
        match self.direction {
            Direction::Forward => self.to_read.extend(parts.collect::<Vec<_>>().into_iter().rev()),
            Direction::Backward => self.to_read.extend(parts),
        }
        true
    }

    /// A part without what was read of it.
    fn rest_of(&self, KeyRange { from, to }: KeyRange) -> KeyRange {
        match (&self.last, self.direction) {
            (None, _) => KeyRange { from, to },
            (Some(last), Direction::Forward) => KeyRange { from: from.max(successor(last)), to },
            (Some(last), Direction::Backward) => {
                let to = to.map_or_else(|| last.clone(), |to| to.min(last.clone()));
                KeyRange { from, to: Some(to) }
            }
        }
    }
}

/// The keys that divide a range into [`PARTS`] parts, ascending, all within it. There are fewer, or
/// none, if its bounds differ only after [`DIGITS`] bytes.
fn cuts(from: &[u8], to: Option<&[u8]>) -> Vec<Bytes> {
    let common = to.map_or(0, |to| from.iter().zip(to).take_while(|(one, other)| one == other).count());
    let low = number(&from[common..]);
    let high = to.map_or(1_u128 << (8 * DIGITS), |to| number(&to[common..]));
    let width = high.saturating_sub(low);
    let parts = u128::from(PARTS);
    let mut numbers: Vec<_> = (1..parts).map(|nth| low + width * nth / parts).filter(|cut| *cut > low).collect();
    numbers.dedup();
    let key = |cut: u128| Bytes::from([&from[..common], &cut.to_be_bytes()[size_of::<u128>() - DIGITS..]].concat());
    numbers.into_iter().map(key).collect()
}

/// Where the parts of a range of tokens end, without the last one, descending. Some end at the same
/// token if there are fewer than [`PARTS`] tokens.
pub(crate) fn token_ends(first: i64, last: i64) -> impl Iterator<Item = i64> {
    let width = last.abs_diff(first);
    let end = move |nth: u64| first.saturating_add_unsigned(width / PARTS * nth + width % PARTS * nth / PARTS);
    (1..PARTS).rev().map(end)
}

/// The first bytes of a key as a number. Keys are ordered as their numbers are, if these differ.
fn number(key: &[u8]) -> u128 {
    let mut bytes = [0; size_of::<u128>()];
    for (digit, byte) in bytes[size_of::<u128>() - DIGITS..].iter_mut().zip(key) {
        *digit = *byte;
    }
    u128::from_be_bytes(bytes)
}

/// The smallest key after another.
pub(crate) fn successor(key: &[u8]) -> Bytes {
    let mut successor = BytesMut::with_capacity(key.len() + 1);
    successor.extend_from_slice(key);
    successor.extend_from_slice(&[0]);
    successor.freeze()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use proptest::prelude::*;

    use super::*;

    /// Keys, and whether each has a row. The others were removed.
    type Keys = BTreeMap<Vec<u8>, bool>;

    /// Reads a page as a node does, and returns it and where the next one begins; `None`: it has
    /// met more removed keys than it reads for one page.
    fn page(
        keys: &Keys,
        parts: &Parts,
        rows_max: usize,
        removed_max: usize,
    ) -> Option<(Vec<Bytes>, Option<PagingState>)> {
        let part = parts.to_read.last().unwrap();
        let end = part.to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(&to[..]));
        let mut within: Vec<_> = keys.range::<[u8], _>((Bound::Included(&part.from[..]), end)).collect();
        if parts.direction == Direction::Backward {
            within.reverse();
        }
        let read = parts.paging.as_bytes_slice();
        let read = read.map_or(0, |last| 1 + within.iter().position(|(key, _)| key[..] == last[..]).unwrap());
        let (mut rows, mut removed) = (Vec::new(), 0);
        for (key, has_row) in &within[read..] {
            if **has_row {
                rows.push(Bytes::copy_from_slice(key));
            } else {
                removed += 1;
            }
            if removed > removed_max {
                return None;
            }
            if rows.len() == rows_max {
                return Some((rows, Some(PagingState::new_from_raw_bytes(&key[..]))));
            }
        }
        Some((rows, None))
    }

    /// The rows that a read of a range returns, and how many of its pages failed; `None`: it fails.
    fn read(keys: &Keys, mut parts: Parts, rows_max: usize, removed_max: usize) -> Option<(Vec<Bytes>, usize)> {
        let (mut read, mut failed) = (Vec::new(), 0);
        while !parts.to_read.is_empty() {
            match page(keys, &parts, rows_max, removed_max) {
                Some((rows, next)) => {
                    parts.has_read(next);
                    for key in rows {
                        parts.seen(&key);
                        read.push(key);
                    }
                }
                None if parts.divide() => failed += 1,
                None => return None,
            }
        }
        Some((read, failed))
    }

    /// With common beginnings, shorter ones of others, and the smallest and the greatest bytes.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let beginnings: [&'static [u8]; 5] =
            [b"", b"\x01\x90\x12\x34\x56\x78\0\0", b"letters/page 0000", b"\0\0", b"\xFF\xFF"];
        let end = prop::collection::vec(prop_oneof![any::<u8>(), Just(0_u8), Just(0xFF_u8)], 0..6);
        (prop::sample::select(beginnings.to_vec()), end).prop_map(|(beginning, end)| [beginning, &end[..]].concat())
    }

    proptest! {
        #[test]
        fn the_parts_of_a_range_are_the_whole_range_in_order(from in key(), to in prop::option::of(key())) {
            prop_assume!(to.as_ref().is_none_or(|to| from < *to));
            let (from, to) = (Bytes::from(from), to.map(Bytes::from));
            let cuts = cuts(&from, to.as_deref());
            prop_assert!(cuts.first().is_none_or(|first| from < *first));
            prop_assert!(cuts.is_sorted_by(|one, next| one < next));
            prop_assert!(cuts.last().is_none_or(|last| to.as_ref().is_none_or(|to| last < to)));
            for direction in [Direction::Forward, Direction::Backward] {
                let mut parts = Parts::of(from.clone(), to.clone(), direction);
                if !parts.divide() {
                    prop_assert!(cuts.is_empty());
                    continue;
                }
                // The next one is the last.
                if direction == Direction::Forward {
                    parts.to_read.reverse();
                }
                prop_assert_eq!(&parts.to_read.first().unwrap().from, &from);
                prop_assert_eq!(&parts.to_read.last().unwrap().to, &to);
                prop_assert!(parts.to_read.windows(2).all(|two| two[0].to.as_ref() == Some(&two[1].from)));
                prop_assert_eq!(parts.to_read.len(), cuts.len() + 1);
            }
        }

        #[test]
        fn a_read_that_divides_returns_every_row_once_and_in_order(
            keys in prop::collection::btree_map(key(), prop::bool::weighted(0.2), 0..150),
            from in key(),
            to in prop::option::of(key()),
            rows_max in 1..20_usize,
        ) {
            prop_assume!(to.as_ref().is_none_or(|to| from < *to));
            // There are no more keys that differ in zeros at their ends alone.
            let removed_max = 8;
            for direction in [Direction::Forward, Direction::Backward] {
                let mut parts = Parts::of(Bytes::from(from.clone()), to.clone().map(Bytes::from), direction);
                parts.divisions_left = u32::MAX;
                let is_within = |key: &[u8]| from[..] <= *key && to.as_ref().is_none_or(|to| *key < to[..]);
                let rows = keys.iter().filter(|(key, has_row)| **has_row && is_within(key));
                let mut rows: Vec<_> = rows.map(|(key, _)| Bytes::from(key.clone())).collect();
                if direction == Direction::Backward {
                    rows.reverse();
                }
                let read = read(&keys, parts, rows_max, removed_max);
                prop_assert_eq!(read.map(|(rows, _)| rows), Some(rows));
            }
        }
    }

    #[test]
    fn nothing_fits_between_a_key_and_its_successor() {
        for key in [&b""[..], b"a", b"\xFF", b"a\0"] {
            let next = successor(key);
            assert!(next[..] > key[..] && next[..next.len() - 1] == key[..]);
        }
    }

    /// Keys of a queue: six bytes of a time, of ten minutes, and bytes that tell writers apart.
    fn queued(number: u64) -> Vec<u8> {
        let at = 1_800_000_000_000 + number * 150;
        [&at.to_be_bytes()[2..], &number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()].concat()
    }

    #[test]
    fn a_queue_with_four_times_as_many_removed_records_as_a_node_reads_takes_few_divisions() {
        let keys: Keys = (0..4_000).map(|number| (queued(number), number == 3_999)).collect();
        for direction in [Direction::Forward, Direction::Backward] {
            let (read, failed) = read(&keys, Parts::of(Bytes::new(), None, direction), 100, 1_000).unwrap();
            assert_eq!(read, [queued(3_999)]);
            assert!((1..20).contains(&failed), "{failed}");
        }
    }

    #[test]
    fn a_read_asks_a_second_node_only_before_its_first_division() {
        let mut parts = Parts::of(Bytes::new(), None, Direction::Forward);
        assert_eq!(parts.asks(), Asks::TwoIfSlow);
        assert!(parts.divide());
        assert_eq!(parts.asks(), Asks::One);
        while !parts.to_read.is_empty() {
            parts.has_read(None);
            assert_eq!(parts.asks(), Asks::One);
        }
    }

    #[test]
    fn each_token_is_alone_after_sixteen_divisions_of_all() {
        for token in [i64::MIN, i64::MIN + 1, -1, 0, 77, i64::MAX - 1, i64::MAX] {
            let (mut first, mut last, mut divisions) = (i64::MIN, i64::MAX, 0);
            while first < last {
                let ends: Vec<i64> = token_ends(first, last).collect();
                assert!(ends.is_sorted_by(|later, earlier| later >= earlier), "{ends:?}");
                assert!(ends.iter().all(|end| (first..last).contains(end)), "{ends:?} of {first} to {last}");
                let before = ends.iter().copied().find(|end| *end < token);
                last = ends.iter().rev().copied().find(|end| *end >= token).unwrap_or(last);
                first = before.map_or(first, |end| end + 1);
                divisions += 1;
            }
            assert_eq!((first, last), (token, token));
            assert!(divisions <= 16, "{divisions} for {token}");
        }
    }

    #[test]
    fn a_read_that_divides_too_often_fails() {
        let keys: Keys = (0..4_000).map(|number| (queued(number), false)).collect();
        assert!(read(&keys, Parts::of(Bytes::new(), None, Direction::Forward), 100, 2).is_none());
    }
}
