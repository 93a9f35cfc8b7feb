//! Lists of steps: order, stopping, concurrency, and the promises of engines that run a list as
//! one.

use super::{Shortcuts, Subject, bytes, call, guard, put, remove, row, write_head};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;

use crate::{
    Call, Class, Condition, ContentState, Deadline, Durability, Expect, Lane, Outcome, Removal, Step, Store,
    StoreError, Table,
};

fn require(sort: &str, condition: Condition) -> Step {
    Step::Require { table: Table::Objects, partition: bytes("p"), sort: bytes(sort), condition }
}

/// It has no step that could be refused.
pub async fn an_empty_list_is_applied(subject: &mut impl Subject) {
    subject.store().applied(Vec::new()).await;
}

/// Steps run in order.
pub async fn a_step_sees_the_steps_before_it(subject: &mut impl Subject) {
    let store = subject.store();
    let (first, second) = (guard("1"), guard("2"));
    store
        .applied(vec![
            require("a", Condition::Absent),
            put("p", vec![row("a", "v"), row("b", "v")]),
            require("a", Condition::Present),
            remove("p", Removal::Rows(vec![bytes("a")])),
            require("a", Condition::Absent),
            remove("p", Removal::Range(bytes("b"), None)),
            require("b", Condition::Absent),
            write_head("p", Expect::Absent, &first, "v1"),
            require("head", Condition::Tag(bytes("1"))),
            write_head("p", Expect::Stamp(first.stamp), &second, "v2"),
            put("p", vec![row("a", "again")]),
        ])
        .await;
    assert_eq!(store.sorts(b"p").await, ["a", "head"]);
    assert_eq!(store.value("p", "a").await, Some(bytes("again")));
    assert_eq!(store.row("p", "head").await.and_then(|row| row.guard), Some(second));
}

/// The refused step is named. Neither it nor a later one is applied.
pub async fn a_list_stops_at_the_first_refused_step(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", vec![row("x", "stands")])]).await;
    let (step, current) = store
        .refused(vec![
            put("p", vec![row("a", "v")]),
            require("x", Condition::Absent),
            put("p", vec![row("b", "v")]),
            require("x", Condition::Absent),
            remove("p", Removal::Rows(vec![bytes("x")])),
        ])
        .await;
    assert_eq!((step, current.map(|row| row.value)), (1, Some(bytes("stands"))));
    assert_eq!(store.value("p", "b").await, None);
    assert_eq!(store.value("p", "x").await, Some(bytes("stands")));
}

/// A store that cannot promise a durability names the most that it can, and applies nothing. That
/// holds for rows, heads and contents, and every store gives what tables need.
pub async fn a_write_is_as_durable_as_it_wants_or_refused_by_name(subject: &mut impl Subject) {
    let store = subject.store();
    for wanted in Durability::ALL {
        let partition = format!("{wanted:?}");
        let list = vec![put(&partition, vec![row("a", "v")]), write_head(&partition, Expect::Absent, &guard(""), "v")];
        let ran = store.run(call().durable(wanted), list).await;
        let content = futures::stream::iter([Ok(bytes("content"))]).boxed();
        let stored = store.put_content(call().durable(wanted), bytes("owner"), content).await;
        match ran {
            Ok(outcome) => {
                assert!(outcome.is_applied(), "{wanted:?}: {outcome:?}");
                let header = store.content_header(call(), stored.unwrap()).await.unwrap();
                assert!(header.is_some_and(|header| header.state == ContentState::Sealed), "{wanted:?}");
            }
            Err(StoreError::NotDurable { wanted: named, given }) => {
                assert!(named == wanted && given < wanted && wanted > Durability::Written, "{named:?}, {given:?}");
                assert!(matches!(stored, Err(StoreError::NotDurable { .. })), "{stored:?}");
                assert!(store.sorts(partition.as_bytes()).await.is_empty());
                store.run(call().durable(given), vec![put(&partition, vec![row("a", "v")])]).await.unwrap();
            }
            Err(error) => panic!("{wanted:?}: {error}"),
        }
    }
}

/// Every store takes a write that lets its sync wait, and shows it as soon as it is acknowledged.
pub async fn a_write_that_lets_its_sync_wait_is_seen_at_once(subject: &mut impl Subject) {
    let store = subject.store();
    let late = call().synced_within(Duration::from_secs(3_600));
    for number in 0..20 {
        let sort = format!("{number:02}");
        assert!(store.run(late, vec![put("p", vec![row(&sort, &sort)])]).await.unwrap().is_applied());
        assert_eq!(store.value("p", &sort).await, Some(bytes(&sort)));
    }
    let head = guard("");
    assert!(store.run(late, vec![write_head("p", Expect::Absent, &head, "v")]).await.unwrap().is_applied());
    store.refused(vec![write_head("p", Expect::Absent, &guard(""), "w")]).await;
    assert_eq!(store.value("p", "head").await, Some(bytes("v")));
}

