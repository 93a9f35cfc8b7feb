//! Closing and opening again: acknowledged data is there, and only one store is open at a time.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::{Reopening, Shortcuts, bytes, call, guard, put, remove, row, write_head};
use crate::{Clock, ContentState, Expect, NewRow, Removal, Step, StoreError, Table};

/// They keep their order, values and guards.
pub async fn reopening_keeps_every_acknowledged_row(subject: &mut impl Reopening) {
    let head = guard("tag");
    let store = subject.store();
    store.applied(vec![write_head("p", Expect::Absent, &head, "v")]).await;
    for number in 0..50 {
        store.applied(vec![put("p", vec![row(format!("{number:03}"), [number; 3000])])]).await;
    }
    drop(store);
    for _ in 0..2 {
        subject.reopen().await;
        let store = subject.store();
        assert_eq!(store.sorts(b"p").await.len(), 51);
        for number in 0..50 {
            assert_eq!(store.value("p", &format!("{number:03}")).await, Some(bytes([number; 3000])));
        }
        assert_eq!(store.row("p", "head").await.and_then(|row| row.guard), Some(head.clone()));
    }
    subject.store().applied(vec![write_head("p", Expect::Stamp(head.stamp), &guard(""), "v2")]).await;
}

/// Also those whose sync was still to come.
pub async fn closing_syncs_what_was_acknowledged(subject: &mut impl Reopening) {
    let late = call().synced_within(Duration::from_secs(3_600));
    for name in ["a", "b"] {
        let store = subject.store();
        assert!(store.run(late, vec![put("p", vec![row(name, name)])]).await.unwrap().is_applied());
        drop(store);
        subject.reopen().await;
    }
    assert_eq!(subject.store().sorts(b"p").await, ["a", "b"]);
}

/// Removed rows do not come back.
pub async fn reopening_keeps_removals(subject: &mut impl Reopening) {
    let store = subject.store();
    store.applied(vec![put("p", vec![row("a", ""), row("b", ""), row("c", "")])]).await;
    store.applied(vec![remove("p", Removal::Range(bytes("b"), None))]).await;
    drop(store);
    subject.reopen().await;
    assert_eq!(subject.store().sorts(b"p").await, ["a"]);
}

/// The content is sealed before.
pub async fn reopening_keeps_contents(subject: &mut impl Reopening) {
    let store = subject.store();
    let content = bytes([7; 100_000]);
    let id = store.put_content(call(), bytes("owner"), stream::iter([Ok(content.clone())]).boxed()).await.unwrap();
    drop(store);
    subject.reopen().await;
    let store = subject.store();
    assert_eq!(store.content_header(call(), id).await.unwrap().map(|header| header.state), Some(ContentState::Sealed));
    let found: Vec<Bytes> =
        store.read_content(call(), id, 0..u64::MAX).await.unwrap().unwrap().try_collect().await.unwrap();
    assert!(found.concat() == content);
}

/// The deadline is a point in time, not a time from the start.
pub async fn reopening_keeps_expiries(subject: &mut impl Reopening) {
    let expires_at = Some(subject.clock().now().plus(Duration::from_secs(60)));
    let store = subject.store();
    let (table, partition, sort) = (Table::Selections, bytes("p"), bytes("a"));
    let rows = vec![NewRow { expires_at, ..row("a", "v") }];
    store.applied(vec![Step::Put { table, partition: partition.clone(), rows }]).await;
    drop(store);
    subject.reopen().await;
    assert!(subject.store().get(call(), table, &partition, &sort).await.unwrap().is_some());
    subject.clock().advance(Duration::from_secs(60));
    assert!(subject.store().get(call(), table, &partition, &sort).await.unwrap().is_none());
}

/// A second opener of a shared store sees the first one's rows, and the other way round. Otherwise
/// it is refused, and the first opener is not harmed.
pub async fn a_second_opener_is_refused_unless_the_store_is_shared(subject: &mut impl Reopening) {
    let store = subject.store();
    store.applied(vec![put("p", vec![row("a", "v")])]).await;
    match (subject.open_another().await, store.capabilities().is_shared) {
        (Ok(another), true) => {
            assert_eq!(another.sorts(b"p").await, ["a"]);
            another.applied(vec![put("p", vec![row("b", "v")])]).await;
            assert_eq!(store.sorts(b"p").await, ["a", "b"]);
            another.close().await.unwrap();
        }
        (Err(StoreError::Held { .. }), false) => {}
        (Err(error), is_shared) => panic!("shared: {is_shared}, but {error}"),
        (Ok(_), false) => panic!("two stores are open on the same data"),
    }
    store.applied(vec![put("p", vec![row("c", "v")])]).await;
    drop(store);
    subject.reopen().await;
    assert!(subject.store().row("p", "c").await.is_some());
}

/// Such a call does not hang, and it does not say that nothing is there.
pub async fn a_closed_store_refuses_calls(subject: &mut impl Reopening) {
    let store = subject.store();
    store.applied(vec![put("p", vec![row("a", "v")])]).await;
    store.close().await.unwrap();
    store.close().await.unwrap();
    let get = store.get(call(), Table::Objects, &bytes("p"), &bytes("a")).await;
    assert!(matches!(get, Err(StoreError::Unavailable(_))), "{get:?}");
    let put = store.run(call(), vec![put("p", vec![row("b", "v")])]).await;
    assert!(matches!(put, Err(StoreError::Unavailable(_))), "{put:?}");
}
