//! Rows that expire by the store's clock, without a sweep.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};

use super::{Shortcuts, Subject, bytes, call, row};
use crate::{Clock, Condition, ContentState, NewRow, Row, Rows, Scan, Step, Store, Table};

/// A table whose rows may expire.
const TABLE: Table = Table::Children;

const LIFE: Duration = Duration::from_millis(1000);

fn expiring(subject: &impl Subject, sort: &str) -> NewRow {
    NewRow { expires_at: Some(subject.clock().now().plus(LIFE)), ..row(sort, "v") }
}

fn put(partition: &str, rows: Vec<NewRow>) -> Step {
    Step::Put { table: TABLE, partition: bytes(partition), rows }
}

async fn found(store: &Arc<dyn Store>, sort: &str) -> Option<Row> {
    store.get(call().strong(), TABLE, &bytes("p"), &bytes(sort)).await.unwrap()
}

async fn page(store: &Arc<dyn Store>, max_bytes: usize) -> Rows {
    store.scan(call().strong(), TABLE, &bytes("p"), Scan::prefix(Bytes::new(), max_bytes)).await.unwrap()
}

async fn sorts(store: &Arc<dyn Store>) -> Vec<Bytes> {
    page(store, 1 << 20).await.rows.into_iter().map(|row| row.sort).collect()
}

/// That holds for every kind of read.
pub async fn a_row_is_gone_at_its_deadline_without_a_sweep(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", vec![expiring(subject, "a"), row("b", "v")])]).await;
    subject.clock().advance(LIFE);
    assert_eq!(found(&store, "a").await, None);
    assert_eq!(sorts(&store).await, ["b"]);
    let keys = vec![(bytes("p"), bytes("a")), (bytes("p"), bytes("b"))];
    let many = store.get_many(call(), TABLE, keys).await.unwrap();
    assert_eq!(many.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
}

/// The time is exact to the millisecond, and the value is the one that was put.
pub async fn a_row_is_there_until_its_deadline(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", vec![expiring(subject, "a")])]).await;
    subject.clock().advance(LIFE - Duration::from_millis(1));
    assert_eq!(found(&store, "a").await.map(|row| row.value), Some(bytes("v")));
    assert_eq!(sorts(&store).await, ["a"]);
}

/// Every kind of read says so, because copying needs it.
pub async fn a_row_says_when_it_expires(subject: &mut impl Subject) {
    let store = subject.store();
    let mortal = expiring(subject, "a");
    let expires_at = mortal.expires_at;
    store.applied(vec![put("p", vec![mortal, row("b", "v")])]).await;
    assert_eq!(found(&store, "a").await.unwrap().expires_at, expires_at);
    let rows = page(&store, 1000).await.rows;
    assert_eq!(rows.iter().map(|row| row.expires_at).collect::<Vec<_>>(), [expires_at, None]);
}

/// That holds for any number of expired rows between two live ones.
pub async fn expired_rows_do_not_end_a_scan(subject: &mut impl Subject) {
    let store = subject.store();
    let mut rows: Vec<NewRow> = (0..500).map(|number| expiring(subject, &format!("m{number}"))).collect();
    rows.extend([row("a", "v"), row("z", "v")]);
    store.applied(vec![put("p", rows)]).await;
    subject.clock().advance(LIFE);
    let whole = page(&store, 1000).await;
    assert_eq!(whole.rows.iter().map(|row| &row.sort[..]).collect::<Vec<_>>(), [b"a", b"z"]);
    assert_eq!(whole.next, None);
    let first = page(&store, 1).await;
    assert_eq!(first.rows.len(), 1, "expired rows fill a page");
}

/// Such partitions hold no row.
pub async fn a_walk_passes_over_partitions_that_have_expired(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("a", vec![expiring(subject, "x")])]).await;
    store.applied(vec![put("b", vec![expiring(subject, "x"), row("y", "v")])]).await;
    subject.clock().advance(LIFE);
    let walked = store.walk(call(), TABLE, None, 10).await.unwrap();
    assert_eq!((walked.partitions, walked.next), (vec![bytes("b")], None));
}

/// Live rows and contents stay, and so do rows that expire later.
pub async fn a_sweep_changes_no_read_and_leaves_nothing_for_the_next(subject: &mut impl Subject) {
    let store = subject.store();
    store.applied(vec![put("p", vec![expiring(subject, "a"), row("b", "v")])]).await;
    let content = stream::iter([Ok(bytes("content"))]).boxed();
    let content = store.put_content(call(), bytes("owner"), content).await.unwrap();
    store.sweep(call()).await.unwrap();
    assert_eq!(sorts(&store).await, ["a", "b"]);
    subject.clock().advance(LIFE);
    store.sweep(call()).await.unwrap();
    assert_eq!(sorts(&store).await, ["b"]);
    let header = store.content_header(call(), content).await.unwrap();
    assert!(header.is_some_and(|header| header.state == ContentState::Sealed));
    assert_eq!(store.sweep(call()).await.unwrap(), 0);
}

/// In a table of replaced rows, a row expires as its last put says. What earlier puts said counts no
/// more, also for a sweep.
pub async fn a_row_that_is_replaced_expires_as_its_last_put_says(subject: &mut impl Subject) {
    const TABLE: Table = Table::Records;
    let store = subject.store();
    let put = |row: NewRow| vec![Step::Put { table: TABLE, partition: bytes("p"), rows: vec![row] }];
    let found = async || {
        let row = store.get(call().strong(), TABLE, &bytes("p"), &bytes("a")).await.unwrap();
        row.map(|row| (row.value, row.expires_at))
    };
    store.applied(put(expiring(subject, "a"))).await;
    store.applied(put(row("a", "lasts"))).await;
    subject.clock().advance(LIFE);
    store.sweep(call()).await.unwrap();
    assert_eq!(found().await, Some((bytes("lasts"), None)));

    let again = expiring(subject, "a");
    let expires_at = again.expires_at;
    store.applied(put(again)).await;
    assert_eq!(found().await, Some((bytes("v"), expires_at)));
    subject.clock().advance(LIFE);
    assert_eq!(found().await, None);
    assert_eq!(store.walk(call(), TABLE, None, 10).await.unwrap().partitions, Vec::<Bytes>::new());
    store.applied(put(row("a", "new"))).await;
    store.sweep(call()).await.unwrap();
    assert_eq!(found().await, Some((bytes("new"), None)));
}

/// An expired row does not prevent a write.
pub async fn an_expired_row_is_absent_for_conditions(subject: &mut impl Subject) {
    let store = subject.store();
    let require = |condition| Step::Require { table: TABLE, partition: bytes("p"), sort: bytes("a"), condition };
    store.applied(vec![put("p", vec![expiring(subject, "a")])]).await;
    store.applied(vec![require(Condition::Present)]).await;
    store.refused(vec![require(Condition::Absent)]).await;
    subject.clock().advance(LIFE);
    store.applied(vec![require(Condition::Absent)]).await;
    assert_eq!(store.refused(vec![require(Condition::Present)]).await, (0, None));
}