/// Each writer reads its rows as soon as they are acknowledged.
pub async fn many_lists_at_once_are_all_applied(subject: &mut impl Subject) {
    let store = subject.store();
    let writers = (0..50).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            let partition = format!("p{}", number % 7);
            let sort = format!("{number:03}");
            store.applied(vec![put(&partition, vec![row(&sort, &sort)])]).await;
            assert_eq!(store.value(&partition, &sort).await, Some(bytes(&sort)), "not read after it was acknowledged");
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let mut rows = 0;
    for partition in 0..7 {
        rows += store.sorts(format!("p{partition}").as_bytes()).await.len();
    }
    assert_eq!(rows, 50);
}

/// An error says that nothing was applied. An unknown outcome is allowed. "Applied" must be true.
pub async fn a_write_after_its_deadline_reports_a_true_outcome(subject: &mut impl Subject) {
    let store = subject.store();
    let late = Call::new(Class::Description, Deadline::within(std::time::Duration::ZERO));
    let answer = store.run(late, vec![put("p", vec![row("a", "v")])]).await;
    let current = store.value("p", "a").await.is_some();
    match answer {
        Err(error) => assert!(!current && error.is_passing(), "{error}"),
        Ok(Outcome::Applied) => assert!(current),
        Ok(Outcome::Unknown { .. }) => {}
        Ok(outcome) => panic!("nothing was there to refuse it: {outcome:?}"),
    }
}

/// A healthy store is ready.
pub async fn a_healthy_store_refuses_no_writes(subject: &mut impl Subject) {
    assert!(subject.store().health().await.refusing_writes.is_empty());
}

/// The steps before the refused one are not applied either.
pub async fn a_refused_list_leaves_nothing(subject: &mut impl Subject) {
    let store = subject.store();
    if !store.capabilities().has_atomic_lists {
        return;
    }
    store.applied(vec![put("p", vec![row("x", "v")])]).await;
    let (step, _) = store
        .refused(vec![
            put("p", vec![row("a", "v")]),
            write_head("q", Expect::Absent, &guard(""), "v"),
            remove("p", Removal::Rows(vec![bytes("x")])),
            require("x", Condition::Present),
        ])
        .await;
    assert_eq!(step, 3, "a step does not see the steps before it");
    assert_eq!(store.sorts(b"p").await, ["x"]);
    assert!(store.sorts(b"q").await.is_empty());
}

/// Two heads that always change together are never read apart.
pub async fn a_list_across_partitions_is_seen_whole(subject: &mut impl Subject) {
    let store = subject.store();
    if !store.capabilities().has_atomic_lists {
        return;
    }
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            let mut current: Option<(crate::Stamp, crate::Stamp)> = None;
            for number in 0..60_u32 {
                let (left, right) = (guard(""), guard(""));
                let (expect_left, expect_right) = match current {
                    None => (Expect::Absent, Expect::Absent),
                    Some((left, right)) => (Expect::Stamp(left), Expect::Stamp(right)),
                };
                store
                    .applied(vec![
                        write_head("left", expect_left, &left, number.to_be_bytes()),
                        write_head("right", expect_right, &right, number.to_be_bytes()),
                    ])
                    .await;
                current = Some((left.stamp, right.stamp));
            }
        }
    });
    let keys = vec![(bytes("left"), bytes("head")), (bytes("right"), bytes("head"))];
    while !writer.is_finished() {
        let found = store.get_many(call(), Table::Objects, keys.clone()).await.unwrap();
        let values: Vec<_> = found.into_iter().map(|row| row.map(|row| row.value)).collect();
        assert_eq!(values[0], values[1], "half of a list was seen");
    }
    writer.await.unwrap();
}

/// Steps that put one row into each table of a lane.
fn put_in_each_table(lane: Lane) -> Vec<Step> {
    let put = |table| Step::Put { table, partition: bytes("p"), rows: vec![row("a", "v")] };
    lane.tables().map(put).collect()
}

/// How many tables hold the row of [`put_in_each_table`].
async fn tables_that_hold_it(store: &Arc<dyn Store>) -> usize {
    let mut count = 0;
    for table in Table::ALL {
        let found = store.get(call().strong(), table, &bytes("p"), &bytes("a")).await.unwrap();
        count += usize::from(found.is_some());
    }
    count
}

/// That holds for each lane.
pub async fn tables_of_one_lane_change_in_one_list(subject: &mut impl Subject) {
    let store = subject.store();
    for lane in Lane::ALL {
        store.applied(put_in_each_table(lane)).await;
    }
    assert_eq!(tables_that_hold_it(&store).await, Table::ALL.len());
}

/// No engine has to keep two lanes in one commit, so none is asked to.
pub async fn a_list_across_lanes_is_refused_and_applies_nothing(subject: &mut impl Subject) {
    let store = subject.store();
    let crossing = Lane::ALL.into_iter().flat_map(put_in_each_table).collect();
    let refused = store.run(call(), crossing).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(tables_that_hold_it(&store).await, 0);
}

/// That holds across tables as it does within one.
pub async fn a_refused_list_leaves_nothing_in_any_table_of_its_lane(subject: &mut impl Subject) {
    let store = subject.store();
    if !store.capabilities().has_atomic_lists {
        return;
    }
    for lane in Lane::ALL {
        let mut steps = put_in_each_table(lane);
        let table = steps[0].table();
        steps.push(Step::Require { table, partition: bytes("p"), sort: bytes("b"), condition: Condition::Present });
        store.refused(steps).await;
    }
    assert_eq!(tables_that_hold_it(&store).await, 0);
}
