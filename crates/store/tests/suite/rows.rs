//! Reading rows: order, ranges, pages, odd keys, many at once, walks.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{Shortcuts, Subject, all_rows, bytes, call, odd_keys, put, row, whole};
use crate::{Call, Class, Deadline, Direction, Removal, Row, Scan, Step, StoreError, Table};

fn numbered(count: usize, value: &[u8]) -> Vec<crate::NewRow> {
    (0..count).map(|number| row(format!("{number:04}"), value)).collect()
}

fn sorts(rows: &[Row]) -> Vec<Bytes> {
    rows.iter().map(|row| row.sort.clone()).collect()
}

/// A row that was put is read back; one that was not is absent.
pub async fn a_row_that_was_put_is_read_back(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", vec![row("a", "one")])]).await;
    let found = store.row("p", "a").await.unwrap();
    assert_eq!(found, Row { sort: bytes("a"), value: bytes("one"), guard: None, expires_at: None });
    assert_eq!(store.row("p", "b").await, None);
    assert_eq!(store.row("q", "a").await, None);
}

/// The store does not interpret values: empty ones, all bytes, and the largest allowed.
pub async fn values_are_kept_byte_for_byte(subject: &mut impl Subject) {
    let store = subject.store();
    let largest = store.limits().value_bytes;
    let values = [Vec::new(), (0..=255).collect(), vec![0; 1000], (0..largest).map(|at| (at * 7) as u8).collect()];
    for (number, value) in values.iter().enumerate() {
        store.applied(vec![put("p", vec![row(format!("{number}"), value)])]).await;
    }
    for (number, value) in values.iter().enumerate() {
        assert!(
            store.value("p", &format!("{number}")).await.unwrap() == value[..],
            "value {number} is not what was put"
        );
    }
}

/// Each range has the same page as alone, in the order asked for. Empty and repeated ranges are
/// allowed.
pub async fn many_ranges_are_returned_in_the_order_asked_for(subject: &mut impl Subject) {
    let store = subject.store();
    let packs = Step::Put { table: Table::Packs, partition: bytes("p"), rows: numbered(3, b"pack") };
    store.applied(vec![put("p", numbered(9, b"value")), put("q", numbered(2, b"other")), packs]).await;
    let scan = |max_bytes| Scan::prefix("", max_bytes);
    let asked = vec![
        (Table::Objects, bytes("q"), scan(1 << 20)),
        (Table::Packs, bytes("p"), scan(1 << 20)),
        (Table::Objects, bytes("p"), scan(20)),
        (Table::Objects, bytes("nobody"), scan(1 << 20)),
        (Table::Objects, bytes("q"), scan(1 << 20)),
    ];
    let pages = store.scan_many(call(), asked.clone()).await.unwrap();
    assert_eq!(pages.len(), asked.len());
    for ((table, partition, scan), page) in asked.into_iter().zip(pages) {
        let alone = store.scan(call(), table, &partition, scan).await.unwrap();
        assert_eq!((page.rows, page.next), (alone.rows, alone.next), "{table} {partition:?}");
    }
    assert!(store.scan_many(call(), Vec::new()).await.unwrap().is_empty());
}

/// The same key in two tables names two rows.
pub async fn tables_are_separate(subject: &mut impl Subject) {
    let store = subject.store();
    for table in [Table::Objects, Table::Audit] {
        let rows = vec![row("s", table.name())];
        store.applied(vec![Step::Put { table, partition: bytes("p"), rows }]).await;
    }
    for (table, value) in [(Table::Objects, Some("objects")), (Table::Audit, Some("audit")), (Table::Work, None)] {
        let found = store.get(call(), table, &bytes("p"), &bytes("s")).await.unwrap();
        assert_eq!(found.map(|row| row.value), value.map(bytes));
    }
}

