//! What a sweep cannot read: it goes on behind that, and reports it at its end.

use store::{StoreError, StoreResult};

/// What a sweep left out.
#[derive(Default)]
pub(crate) struct Unread {
    /// Rows, and places of a table behind which the sweep continued.
    count: u64,
    /// Why the first of them could not be read.
    first: Option<StoreError>,
}

impl Unread {
    /// Takes note of a row or a place.
    pub(crate) fn add(&mut self, error: StoreError) {
        self.count += 1;
        self.first.get_or_insert(error);
    }

    /// Whether nothing was left out.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes over what another one has noted.
    pub(crate) fn append(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }

    /// Logs it, if there is something. `of` names what was swept.
    pub(crate) fn report(&self, of: &str) {
        if let Some(error) = &self.first {
            tracing::warn!(of, places = self.count, %error, "a sweep left out what cannot be read");
        }
    }
}

/// Whether a read succeeds; an error if it fails for another reason than damage.
pub(crate) fn is_readable<T>(read: StoreResult<T>) -> StoreResult<bool> {
    match read {
        Ok(_) => Ok(true),
        Err(StoreError::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where to continue behind a place that cannot be read: keys that begin with the returned eight
/// bytes come behind it. `after` is the last key before it, or empty. `is_readable` says whether
/// the first key can be read that is not before the given bytes. `None`: nothing behind it can be.
///
/// Of a broken block only its neighbours are known, so the place is sought. It is looked for near
/// `after` first, because there may be other broken blocks behind it.
pub(crate) fn behind(after: &[u8], is_readable: impl Fn([u8; 8]) -> StoreResult<bool>) -> StoreResult<Option<[u8; 8]>> {
    let mut head = [0; 8];
    head.iter_mut().zip(after).for_each(|(to, from)| *to = *from);
    let (mut before, mut distance) = (u64::from_be_bytes(head), 1_u64);
    let mut behind = loop {
        let place = before.saturating_add(distance);
        if is_readable(place.to_be_bytes())? {
            break place;
        }
        if place == u64::MAX {
            return Ok(None);
        }
        (before, distance) = (place, distance.saturating_mul(2));
    };
    while behind - before > 1 {
        let middle = before + (behind - before) / 2;
        match is_readable(middle.to_be_bytes())? {
            true => behind = middle,
            false => before = middle,
        }
    }
    Ok(Some(behind.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::RangeInclusive;

    use store::Table;

    use super::*;

    /// The place of keys that begin with the byte 0x80.
    const HALF: u64 = 1 << 63;

    /// Where a sweep continues after a key, if some places cannot be read.
    fn found(after: &[u8], broken: &[RangeInclusive<u64>]) -> Option<u64> {
        let is_readable = |place| Ok(!broken.iter().any(|range| range.contains(&u64::from_be_bytes(place))));
        behind(after, is_readable).unwrap().map(u64::from_be_bytes)
    }

    #[test]
    fn the_first_readable_place_is_found_and_no_broken_place_behind_it_matters() {
        let key = |place: u64| [&place.to_be_bytes()[..], b"rest of the key"].concat();
        assert_eq!(found(b"", &[0..=6]), Some(7));
        assert_eq!(found(&key(1_000), &[1_000..=1_999]), Some(2_000));
        assert_eq!(found(&key(1_000), &[1_000..=1_999, 5_000..=90_000]), Some(2_000));
        assert_eq!(found(&key(1_000), &[]), Some(1_001));
        assert_eq!(found(&[0x80], &[HALF..=HALF + 9]), Some(HALF + 10));
        assert_eq!(found(&key(3), &[3..=u64::MAX - 1]), Some(u64::MAX));
        assert_eq!(found(&key(3), &[3..=u64::MAX]), None);
        assert_eq!(found(&key(u64::MAX), &[3..=u64::MAX]), None);
    }

    #[test]
    fn only_damage_is_passed_over() {
        let corrupt = || StoreError::Corrupt { table: Table::Contents, detail: String::new() };
        assert!(is_readable(Ok(())).unwrap());
        assert!(!is_readable::<()>(Err(corrupt())).unwrap());
        assert!(matches!(is_readable::<()>(Err(StoreError::DeadlinePassed)), Err(StoreError::DeadlinePassed)));
        let late = behind(b"", |_| Err(StoreError::DeadlinePassed));
        assert!(matches!(late, Err(StoreError::DeadlinePassed)));
    }
}
