//! Single steps: put, remove, compare-and-write, require.

use std::sync::Arc;
use std::time::Duration;

use super::{Shortcuts, Subject, bytes, call, guard, put, remove, row, write_head};
use crate::{Clock, Condition, Expect, NewRow, Outcome, PlainRows, Removal, Row, Scan, Stamp, Step, Store, Table};

fn require(sort: &str, condition: Condition) -> Step {
    Step::Require { table: Table::Objects, partition: bytes("p"), sort: bytes(sort), condition }
}

/// A writer that does not know whether its rows were written may write them again.
pub async fn putting_a_row_again_changes_nothing(subject: &mut impl Subject) {
    let store = subject.store();
    for _ in 0..3 {
        store.applied(vec![put("p", vec![row("a", "one"), row("b", "two")])]).await;
    }
    assert_eq!(store.sorts(b"p").await, ["a", "b"]);
    assert_eq!(store.value("p", "a").await, Some(bytes("one")));
}

/// Value and expiry are those of the later put, in every kind of read. That holds for each table of
/// replaced rows.
pub async fn a_put_replaces_the_row_in_a_table_of_replaced_rows(subject: &mut impl Subject) {
    let store = subject.store();
    let replaced = Table::ALL.into_iter().filter(|table| table.info().plain_rows == PlainRows::Replaced);
    for table in replaced {
        let soon = subject.clock().now().plus(Duration::from_secs(60));
        let expires_at = table.info().may_expire.then_some(soon);
        // From more bytes to fewer, and back.
        let rows = [("longer than the next", None), ("next", expires_at), ("and again", None)];
        for (value, expires_at) in rows {
            let put = NewRow { expires_at, ..row("a", value) };
            store.applied(vec![Step::Put { table, partition: bytes("p"), rows: vec![put] }]).await;
            let expected = Row { sort: bytes("a"), value: bytes(value), guard: None, expires_at };
            assert_eq!(reads(&store, table, "a").await, [Some(expected.clone()), Some(expected)], "{table}");
        }
        subject.clock().advance(Duration::from_secs(60));
        assert!(reads(&store, table, "a").await[0].is_some(), "{table}: the expiry was not replaced");
    }
}

/// Which of two rows is kept is the engine's choice, but all reads return that one, whole.
pub async fn a_row_that_is_written_once_is_never_a_mixture(subject: &mut impl Subject) {
    let store = subject.store();
    let once = |table: &Table| table.info().plain_rows == PlainRows::WrittenOnce && *table != Table::Contents;
    for table in Table::ALL.into_iter().filter(once) {
        for value in ["one", "another"] {
            let rows = vec![row("a", value)];
            store.applied(vec![Step::Put { table, partition: bytes("p"), rows }]).await;
        }
        let [alone, scanned] = reads(&store, table, "a").await;
        assert_eq!(alone, scanned, "{table}");
        let value = alone.unwrap().value;
        assert!(value == bytes("one") || value == bytes("another"), "{table}: {value:?}");
    }
}

/// A row of partition `p` as each kind of read returns it.
async fn reads(store: &Arc<dyn Store>, table: Table, sort: &str) -> [Option<Row>; 2] {
    let (partition, sort) = (bytes("p"), bytes(sort));
    let alone = store.get(call().strong(), table, &partition, &sort).await.unwrap();
    let page = store.scan(call().strong(), table, &partition, Scan::prefix(sort, 1)).await.unwrap();
    [alone, page.rows.into_iter().next()]
}

/// Only the named rows are removed.
pub async fn removed_rows_are_gone(subject: &mut impl Subject) {
    let store = subject.store();
    for partition in ["p", "q"] {
        store.applied(vec![put(partition, vec![row("a", ""), row("b", ""), row("c", "")])]).await;
    }
    store.applied(vec![remove("p", Removal::Rows(vec![bytes("a"), bytes("c")]))]).await;
    assert_eq!(store.sorts(b"p").await, ["b"]);
    assert_eq!(store.row("p", "a").await, None);
    assert_eq!(store.sorts(b"q").await, ["a", "b", "c"]);
}

/// The range includes `from` and excludes `to`, or ends with the partition.
pub async fn removing_a_range_removes_the_rows_in_it(subject: &mut impl Subject) {
    let store = subject.store();
    for partition in ["o", "p", "q"] {
        store.applied(vec![put(partition, ["a", "b", "c", "d"].map(|sort| row(sort, "")).to_vec())]).await;
    }
    store.applied(vec![remove("p", Removal::Range(bytes("b"), Some(bytes("d"))))]).await;
    assert_eq!(store.sorts(b"p").await, ["a", "d"]);
    store.applied(vec![remove("p", Removal::Range(bytes(""), None))]).await;
    assert!(store.sorts(b"p").await.is_empty());
    assert_eq!(store.sorts(b"o").await.len() + store.sorts(b"q").await.len(), 8, "neighbours lost rows");
}