/// The order is that of the bytes of the sort keys, whatever the order of the puts.
pub async fn rows_come_in_the_order_of_their_sort_keys(subject: &mut impl Subject) {
    let store = subject.store();
    for sort in ["c", "a", "bb", "b"] {
        store.applied(vec![put("p", vec![row(sort, "")])]).await;
    }
    assert_eq!(store.sorts(b"p").await, ["a", "b", "bb", "c"]);
}

/// Backward is forward from the other end.
pub async fn rows_come_backwards_when_asked(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", vec![row("a", ""), row("b", ""), row("c", "")])]).await;
    let page = store.page(b"p", whole(Direction::Backward, 1 << 20)).await;
    assert_eq!(sorts(&page.rows), ["c", "b", "a"]);
}

/// The range includes `from` and excludes `to`, in both directions.
pub async fn a_range_begins_with_its_first_key_and_ends_before_its_last(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", numbered(5, b""))]).await;
    let range = |direction| Scan { from: bytes("0001"), to: Some(bytes("0003")), direction, max_bytes: 1 << 20 };
    assert_eq!(sorts(&store.page(b"p", range(Direction::Forward)).await.rows), ["0001", "0002"]);
    assert_eq!(sorts(&store.page(b"p", range(Direction::Backward)).await.rows), ["0002", "0001"]);
}

/// Ranges that cannot contain a key are empty, not errors.
pub async fn a_range_without_keys_is_empty(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", numbered(3, b""))]).await;
    for (from, to) in [("0001", "0001"), ("0002", "0001"), ("", ""), ("0003", "9")] {
        for direction in [Direction::Forward, Direction::Backward] {
            let scan = Scan { from: bytes(from), to: Some(bytes(to)), direction, max_bytes: 1 << 20 };
            let page = store.page(b"p", scan).await;
            assert!(page.rows.is_empty() && page.next.is_none(), "from {from:?} to {to:?}: {page:?}");
        }
    }
}

/// The scan returns all rows that begin with the prefix, even if the prefix has no successor.
pub async fn a_prefix_finds_every_key_that_begins_with_it(subject: &mut impl Subject) {
    let store = subject.store();
    let keys: [&[u8]; 6] = [b"a", b"ab", b"ab\xFF", b"ac", b"\xFF", b"\xFF\xFFx"];
    store.applied(vec![put("p", keys.iter().map(|key| row(key, "")).collect())]).await;
    let found = async |prefix: &[u8]| sorts(&store.page(b"p", Scan::prefix(bytes(prefix), 1 << 20)).await.rows);
    assert_eq!(found(b"ab").await, [&b"ab"[..], b"ab\xFF"]);
    assert_eq!(found(b"\xFF").await, [&b"\xFF"[..], b"\xFF\xFFx"]);
    assert_eq!(found(b"\xFF\xFF").await, [&b"\xFF\xFFx"[..]]);
    assert_eq!(found(b"x").await, [&b""[..]; 0]);
}

/// Keys (of 4 bytes) and values (of 96) count.
pub async fn a_page_ends_with_the_row_that_reaches_its_bytes(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", numbered(10, &[7; 96]))]).await;
    for (max_bytes, rows) in [(99, 1), (100, 1), (101, 2), (300, 3), (301, 4), (901, 10), (100_000, 10)] {
        for direction in [Direction::Forward, Direction::Backward] {
            let page = store.page(b"p", whole(direction, max_bytes)).await;
            assert_eq!(page.rows.len(), rows, "a page of {max_bytes} bytes");
        }
    }
}

/// Even a page of no bytes makes progress.
pub async fn a_page_holds_a_row_however_few_its_bytes(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", numbered(3, &[7; 5000]))]).await;
    for max_bytes in [0, 1] {
        assert_eq!(store.page(b"p", whole(Direction::Forward, max_bytes)).await.rows.len(), 1);
        assert_eq!(all_rows(&store, b"p", whole(Direction::Backward, max_bytes)).await.len(), 3);
    }
}

