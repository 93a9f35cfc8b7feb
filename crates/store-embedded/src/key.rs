//! One ordered key for (partition, sort key).
//!
//! The partition's bytes with each 0x00 written as 0x00 0xFF, then the end mark 0x00 0x01, then the
//! sort key unchanged. The end mark is smaller than any continuation of the partition. So keys sort
//! like (partition, sort key), no two pairs have the same key, and no key is empty (fjall refuses
//! empty keys).

use std::ops::Bound;

use bytes::Bytes;
use store::row::prefix_end;
use store::{StoreError, StoreResult};

/// fjall's limit for a key, in bytes.
const MAX_KEY_BYTES: usize = 65_535;

const ESCAPED_ZERO: [u8; 2] = [0x00, 0xFF];
const PARTITION_END: [u8; 2] = [0x00, 0x01];

/// A range of encoded keys, as fjall takes it.
pub(crate) type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The key of a row.
pub(crate) fn encode(partition: &[u8], sort: &[u8]) -> StoreResult<Bytes> {
    let mut key = prefix_with_room(partition, sort.len());
    key.extend_from_slice(sort);
    if key.len() > MAX_KEY_BYTES {
        return Err(StoreError::Limit { what: "bytes of a key", actual: key.len() as u64, max: MAX_KEY_BYTES as u64 });
    }
    Ok(key.into())
}

/// The prefix that the keys of all rows of a partition, and no others, begin with.
pub(crate) fn partition_prefix(partition: &[u8]) -> Vec<u8> {
    prefix_with_room(partition, 0)
}

/// The same with room for so many bytes more.
fn prefix_with_room(partition: &[u8], room: usize) -> Vec<u8> {
    let zeros: usize = partition.iter().map(|byte| usize::from(*byte == 0)).sum();
    let mut prefix = Vec::with_capacity(partition.len() + zeros + PARTITION_END.len() + room);
    for (zeros_before, part) in partition.split(|byte| *byte == 0).enumerate() {
        if zeros_before > 0 {
            prefix.extend_from_slice(&ESCAPED_ZERO);
        }
        prefix.extend_from_slice(part);
    }
    prefix.extend_from_slice(&PARTITION_END);
    prefix
}

/// The partition of a key and the length of its prefix (where the sort key begins); `None`: the key
/// is not valid.
pub(crate) fn decode(key: &[u8]) -> Option<(Bytes, usize)> {
    let mut partition = Vec::new();
    let mut at = 0;
    loop {
        match (*key.get(at)?, key.get(at + 1)) {
            (0x00, Some(0xFF)) => {
                partition.push(0);
                at += 2;
            }
            (0x00, Some(0x01)) => return Some((partition.into(), at + 2)),
            (0x00, _) => return None,
            (byte, _) => {
                partition.push(byte);
                at += 1;
            }
        }
    }
}

/// The range of keys from sort key `from` to before `to`, or to the end of the partition; `None`:
/// it is empty.
pub(crate) fn range(partition: &[u8], from: &[u8], to: Option<&[u8]>) -> Option<KeyRange> {
    if to.is_some_and(|to| to <= from) {
        return None;
    }
    let prefix = partition_prefix(partition);
    let start = [&prefix, from].concat();
    let end = match to {
        Some(to) => Bound::Excluded([&prefix, to].concat()),
        None => partition_bound(&prefix),
    };
    Some((Bound::Included(start), end))
}

/// All keys after a partition; without a partition, all keys.
pub(crate) fn behind(partition: Option<&[u8]>) -> KeyRange {
    let start = match partition.and_then(|partition| prefix_end(&partition_prefix(partition))) {
        Some(start) => Bound::Included(start.to_vec()),
        None => Bound::Unbounded,
    };
    (start, Bound::Unbounded)
}

/// Where the keys that begin with `prefix` end.
fn partition_bound(prefix: &[u8]) -> Bound<Vec<u8>> {
    prefix_end(prefix).map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_vec()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn odd_bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0x00, 0x01, 0x02, 0xFE, 0xFF]), 0..6)
    }

    proptest! {
        #[test]
        fn a_key_gives_back_its_partition_and_sort_key(partition in odd_bytes(), sort in odd_bytes()) {
            let key = encode(&partition, &sort).unwrap();
            let (decoded, sort_at) = decode(&key).unwrap();
            prop_assert_eq!(&decoded[..], &partition[..]);
            prop_assert_eq!(&key[sort_at..], &sort[..]);
        }

        #[test]
        fn keys_sort_like_their_pairs(a in (odd_bytes(), odd_bytes()), b in (odd_bytes(), odd_bytes())) {
            let keys = (encode(&a.0, &a.1).unwrap(), encode(&b.0, &b.1).unwrap());
            prop_assert_eq!(keys.0.cmp(&keys.1), a.cmp(&b));
        }

        #[test]
        fn a_partition_s_range_holds_its_rows_and_no_other_s(here in odd_bytes(), there in odd_bytes(), sort in odd_bytes()) {
            use std::ops::RangeBounds;
            let range = range(&here, b"", None).unwrap();
            let key = encode(&there, &sort).unwrap().to_vec();
            prop_assert_eq!(range.contains(&key), here == there);
        }
    }

    #[test]
    fn a_key_that_is_too_long_for_the_engine_is_refused() {
        assert!(matches!(encode(&[1; 40_000], &[1; 40_000]), Err(StoreError::Limit { .. })));
    }
}
