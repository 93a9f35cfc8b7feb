//! Plain rows that are replaced by what they hold.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Shortcuts, Subject, bytes, call, row};
use crate::{Clock, Outcome, PlainRows, PlainValue, Row, Step, Store, StoreError, Table, UnixMillis};

/// A table of replaced rows that may expire.
const TABLE: Table = Table::Records;

const LIFE: Duration = Duration::from_millis(1000);

fn lasting(value: &str) -> Option<PlainValue> {
    Some(PlainValue { value: bytes(value), expires_at: None })
}

fn expiring(value: &str, at: UnixMillis) -> Option<PlainValue> {
    Some(PlainValue { value: bytes(value), expires_at: Some(at) })
}

fn replace(expect: Option<PlainValue>, then: Option<PlainValue>) -> Vec<Step> {
    vec![Step::Replace { table: TABLE, partition: bytes("p"), sort: Bytes::new(), expect, then }]
}

async fn stored(store: &Arc<dyn Store>) -> Option<Row> {
    store.get(call().strong(), TABLE, &bytes("p"), &Bytes::new()).await.unwrap()
}

/// What is stored instead is returned.
pub async fn a_row_is_replaced_only_if_it_is_as_it_was_read(subject: &mut impl Subject) {
    let store = subject.store();
    let soon = subject.clock().now().plus(LIFE);
    assert_eq!(store.refused(replace(lasting("a"), lasting("b"))).await, (0, None));
    store.applied(replace(None, lasting("a"))).await;
    let (_, current) = store.refused(replace(None, lasting("b"))).await;
    assert_eq!(current.as_ref().map(PlainValue::of), lasting("a"));
    assert_eq!(current, stored(&store).await);
    store.refused(replace(lasting("b"), lasting("c"))).await;
    store.refused(replace(expiring("a", soon), lasting("c"))).await;
    store.applied(replace(lasting("a"), expiring("b", soon))).await;
    store.refused(replace(lasting("b"), None)).await;
    assert_eq!(stored(&store).await.as_ref().map(PlainValue::of), expiring("b", soon));
    store.applied(replace(expiring("b", soon), None)).await;
    assert_eq!(stored(&store).await, None);
    store.refused(replace(expiring("b", soon), None)).await;
    store.applied(replace(None, None)).await;
    // What was removed is made again.
    store.applied(replace(None, lasting(""))).await;
    store.refused(replace(None, None)).await;
    assert_eq!(stored(&store).await.as_ref().map(PlainValue::of), lasting(""));
}

/// A copy puts rows, and servers replace them afterwards.
pub async fn a_row_that_was_put_is_replaced(subject: &mut impl Subject) {
    let store = subject.store();
    let put = Step::Put { table: TABLE, partition: bytes("p"), rows: vec![row("", "put")] };
    store.applied(vec![put]).await;
    store.refused(replace(None, lasting("new"))).await;
    store.applied(replace(lasting("put"), lasting("new"))).await;
    assert_eq!(stored(&store).await.as_ref().map(PlainValue::of), lasting("new"));
}

/// A caller that read the row before it expired may still replace it.
pub async fn an_expired_row_is_replaced_as_if_it_were_absent(subject: &mut impl Subject) {
    let store = subject.store();
    let soon = subject.clock().now().plus(LIFE);
    store.applied(replace(None, expiring("a", soon))).await;
    store.refused(replace(None, lasting("b"))).await;
    subject.clock().advance(LIFE);
    assert_eq!(store.refused(replace(lasting("a"), lasting("b"))).await, (0, None));
    store.applied(replace(None, None)).await;
    store.applied(replace(None, lasting("b"))).await;
    assert_eq!(stored(&store).await.as_ref().map(PlainValue::of), lasting("b"));

    let later = subject.clock().now().plus(LIFE);
    store.applied(replace(lasting("b"), expiring("c", later))).await;
    subject.clock().advance(LIFE);
    store.applied(replace(expiring("c", later), expiring("d", later.plus(LIFE)))).await;
    assert_eq!(stored(&store).await.as_ref().map(PlainValue::of), expiring("d", later.plus(LIFE)));
    subject.clock().advance(LIFE);
    store.sweep(call()).await.unwrap();
    assert_eq!(store.walk(call(), TABLE, None, 10).await.unwrap().partitions, Vec::<Bytes>::new());
}

/// Each of many at once replaces what it has read.
pub async fn contended_replacements_count_exactly(subject: &mut impl Subject) {
    const TIMES: u64 = 12;
    let store = subject.store();
    let writers = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let (mut applied, mut unknown) = (0, 0);
            while applied + unknown < TIMES {
                let before = stored(&store).await;
                let count = before.as_ref().map_or(0, |row| number(&row.value));
                let then = lasting(&(count + 1).to_string());
                match store.run(call(), replace(before.as_ref().map(PlainValue::of), then)).await.unwrap() {
                    Outcome::Applied => applied += 1,
                    Outcome::Refused { .. } => {}
                    Outcome::Unknown { .. } => unknown += 1,
                }
            }
            (applied, unknown)
        })
    });
    let (mut applied, mut unknown) = (0, 0);
    for writer in writers.collect::<Vec<_>>() {
        let (of_one, unknown_of_one) = writer.await.unwrap();
        (applied, unknown) = (applied + of_one, unknown + unknown_of_one);
    }
    let count = number(&stored(&store).await.unwrap().value);
    assert!((applied..=applied + unknown).contains(&count), "{count} after {applied}, and perhaps {unknown}");
}

fn number(value: &Bytes) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

/// Other tables promise their readers that a row keeps its bytes.
pub async fn a_row_that_is_written_once_is_not_replaced(subject: &mut impl Subject) {
    let store = subject.store();
    for table in Table::ALL {
        let then = Some(PlainValue { value: bytes("v"), expires_at: None });
        let step = Step::Replace { table, partition: bytes("p"), sort: bytes("a"), expect: None, then };
        let outcome = store.run(call(), vec![step]).await;
        match table.info().plain_rows {
            PlainRows::Replaced => assert!(outcome.unwrap().is_applied(), "{table}"),
            PlainRows::WrittenOnce => assert!(matches!(outcome, Err(StoreError::Invalid(_))), "{table}"),
        }
    }
}
