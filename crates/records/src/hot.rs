//! The ids that are asked for most, as far as a bounded memory shows.

use std::cmp::Reverse;
use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::Mutex;

/// At most so many ids are returned.
const IDS_MAX: usize = 100_000;

/// And so many bytes of ids are kept.
const BYTES_MAX: usize = 16 << 20;

/// After so many requests all counts are halved, so that what was asked for long ago is forgotten.
const REQUESTS_MAX: u64 = 4_000_000;

/// Counts requests by id. Where there are too many ids, all counts are halved, and those that were
/// asked for once are forgotten.
#[derive(Default)]
pub(crate) struct Hot(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    ids: HashMap<Bytes, u32>,
    bytes: usize,
    /// Since they were halved.
    requests: u64,
}

impl Hot {
    /// Counts a request.
    pub(crate) fn count(&self, id: &Bytes) {
        self.count_all([id]);
    }

    /// Counts requests that came together.
    pub(crate) fn count_all<'a>(&self, ids: impl IntoIterator<Item = &'a Bytes>) {
        let mut counts = self.0.lock();
        ids.into_iter().for_each(|id| counts.count(id));
    }

    /// The ids that were asked for most, the first ones most.
    pub(crate) fn ids(&self) -> Vec<Bytes> {
        let mut ids: Vec<_> = self.0.lock().ids.iter().map(|(id, count)| (Reverse(*count), id.clone())).collect();
        ids.sort_unstable();
        ids.truncate(IDS_MAX);
        ids.into_iter().map(|(_, id)| id).collect()
    }
}

impl Counts {
    fn count(&mut self, id: &Bytes) {
        match self.ids.get_mut(id) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                // A copy, because the id keeps the buffer in which it arrived.
                self.ids.insert(Bytes::copy_from_slice(id), 1);
                self.bytes += id.len();
            }
        }
        self.requests += 1;
        while self.requests > REQUESTS_MAX || self.ids.len() > 2 * IDS_MAX || self.bytes > BYTES_MAX {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.ids.retain(|_, count| {
            *count /= 2;
            *count > 0
        });
        self.bytes = self.ids.keys().map(Bytes::len).sum();
        self.requests = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> Bytes {
        Bytes::from(format!("user:{number}"))
    }

    #[test]
    fn what_is_asked_for_most_is_first_and_stays_while_others_are_asked_for_once() {
        let hot = Hot::default();
        for number in 0..1_000_000 {
            hot.count(&id(number));
            if number % 2 == 0 {
                hot.count(&id(number / 2 % 100));
            }
        }
        let ids = hot.ids();
        assert!(ids.len() <= IDS_MAX);
        let first: std::collections::BTreeSet<_> = ids[..100].iter().cloned().collect();
        assert_eq!(first, (0..100).map(id).collect());
    }

    #[test]
    fn memory_is_bounded_by_bytes_too() {
        let hot = Hot::default();
        for number in 0..100_000_usize {
            hot.count(&Bytes::from([&number.to_be_bytes()[..], &[0; 1_000]].concat()));
        }
        let counts = hot.0.lock();
        assert!(counts.bytes <= BYTES_MAX && counts.bytes == counts.ids.keys().map(Bytes::len).sum::<usize>());
    }
}
