//! Where walks over all records are. A client gets a number for each place, as in Redis.

use bytes::Bytes;
use indexmap::IndexMap;
use parking_lot::Mutex;

/// So many places are known at once. The oldest is forgotten.
const KNOWN_MAX: usize = 10_000;

/// Every number up to this one is exact in JavaScript.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The places of all walks of a server.
#[derive(Default)]
pub(crate) struct Cursors(Mutex<IndexMap<u64, Bytes>>);

impl Cursors {
    /// The number of a place.
    pub(crate) fn number_of(&self, place: Bytes) -> u64 {
        let mut known = self.0.lock();
        if known.len() >= KNOWN_MAX {
            known.shift_remove_index(0);
        }
        loop {
            let number = rand::random_range(1..=NUMBER_MAX);
            if !known.contains_key(&number) {
                known.insert(number, place);
                return number;
            }
        }
    }

    /// The place of a number; `None`: it is not known, or not any more.
    pub(crate) fn place_of(&self, number: u64) -> Option<Bytes> {
        self.0.lock().get(&number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_place_is_forgotten() {
        let cursors = Cursors::default();
        let first = cursors.number_of(Bytes::from_static(b"first"));
        assert_eq!(cursors.place_of(first).as_deref(), Some(&b"first"[..]));
        let last = (0..KNOWN_MAX).map(|_| cursors.number_of(Bytes::from_static(b"other"))).last();
        assert_eq!(cursors.place_of(first), None);
        assert_eq!(last.and_then(|last| cursors.place_of(last)).as_deref(), Some(&b"other"[..]));
        assert_eq!(cursors.0.lock().len(), KNOWN_MAX);
    }
}
