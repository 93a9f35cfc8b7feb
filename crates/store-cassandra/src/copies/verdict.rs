//! Which copies of a row are wrong.

use bytes::Bytes;

/// The key of a row, in the order in which nodes keep rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) token: i64,
    pub(super) partition: Bytes,
    /// A number sorts rows of large contents, as Cassandra does; it is 0 for all others.
    pub(super) number: i32,
    pub(super) sort: Bytes,
}

/// A row as one node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundRow {
    /// A sum of everything in it.
    pub(super) sum: u64,
    /// When it was written, in microseconds; `None` if nothing is left of it but its key.
    pub(super) written_us: Option<i64>,
    /// Whether its seal holds.
    pub(super) is_whole: bool,
}

/// What is wrong with a copy of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Damaged,
    Conflict,
    Outdated,
    Missing,
}

/// The faults of all copies of a row, of which `None` is absent.
///
/// A value that is damaged keeps its write time. So damage shows as two values of one write time.
/// The seal shows which of them is damaged, unless both seals hold, or neither.
pub(super) fn faults(copies: &[Option<FoundRow>]) -> Vec<Option<Fault>> {
    let newest_us = copies.iter().flatten().map(|row| row.written_us).max();
    let newest = || copies.iter().flatten().filter(|row| Some(row.written_us) == newest_us);
    let is_one_value = all_same(newest());
    let (is_any_whole, are_whole_the_same) =
        (newest().any(|row| row.is_whole), all_same(newest().filter(|row| row.is_whole)));
    let fault = |copy: &Option<FoundRow>| match copy {
        None => Some(Fault::Missing),
        Some(row) if Some(row.written_us) != newest_us => Some(Fault::Outdated),
        Some(_) if is_one_value => None,
        Some(row) if is_any_whole && are_whole_the_same => (!row.is_whole).then_some(Fault::Damaged),
        Some(_) => Some(Fault::Conflict),
    };
    copies.iter().map(fault).collect()
}

fn all_same<'a>(mut rows: impl Iterator<Item = &'a FoundRow>) -> bool {
    let first = rows.next();
    rows.all(|row| Some(row.sum) == first.map(|first| first.sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(sum: u64, written_us: i64, is_whole: bool) -> Option<FoundRow> {
        Some(FoundRow { sum, written_us: Some(written_us), is_whole })
    }

    #[test]
    fn copies_that_are_the_same_have_no_fault_whole_or_not() {
        let same = vec![row(1, 10, true), row(1, 10, true), row(1, 10, true)];
        assert_eq!(faults(&same), [None, None, None]);
        // Some rows have no seal. What is damaged in all copies, `penates verify` finds.
        assert_eq!(faults(&[row(1, 10, false), row(1, 10, false)]), [None, None]);
        assert_eq!(faults(&[row(1, 10, true)]), [None]);
    }

    #[test]
    fn of_two_values_of_one_time_the_seal_names_the_damaged_one() {
        let damaged = [row(1, 10, true), row(2, 10, false), row(1, 10, true)];
        assert_eq!(faults(&damaged), [None, Some(Fault::Damaged), None]);
        let two_damaged = [row(1, 10, true), row(2, 10, false), row(3, 10, false)];
        assert_eq!(faults(&two_damaged), [None, Some(Fault::Damaged), Some(Fault::Damaged)]);
    }

    #[test]
    fn without_the_help_of_a_seal_values_of_one_time_are_a_conflict_of_all() {
        for is_whole in [true, false] {
            let conflict = [row(1, 10, is_whole), row(2, 10, is_whole)];
            assert_eq!(faults(&conflict), [Some(Fault::Conflict), Some(Fault::Conflict)]);
        }
    }

    #[test]
    fn an_older_value_is_outdated_and_an_absent_row_is_missing() {
        let behind = [row(1, 10, true), row(2, 11, true), None];
        assert_eq!(faults(&behind), [Some(Fault::Outdated), None, Some(Fault::Missing)]);
        // Damage of what is out of date is repaired with it.
        assert_eq!(faults(&[row(1, 10, false), row(2, 11, true)]), [Some(Fault::Outdated), None]);
    }

    #[test]
    fn keys_are_in_the_order_in_which_nodes_keep_rows() {
        let key = |token, partition: &'static [u8], number, sort: &'static [u8]| RowKey {
            token,
            partition: Bytes::from_static(partition),
            number,
            sort: Bytes::from_static(sort),
        };
        let ordered = [
            key(-5, b"z", 0, b"z"),
            key(3, b"a", -1, b""),
            key(3, b"a", 0, b""),
            key(3, b"a", 0, b"\x01"),
            key(3, b"a", 0, b"\x01\0"),
            key(3, b"a", 0, b"\xff"),
            key(3, b"a\0", 0, b""),
        ];
        assert!(ordered.is_sorted());
    }
}
