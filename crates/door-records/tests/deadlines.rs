//! With a store that stalls, each command has its answer or a refusal by its deadline. The clock is
//! tokio's, paused, so that a deadline is exact.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use budget::Memory;
use store::Store;
use store::faults::{Fault, Faults, Kind};
use support::{Connection, Subject, settings};
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_millis(50);

/// A task that a deadline wakes may run so much later.
const SCHEDULING: Duration = Duration::from_millis(2);

const STALL: Fault = Fault::Delay(Duration::from_secs(3_600));

async fn stalling() -> (Subject, Arc<Faults>, Connection) {
    let settings = door_records::Settings { deadline: DEADLINE, ..settings() };
    let mut faults = None;
    let wrap = |store: Arc<dyn Store>| {
        let wrapped = Arc::new(Faults::new(store));
        faults = Some(wrapped.clone());
        wrapped as Arc<dyn Store>
    };
    let subject = Subject::wrapped(wrap, Memory::new(1 << 20), settings).await;
    let connection = subject.connect();
    (subject, faults.unwrap(), connection)
}

/// The answer, and how long it took.
async fn timed(connection: &mut Connection, command: &[&str]) -> (String, Duration) {
    let began = Instant::now();
    let answer = connection.ask(command).await.text();
    (answer, began.elapsed())
}

fn at_its_deadline(took: Duration, deadline: Duration) -> bool {
    (deadline..=deadline + SCHEDULING).contains(&took)
}

#[tokio::test]
async fn a_read_that_stalls_is_refused_at_its_deadline() {
    let (_subject, faults, mut connection) = stalling().await;
    tokio::time::pause();
    for command in [&["GET", "a"][..], &["MGET", "a", "b"], &["HGETALL", "a"], &["SCAN", "0"], &["INCR", "a"]] {
        faults.next(Kind::Read, STALL);
        let (answer, took) = timed(&mut connection, command).await;
        assert_eq!(answer, "DEADLINE there was no answer in time; nothing was changed", "{command:?}");
        assert!(at_its_deadline(took, DEADLINE), "{command:?} took {took:?}");
    }
    assert_eq!(timed(&mut connection, &["GET", "a"]).await.0, "nothing");
}

#[tokio::test]
async fn a_connection_chooses_its_deadline() {
    let (subject, faults, mut connection) = stalling().await;
    tokio::time::pause();
    assert_eq!(connection.ask(&["PENATES.DEADLINE", "7"]).await.text(), "OK");
    for wrong in ["0", "-1", "x", "99999999"] {
        assert!(connection.ask(&["PENATES.DEADLINE", wrong]).await.text().starts_with("ERR "), "{wrong}");
    }
    faults.next(Kind::Read, STALL);
    let (_, took) = timed(&mut connection, &["GET", "a"]).await;
    assert!(at_its_deadline(took, Duration::from_millis(7)), "{took:?}");
    faults.next(Kind::Read, STALL);
    let (_, took) = timed(&mut subject.connect(), &["GET", "a"]).await;
    assert!(at_its_deadline(took, DEADLINE), "another connection: {took:?}");
}

#[tokio::test]
async fn a_write_that_stalls_is_unknown_at_its_deadline_and_keeps_later_ones_of_its_record_waiting() {
    let (subject, faults, mut connection) = stalling().await;
    tokio::time::pause();
    faults.next(Kind::Run, STALL);
    let (answer, took) = timed(&mut connection, &["SET", "a", "1"]).await;
    assert!(answer.starts_with("UNKNOWN whether the change was made is not known"), "{answer}");
    assert!(at_its_deadline(took, DEADLINE), "{took:?}");
    let (answer, took) = timed(&mut subject.connect(), &["SET", "a", "2"]).await;
    assert!(answer.starts_with("DEADLINE "), "{answer}");
    assert!(at_its_deadline(took, DEADLINE), "{took:?}");
    assert_eq!(timed(&mut connection, &["GET", "a"]).await.0, "nothing");
    // The stall ends, and the store refuses the first write, whose deadline has passed.
    tokio::time::advance(Duration::from_secs(3_600)).await;
    tokio::time::resume();
    assert_eq!(connection.ask(&["INCR", "a"]).await.text(), "1");
}

#[tokio::test]
async fn a_change_begins_with_what_one_of_unknown_outcome_left() {
    let (_subject, faults, mut connection) = stalling().await;
    connection.ask(&["PENATES.DEADLINE", "30000"]).await;
    assert_eq!(connection.ask(&["INCR", "a"]).await.text(), "1");
    faults.next(Kind::Run, Fault::UnknownApplied);
    assert!(connection.ask(&["INCR", "a"]).await.text().starts_with("UNKNOWN "));
    assert_eq!(connection.ask(&["INCR", "a"]).await.text(), "3");
    faults.next(Kind::Run, Fault::UnknownNotApplied);
    assert!(connection.ask(&["INCR", "a"]).await.text().starts_with("UNKNOWN "));
    assert_eq!(connection.ask(&["INCR", "a"]).await.text(), "4");
}

#[tokio::test]
async fn an_overloaded_store_refuses_at_once() {
    let (_subject, faults, mut connection) = stalling().await;
    tokio::time::pause();
    faults.next(Kind::Run, Fault::Overloaded);
    let (answer, took) = timed(&mut connection, &["SET", "a", "1"]).await;
    assert_eq!(answer, "OVERLOADED overload was injected; nothing was changed");
    assert!(took < DEADLINE, "{took:?}");
}