/// That holds for names and for ranges.
pub async fn removing_an_absent_row_is_no_error(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![remove("p", Removal::Rows(vec![bytes("a")]))]).await;
    store.applied(vec![remove("p", Removal::Range(bytes("a"), None))]).await;
    store.applied(vec![remove("p", Removal::Range(bytes("b"), Some(bytes("a"))))]).await;
}

/// A removal is over when it is acknowledged.
pub async fn a_removed_row_can_be_put_again(subject: &mut impl Subject) {
    let store = subject.store();
    for _ in 0..3 {
        store.applied(vec![put("p", vec![row("a", "one")])]).await;
        assert_eq!(store.value("p", "a").await, Some(bytes("one")));
        store.applied(vec![remove("p", Removal::Rows(vec![bytes("a")]))]).await;
        assert_eq!(store.value("p", "a").await, None);
    }
}

/// A head is never removed: only compare-and-write changes it.
pub async fn removals_leave_guarded_rows(subject: &mut impl Subject) {
    let store = subject.store();
    let made = guard("");
    store.applied(vec![write_head("p", Expect::Absent, &made, "v"), put("p", vec![row("a", ""), row("z", "")])]).await;
    store.applied(vec![remove("p", Removal::Rows(vec![bytes("head")]))]).await;
    store.applied(vec![remove("p", Removal::Range(bytes(""), None))]).await;
    assert_eq!(store.sorts(b"p").await, ["head"]);
    assert_eq!(store.row("p", "head").await.and_then(|row| row.guard), Some(made));
}

/// It has its guard and its value.
pub async fn a_head_is_made_where_there_is_none(subject: &mut impl Subject) {
    let store = subject.store();
    let made = guard("live");
    store.applied(vec![write_head("p", Expect::Absent, &made, "v1")]).await;
    let head = Row { sort: bytes("head"), value: bytes("v1"), guard: Some(made), expires_at: None };
    assert_eq!(store.row("p", "head").await, Some(head.clone()));
    let page = store.page(b"p", crate::Scan::prefix(bytes("head"), 1000)).await;
    assert_eq!(page.rows, [head], "a scan shows another guard than a get");
}

/// The second creator is refused and gets the first one's row.
pub async fn a_head_is_not_made_twice(subject: &mut impl Subject) {
    let store = subject.store();
    let first = guard("first");
    store.applied(vec![write_head("p", Expect::Absent, &first, "v1")]).await;
    let (step, current) = store.refused(vec![write_head("p", Expect::Absent, &guard("second"), "v2")]).await;
    assert_eq!(step, 0);
    assert_eq!(current, Some(Row { sort: bytes("head"), value: bytes("v1"), guard: Some(first), expires_at: None }));
    assert_eq!(store.value("p", "head").await, Some(bytes("v1")));
}

/// It then carries the new stamp.
pub async fn a_head_changes_only_from_the_expected_stamp(subject: &mut impl Subject) {
    let store = subject.store();
    let (first, second) = (guard("1"), guard("2"));
    store.applied(vec![write_head("p", Expect::Absent, &first, "v1")]).await;
    store.applied(vec![write_head("p", Expect::Stamp(first.stamp), &second, "v2")]).await;
    let (_, current) = store.refused(vec![write_head("p", Expect::Stamp(first.stamp), &guard("3"), "v3")]).await;
    assert_eq!(current.and_then(|row| row.guard), Some(second.clone()));
    let head = store.row("p", "head").await.unwrap();
    assert_eq!((head.value, head.guard), (bytes("v2"), Some(second)));
}

/// There is nothing to compare with.
pub async fn a_head_expected_where_there_is_none_is_refused(subject: &mut impl Subject) {
    let store = subject.store();
    let (_, current) = store.refused(vec![write_head("p", Expect::Stamp(Stamp::fresh()), &guard(""), "v")]).await;
    assert_eq!(current, None);
    assert_eq!(store.row("p", "head").await, None);
}

/// A plain row has no stamp and no tag, so it meets no expectation of either.
pub async fn a_plain_row_does_not_pass_for_a_head(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", vec![row("head", "plain")])]).await;
    store.refused(vec![write_head("p", Expect::Stamp(Stamp([0; 16])), &guard(""), "v")]).await;
    store.refused(vec![require("head", Condition::Tag(bytes("")))]).await;
    assert_eq!(store.value("p", "head").await, Some(bytes("plain")));
}

