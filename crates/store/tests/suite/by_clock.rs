//! Lists whose writes count by the clock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Subject, bytes, call, row};
use crate::{Clock, Direction, NewRow, Outcome, PlainValue, Removal, Row, Scan, Step, Store, StoreError, Table};

/// A table of replaced rows that may expire.
const TABLE: Table = Table::Records;

fn put(rows: Vec<NewRow>) -> Step {
    Step::Put { table: TABLE, partition: bytes("p"), rows }
}

fn remove(rows: Removal) -> Step {
    Step::Remove { table: TABLE, partition: bytes("p"), rows }
}

fn lasting(value: &str) -> PlainValue {
    PlainValue { value: bytes(value), expires_at: None }
}

fn replace(sort: &str, expect: &str, then: Option<PlainValue>) -> Step {
    Step::Replace { table: TABLE, partition: bytes("p"), sort: bytes(sort), expect: Some(lasting(expect)), then }
}

async fn run(store: &Arc<dyn Store>, steps: Vec<Step>) -> Outcome {
    store.run(call().by_clock(), steps).await.unwrap()
}

async fn applied(store: &Arc<dyn Store>, steps: Vec<Step>) {
    let outcome = run(store, steps).await;
    assert!(outcome.is_applied(), "{outcome:?}");
}

/// Sort keys and values.
async fn stored(store: &Arc<dyn Store>) -> Vec<(Bytes, Bytes)> {
    let all = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 << 20 };
    let rows = store.scan(call().strong(), TABLE, &bytes("p"), all).await.unwrap().rows;
    rows.into_iter().map(|Row { sort, value, .. }| (sort, value)).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(Bytes, Bytes)> {
    pairs.iter().map(|(sort, value)| (bytes(sort), bytes(value))).collect()
}

/// The clock of the tests stands still.
pub async fn each_step_counts_more_than_the_one_before_it(subject: &mut impl Subject) {
    let store = subject.store();
    let everything = || remove(Removal::Range(Bytes::new(), None));
    applied(&store, vec![put(vec![row("a", "1"), row("b", "1")])]).await;
    applied(&store, vec![everything(), put(vec![row("b", "2"), row("c", "2")])]).await;
    assert_eq!(stored(&store).await, pairs(&[("b", "2"), ("c", "2")]));
    applied(&store, vec![remove(Removal::Rows(vec![bytes("b"), bytes("none")])), put(vec![row("c", "3")])]).await;
    assert_eq!(stored(&store).await, pairs(&[("c", "3")]));
    applied(&store, vec![put(vec![row("a", "4")]), everything()]).await;
    assert_eq!(stored(&store).await, []);
    applied(&store, vec![put(vec![row("a", "5")]), put(vec![row("a", "6")])]).await;
    applied(&store, vec![remove(Removal::Range(bytes("b"), Some(bytes("c"))))]).await;
    assert_eq!(stored(&store).await, pairs(&[("a", "6")]));
    applied(&store, Vec::new()).await;
}

/// What is replaced can be replaced and written again.
pub async fn a_list_replaces_what_is_as_it_was_read_or_changes_nothing(subject: &mut impl Subject) {
    let store = subject.store();
    applied(&store, vec![put(vec![row("a", "1"), row("b", "1")])]).await;
    applied(&store, vec![replace("a", "1", Some(lasting("2"))), replace("b", "1", None)]).await;
    assert_eq!(stored(&store).await, pairs(&[("a", "2")]));
    applied(&store, vec![put(vec![row("b", "3")])]).await;
    let outcome = run(&store, vec![replace("b", "3", Some(lasting("4"))), replace("a", "1", Some(lasting("4")))]).await;
    let Outcome::Refused { step: 1, current: Some(current) } = outcome else { panic!("{outcome:?}") };
    assert_eq!((current.sort, current.value), (bytes("a"), bytes("2")));
    let outcome = run(&store, vec![replace("none", "1", Some(lasting("4")))]).await;
    assert!(matches!(outcome, Outcome::Refused { step: 0, current: None }), "{outcome:?}");
    assert_eq!(stored(&store).await, pairs(&[("a", "2"), ("b", "3")]));
    applied(&store, vec![replace("a", "2", Some(lasting("5")))]).await;
    applied(&store, vec![replace("a", "5", Some(lasting("6")))]).await;
    applied(&store, vec![put(vec![row("a", "7")])]).await;
    assert_eq!(stored(&store).await, pairs(&[("a", "7"), ("b", "3")]));
}

/// An expiry is set by writing the value again.
pub async fn a_row_that_is_replaced_by_the_clock_expires(subject: &mut impl Subject) {
    const LIFE: Duration = Duration::from_millis(1000);
    let store = subject.store();
    let until = subject.clock().now().plus(LIFE);
    applied(&store, vec![put(vec![row("a", "1"), row("b", "1")])]).await;
    let ends = PlainValue { expires_at: Some(until), ..lasting("1") };
    applied(&store, vec![replace("a", "1", Some(ends.clone()))]).await;
    let found = store.get(call().strong(), TABLE, &bytes("p"), &bytes("a")).await.unwrap().unwrap();
    assert_eq!(PlainValue::of(&found), ends);
    subject.clock().advance(LIFE);
    assert_eq!(stored(&store).await, pairs(&[("b", "1")]));
    applied(&store, vec![put(vec![row("a", "2")])]).await;
    assert_eq!(stored(&store).await, pairs(&[("a", "2"), ("b", "1")]));
}

/// A shared store requires it. An engine of one process may also take lists of several.
pub async fn a_list_by_the_clock_has_one_partition(subject: &mut impl Subject) {
    let store = subject.store();
    if !store.capabilities().is_shared {
        return;
    }
    let other = Step::Put { table: TABLE, partition: bytes("q"), rows: vec![row("a", "1")] };
    let refused = store.run(call().by_clock(), vec![put(vec![row("a", "1")]), other]).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(stored(&store).await, []);
}
