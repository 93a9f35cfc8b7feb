//! The limits of a store that enforces them.

use super::{Shortcuts, Subject, bytes, call, guard, put, row, write_head};
use crate::{Clock, Condition, Expect, Guard, NewRow, Stamp, Step, StoreError, Table};

async fn assert_over_limit(subject: &impl Subject, steps: Vec<Step>, expected: (usize, usize)) {
    match subject.store().run(call(), steps).await {
        Err(StoreError::Limit { actual, max, what }) => {
            assert_eq!((actual, max), (expected.0 as u64, expected.1 as u64), "{what}");
        }
        answer => panic!("over a limit, but {answer:?}"),
    }
}

/// A size equal to the limit is allowed.
pub async fn a_size_at_its_limit_is_accepted(subject: &mut impl Subject) {
    let store = subject.store();
    let limits = store.limits();
    let key = vec![b'k'; limits.key_bytes];
    store.applied(vec![put(&key, vec![row(&key, vec![7; limits.value_bytes])])]).await;
    let full = Guard { stamp: Stamp::fresh(), tag: bytes(vec![7; limits.tag_bytes]) };
    store.applied(vec![write_head("p", Expect::Absent, &full, "")]).await;
    let steps = (0..limits.steps).map(|number| put("s", vec![row(number.to_be_bytes(), "")]));
    store.applied(steps.collect()).await;
    let rows = (0..limits.step_rows).map(|number| row(number.to_be_bytes(), ""));
    store.applied(vec![put("r", rows.collect())]).await;
}

/// The error names the size and the limit.
pub async fn a_value_over_its_limit_is_refused_and_named(subject: &mut impl Subject) {
    let max = subject.store().limits().value_bytes;
    let value = vec![7; max + 1];
    assert_over_limit(subject, vec![put("p", vec![row("a", &value)])], (max + 1, max)).await;
    assert_over_limit(subject, vec![write_head("p", Expect::Absent, &guard(""), &value)], (max + 1, max)).await;
}

/// That holds for keys of partitions and rows, in writes and in conditions.
pub async fn a_key_over_its_limit_is_refused(subject: &mut impl Subject) {
    let max = subject.store().limits().key_bytes;
    let key = vec![b'k'; max + 1];
    assert_over_limit(subject, vec![put(&key, vec![row("a", "")])], (max + 1, max)).await;
    assert_over_limit(subject, vec![put("p", vec![row(&key, "")])], (max + 1, max)).await;
    let require =
        Step::Require { table: Table::Objects, partition: bytes("p"), sort: bytes(&key), condition: Condition::Absent };
    assert_over_limit(subject, vec![require], (max + 1, max)).await;
}

/// The tag is that of a head.
pub async fn a_tag_over_its_limit_is_refused(subject: &mut impl Subject) {
    let max = subject.store().limits().tag_bytes;
    let long = Guard { stamp: Stamp::fresh(), tag: bytes(vec![7; max + 1]) };
    assert_over_limit(subject, vec![write_head("p", Expect::Absent, &long, "")], (max + 1, max)).await;
}

/// Each value is within its limit. Keys (of 8 bytes here) and values count.
pub async fn a_step_of_too_many_bytes_is_refused(subject: &mut impl Subject) {
    let limits = subject.store().limits();
    let count = limits.step_bytes / limits.value_bytes;
    let rows = (0..count).map(|number| row(number.to_be_bytes(), vec![7; limits.value_bytes])).collect();
    let actual = count * (limits.value_bytes + 8);
    assert_over_limit(subject, vec![put("p", rows)], (actual, limits.step_bytes)).await;
}

/// That holds however small the rows are.
pub async fn a_step_of_too_many_rows_is_refused(subject: &mut impl Subject) {
    let max = subject.store().limits().step_rows;
    let rows = (0..=max).map(|number| row(number.to_be_bytes(), "")).collect();
    assert_over_limit(subject, vec![put("p", rows)], (max + 1, max)).await;
}

/// That holds however small the steps are.
pub async fn a_list_of_too_many_steps_is_refused(subject: &mut impl Subject) {
    let max = subject.store().limits().steps;
    let steps = (0..=max).map(|_| put("p", vec![row("a", "")])).collect();
    assert_over_limit(subject, steps, (max + 1, max)).await;
}

/// In all other tables rows may expire.
pub async fn an_expiry_in_a_table_of_lasting_rows_is_refused(subject: &mut impl Subject) {
    let store = subject.store();
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Contents) {
        let expiring = NewRow { expires_at: Some(subject.clock().now()), ..row("b", "v") };
        let put = |rows| Step::Put { table, partition: bytes("p"), rows };
        let outcome = store.run(call(), vec![put(vec![row("a", "v")]), put(vec![expiring])]).await;
        let found = store.get(call(), table, &bytes("p"), &bytes("a")).await.unwrap();
        match table.info().may_expire {
            true => assert!(outcome.unwrap().is_applied() && found.is_some(), "{table}"),
            false => assert!(matches!(outcome, Err(StoreError::Invalid(_))) && found.is_none(), "{table}"),
        }
    }
}

/// Not even the steps before the one over the limit are applied.
pub async fn a_list_over_a_limit_applies_nothing(subject: &mut impl Subject) {
    let store = subject.store();
    let value = vec![7; store.limits().value_bytes + 1];
    let steps = vec![put("p", vec![row("a", "v")]), put("p", vec![row("b", &value)])];
    store.run(call(), steps).await.unwrap_err();
    assert!(store.sorts(b"p").await.is_empty());
}