/// That holds for any size of page.
pub async fn pages_visit_each_row_once_forward_and_backward(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", numbered(50, &[7; 20]))]).await;
    let mut expected: Vec<Bytes> = (0..50).map(|number| bytes(format!("{number:04}"))).collect();
    for max_bytes in [1, 24, 25, 100, 1000, 1200, 5000] {
        let forward = all_rows(&store, b"p", whole(Direction::Forward, max_bytes)).await;
        assert_eq!(sorts(&forward), expected, "forward in pages of {max_bytes} bytes");
        let backward = all_rows(&store, b"p", whole(Direction::Backward, max_bytes)).await;
        expected.reverse();
        assert_eq!(sorts(&backward), expected, "backward in pages of {max_bytes} bytes");
        expected.reverse();
    }
}

/// That holds for an exactly full page too: no reader requests a page that does not exist.
pub async fn the_last_page_says_that_nothing_is_left(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", numbered(3, &[7; 96]))]).await;
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(store.page(b"p", whole(direction, 300)).await.next, None);
        assert!(store.page(b"p", whole(direction, 200)).await.next.is_some());
    }
}

/// Each pair of an odd partition and an odd sort key is a row of its own, and each partition is in
/// order.
pub async fn odd_keys_are_kept_apart_and_in_order(subject: &mut impl Subject) {
    let store = subject.store();
    let keys = odd_keys();
    for (number, partition) in keys.iter().enumerate() {
        let rows = keys.iter().enumerate().map(|(at, sort)| row(sort, format!("{number}/{at}"))).collect();
        store.applied(vec![put(partition, rows)]).await;
    }
    let mut ordered = keys.clone();
    ordered.sort();
    for (number, partition) in keys.iter().enumerate() {
        assert_eq!(store.sorts(partition).await, ordered, "partition {number}");
        for (at, sort) in keys.iter().enumerate() {
            let found = store.get(call(), Table::Objects, partition, sort).await.unwrap().unwrap();
            assert_eq!(found.value, bytes(format!("{number}/{at}")));
            assert_eq!(found.sort, sort);
        }
    }
}

/// A scan to the end of a partition does not continue into a neighbour, however alike their keys
/// are.
pub async fn a_partition_ends_where_the_next_begins(subject: &mut impl Subject) {
    let store = subject.store();
    let keys = odd_keys();
    for partition in &keys {
        store.applied(vec![put(partition, vec![row(partition, "")])]).await;
    }
    for partition in &keys {
        for direction in [Direction::Forward, Direction::Backward] {
            let page = store.page(partition, whole(direction, 1 << 20)).await;
            assert_eq!(sorts(&page.rows), [partition], "partition {partition:?}");
        }
    }
}

/// Absent rows are `None`, and repeated ones are repeated.
pub async fn many_rows_are_returned_in_the_order_asked_for(subject: &mut impl Subject) {
    let store = subject.store();
    for partition in ["p", "q"] {
        store
            .applied(vec![put(partition, vec![row("a", format!("{partition}a")), row("b", format!("{partition}b"))])])
            .await;
    }
    let asked = [("q", "b"), ("p", "a"), ("p", "x"), ("q", "a"), ("x", "a"), ("p", "a")];
    let keys = asked.iter().map(|(partition, sort)| (bytes(partition), bytes(sort))).collect();
    let found = store.get_many(call(), Table::Objects, keys).await.unwrap();
    let values: Vec<Option<Bytes>> = found.into_iter().map(|row| row.map(|row| row.value)).collect();
    let expected = [Some("qb"), Some("pa"), None, Some("qa"), None, Some("pa")];
    assert_eq!(values, expected.map(|value| value.map(bytes)));
    assert!(store.get_many(call(), Table::Objects, Vec::new()).await.unwrap().is_empty());
}