/// That holds for plain and guarded rows.
pub async fn require_absent_and_present(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![require("a", Condition::Absent), require("head", Condition::Absent)]).await;
    assert_eq!(store.refused(vec![require("a", Condition::Present)]).await, (0, None));
    store.applied(vec![put("p", vec![row("a", "v")]), write_head("p", Expect::Absent, &guard(""), "v")]).await;
    store.applied(vec![require("a", Condition::Present), require("head", Condition::Present)]).await;
    let (step, current) = store.refused(vec![require("a", Condition::Present), require("a", Condition::Absent)]).await;
    assert_eq!((step, current.map(|row| row.value)), (1, Some(bytes("v"))));
}

/// Only the stored stamp meets the condition.
pub async fn require_a_stamp(subject: &mut impl Subject) {
    let store = subject.store();
    let made = guard("");
    store.refused(vec![require("head", Condition::Stamp(made.stamp))]).await;
    store.applied(vec![write_head("p", Expect::Absent, &made, "v")]).await;
    store.applied(vec![require("head", Condition::Stamp(made.stamp))]).await;
    store.refused(vec![require("head", Condition::Stamp(Stamp::fresh()))]).await;
}

/// The condition compares the whole tag, including empty tags and tags of all bytes.
pub async fn require_a_tag(subject: &mut impl Subject) {
    let store = subject.store();
    let mut current = guard("live");
    store.refused(vec![require("head", Condition::Tag(bytes("live")))]).await;
    store.applied(vec![write_head("p", Expect::Absent, &current, "v")]).await;
    store.applied(vec![require("head", Condition::Tag(bytes("live")))]).await;
    for other in ["", "liv", "live ", "deleted"] {
        store.refused(vec![require("head", Condition::Tag(bytes(other)))]).await;
    }
    for tag in [&b""[..], &[0; 64], &[0xFF; 64]] {
        let next = crate::Guard { stamp: Stamp::fresh(), tag: bytes(tag) };
        store.applied(vec![write_head("p", Expect::Stamp(current.stamp), &next, "v")]).await;
        store.applied(vec![require("head", Condition::Tag(bytes(tag)))]).await;
        store.refused(vec![require("head", Condition::Tag(bytes("live")))]).await;
        current = next;
    }
}

async fn increment(store: Arc<dyn Store>, times: u64) {
    let mut done = 0;
    while done < times {
        let head = store.row("p", "head").await;
        let (expect, count) = match &head {
            None => (Expect::Absent, 0),
            Some(head) => (
                Expect::Stamp(head.guard.as_ref().unwrap().stamp),
                u64::from_be_bytes(head.value[..].try_into().unwrap()),
            ),
        };
        let step = write_head("p", expect, &guard(""), (count + 1).to_be_bytes());
        match store.run(call(), vec![step]).await.unwrap() {
            Outcome::Applied => done += 1,
            Outcome::Refused { current, .. } => assert_ne!(current, head, "refused although the head was as expected"),
            Outcome::Unknown { reason } => panic!("unknown without a fault: {reason}"),
        }
    }
}

/// Each of many writers adds to one counter; no addition is lost and none is applied twice.
pub async fn contended_writers_count_exactly(subject: &mut impl Subject) {
    let store = subject.store();
    let (writers, times) = (16, 12);
    let tasks: Vec<_> = (0..writers).map(|_| tokio::spawn(increment(store.clone(), times))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let head = store.row("p", "head").await.unwrap();
    assert_eq!(u64::from_be_bytes(head.value[..].try_into().unwrap()), writers * times);
}

/// While writers are at work: no serial read is older than an earlier one.
pub async fn a_serial_read_finds_all_that_was_decided_before(subject: &mut impl Subject) {
    let store = subject.store();
    let (writers, times) = (3, 8);
    let tasks: Vec<_> = (0..writers).map(|_| tokio::spawn(increment(store.clone(), times))).collect();
    let mut count = 0;
    while count < writers * times {
        let head = store.get(call().serial(), Table::Objects, &bytes("p"), &bytes("head")).await.unwrap();
        let shown = head.map_or(0, |head| u64::from_be_bytes(head.value[..].try_into().unwrap()));
        assert!(shown >= count, "a serial read went back from {count} to {shown}");
        count = shown;
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// Exactly one wins, and its value is stored.
pub async fn one_of_many_creators_wins(subject: &mut impl Subject) {
    let store = subject.store();
    let creators = (0..32).map(|number: u32| {
        let store = store.clone();
        tokio::spawn(async move {
            let step = write_head("p", Expect::Absent, &guard(""), number.to_be_bytes());
            store.run(call(), vec![step]).await.unwrap().is_applied().then_some(number)
        })
    });
    let mut winners = Vec::new();
    for creator in creators.collect::<Vec<_>>() {
        winners.extend(creator.await.unwrap());
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(store.value("p", "head").await, Some(bytes(winners[0].to_be_bytes())));
}