async fn walked(store: &std::sync::Arc<dyn crate::Store>, max: usize) -> Vec<Bytes> {
    let mut partitions = Vec::new();
    let mut from = None;
    loop {
        let page = store.walk(call(), Table::Objects, from, max).await.unwrap();
        assert!(page.partitions.len() <= max, "{} partitions instead of at most {max}", page.partitions.len());
        partitions.extend(page.partitions);
        from = page.next;
        if from.is_none() {
            return partitions;
        }
    }
}

/// That holds for any number of rows and any size of page.
pub async fn a_walk_visits_each_partition_once(subject: &mut impl Subject) {
    let store = subject.store();
    assert!(walked(&store, 5).await.is_empty());
    let keys = odd_keys();
    for (number, partition) in keys.iter().enumerate() {
        store.applied(vec![put(partition, numbered(1 + number % 5, b"v"))]).await;
    }
    let expected: BTreeSet<Bytes> = keys.iter().cloned().collect();
    for max in [1, 2, keys.len(), 1000] {
        let partitions = walked(&store, max).await;
        assert_eq!(partitions.len(), keys.len(), "in pages of {max}");
        assert_eq!(partitions.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

/// A partition whose rows are all removed does not exist.
pub async fn a_walk_passes_over_emptied_partitions(subject: &mut impl Subject) {
    let store = subject.store();
    for partition in ["a", "b", "c"] {
        store.applied(vec![put(partition, numbered(3, b"v"))]).await;
    }
    store.applied(vec![super::remove("b", Removal::Range(Bytes::new(), None))]).await;
    let partitions: BTreeSet<Bytes> = walked(&store, 10).await.into_iter().collect();
    assert_eq!(partitions, BTreeSet::from([bytes("a"), bytes("c")]));
}

/// That holds for any size of page, in rows and in bytes. Other rows of a partition do not matter.
pub async fn a_walk_with_rows_shows_each_row_at_the_empty_sort_key_once(subject: &mut impl Subject) {
    let store = subject.store();
    let keys = odd_keys();
    for (number, partition) in keys.iter().enumerate() {
        store.applied(vec![put(partition, vec![row("", number.to_string()), row("x", "other")])]).await;
    }
    store.applied(vec![put("without one", vec![row("x", "other")])]).await;
    let numbered = keys.iter().enumerate().map(|(number, key)| (key.clone(), bytes(number.to_string())));
    let expected: BTreeSet<(Bytes, Bytes)> = numbered.collect();
    for (max, max_bytes) in [(1, 1 << 20), (1000, 1), (3, 20), (1000, 1 << 20)] {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let page = store.walk_rows(call(), Table::Objects, from, max, max_bytes).await.unwrap();
            assert!(page.rows.len() <= max, "{} rows instead of at most {max}", page.rows.len());
            found.extend(page.rows.into_iter().map(|(partition, row)| (partition, row.value)));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(found.len(), keys.len(), "in pages of {max} rows and {max_bytes} bytes");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

/// It returns neither an absence nor a late answer.
pub async fn a_read_whose_deadline_has_passed_says_so(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", vec![row("a", "")])]).await;
    let late = Call::new(Class::Description, Deadline::within(std::time::Duration::ZERO));
    let (partition, sort) = (bytes("p"), bytes("a"));
    let get = store.get(late, Table::Objects, &partition, &sort).await;
    assert!(matches!(get, Err(StoreError::DeadlinePassed)), "{get:?}");
    let scan = store.scan(late, Table::Objects, &partition, whole(Direction::Forward, 10)).await;
    assert!(matches!(scan, Err(StoreError::DeadlinePassed)), "{scan:?}");
    let walk = store.walk(late, Table::Objects, None, 10).await;
    assert!(matches!(walk, Err(StoreError::DeadlinePassed)), "{walk:?}");
    let rows = store.walk_rows(late, Table::Objects, None, 10, 1000).await;
    assert!(matches!(rows, Err(StoreError::DeadlinePassed)), "{rows:?}");
}
