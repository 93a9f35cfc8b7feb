//! Metrics count each command on records once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use budget::{Memory, Party};
use bytes::Bytes;
use door_records::{Access, Exceeded, Refused, Rights, WrongPassword};
use http::Method;
use serde_json::json;
use store::Table;
use store::faults::{Damage, Fault, Faults, Harm, Kind};

use crate::support::counts::Counts;
use crate::support::http::{get, put, send};
use crate::support::{Connection, Subject, settings};

/// The counts of kinds and outcomes.
fn counted(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
    expected.iter().map(|(labels, count)| ((*labels).to_owned(), *count)).collect()
}

/// Sends commands, each after the answer to the one before it.
async fn ask(connection: &mut Connection, commands: &[&str]) {
    for command in commands {
        connection.ask(&command.split(' ').collect::<Vec<_>>()).await;
    }
}

#[tokio::test]
async fn every_command_on_records_is_counted_once_by_kind_and_outcome() {
    let counts = Counts::default();
    let _recorded = metrics::set_default_local_recorder(&counts);
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    let transaction = ["MULTI", "SET b 1", "GET b", "INCRBY b x", "EXEC"];
    let watched = ["WATCH b", "SET b 2", "MULTI", "SET b 3", "EXEC"];
    for (commands, expected) in [
        (&["SET a 1"][..], &[("write answered", 1)][..]),
        (&["GET a"], &[("read answered", 1)]),
        (&["MSET c 1 d 2", "MGET c d"], &[("read answered", 1), ("write answered", 1)]),
        (&["PING", "NOSUCH a", "CLIENT ID", "UNWATCH"], &[]),
        (&["SCAN 0", "DBSIZE", "WATCH a", "UNWATCH"], &[("read answered", 3)]),
        (&["SCAN x", "WATCH", "HGET a f"], &[("read refused", 3)]),
        (&["SET a", "GET", "INCR"], &[("read refused", 1), ("write refused", 2)]),
        (&["PENATES.HSET h EX 60 FIELDS 1 f 1", "PENATES.HSET h"], &[("write answered", 1), ("write refused", 1)]),
        // `EXEC` and its three commands.
        (&transaction, &[("read answered", 1), ("write answered", 2), ("write refused", 1)]),
        // What is wrong is refused at once, and then the transaction with what it has.
        (&["MULTI", "GET", "SCAN 0", "SET b 9", "EXEC"], &[("read refused", 2), ("write refused", 2)]),
        // It does not happen, which is the answer.
        (&watched, &[("read answered", 1), ("write answered", 2), ("write refused", 1)]),
        (&["EXEC", "DISCARD"], &[("read refused", 1)]),
        (&["MULTI", "EXEC"], &[("read answered", 1)]),
    ] {
        ask(&mut connection, commands).await;
        assert_eq!(counts.take(), counted(expected), "{commands:?}");
    }
    // Commands that run as one.
    connection.ask_all(&[&["SET", "e", "1"], &["SET", "f", "1"], &["GET", "a"], &["MGET", "a", "c"]]).await;
    assert_eq!(counts.take(), counted(&[("read answered", 2), ("write answered", 2)]));
    // And those of them that are on one record.
    connection.ask_all(&[&["SET", "g", "1"], &["GET", "g"], &["INCRBY", "g", "x"], &["INCR", "g"]]).await;
    assert_eq!(counts.take(), counted(&[("read answered", 1), ("write answered", 2), ("write refused", 1)]));
}

#[tokio::test]
async fn every_request_and_every_line_over_http_is_counted_once() {
    let counts = Counts::default();
    let _recorded = metrics::set_default_local_recorder(&counts);
    let subject = Subject::start().await;
    let router = subject.router();
    let lines = "{\"id\": \"a\", \"text\": \"1\"}\nno json\n{\"id\": \"a\"}\n";
    send(&router, Method::POST, "/records:batchWrite", &[], lines).await;
    assert_eq!(counts.take(), counted(&[("write answered", 1), ("write refused", 2)]));
    send(&router, Method::POST, "/records:batchGet", &[], "\"a\"\n{\n").await;
    assert_eq!(counts.take(), counted(&[("read answered", 1), ("read refused", 1)]));
    // Nothing is read after a line that is too long.
    send(&router, Method::POST, "/records:batchGet", &[], format!("\"{}\"\n", "x".repeat(2 << 20))).await;
    assert_eq!(counts.take(), counted(&[("read refused", 1)]));
    // An id in a path is UTF-8.
    for (path, outcome) in
        [("/records/", "read answered"), ("/records/?what=1", "read refused"), ("/records/%FF", "read refused")]
    {
        get(&router, path).await;
        assert_eq!(counts.take(), counted(&[(outcome, 1)]), "{path}");
    }
    send(&router, Method::PUT, "/records/%FF", &[], "\"1\"").await;
    assert_eq!(counts.take(), counted(&[("write refused", 1)]));
}

/// Who has sent the password `reader` may read. All have exceeded a limit while that is set.
pub(crate) struct Guarded(pub(crate) Arc<AtomicBool>);

impl Access for Guarded {
    fn rights(&self, password: Option<&[u8]>) -> Result<Rights, WrongPassword> {
        Ok(Rights { read: password == Some(&b"reader"[..]), write: false, operate: false })
    }

    fn user(&self, _: &[u8]) -> Option<String> {
        None
    }

    fn count(&self, _: &Party) -> Result<(), Exceeded> {
        match self.0.load(Ordering::SeqCst) {
            true => Err(Exceeded { limit: "may do little".to_owned(), is_of_bytes: true, wait: Duration::ZERO }),
            false => Ok(()),
        }
    }

    fn sent(&self, _: &Party, _: u64) {}

    fn refused(&self, _: &Refused<'_>) {}
}

#[tokio::test]
async fn what_a_client_may_not_do_is_counted_too() {
    let counts = Counts::default();
    let _recorded = metrics::set_default_local_recorder(&counts);
    let has_exceeded = Arc::new(AtomicBool::new(false));
    let subject = Subject::guarded(Box::new(Guarded(has_exceeded.clone()))).await;
    let mut connection = subject.connect();
    ask(&mut connection, &["SET a 1", "GET a", "SCAN 0", "DBSIZE", "WATCH a", "CLIENT LIST"]).await;
    ask(&mut connection, &["PENATES.HSET a EX 60 FIELDS 1 f 1"]).await;
    assert_eq!(counts.take(), counted(&[("read refused", 4), ("write refused", 2)]));
    ask(&mut connection, &["AUTH reader", "GET a", "SET a 1"]).await;
    assert_eq!(counts.take(), counted(&[("read answered", 1), ("write refused", 1)]));
    ask(&mut connection, &["MULTI", "GET a"]).await;
    has_exceeded.store(true, Ordering::SeqCst);
    ask(&mut connection, &["EXEC", "SET a 1", "SCAN 0", "PING"]).await;
    // `EXEC` and its command are two.
    assert_eq!(counts.take(), counted(&[("read limited", 3), ("write limited", 1)]));
}

/// How a client reads or changes a record.
#[derive(Clone, Copy, Debug)]
enum By {
    Command,
    Request,
    Line,
}

/// Reads or changes the record of an id.
async fn ask_by(by: By, (connection, router): (&mut Connection, &Router), writes: bool, id: &str) {
    let path = format!("/records/{id}");
    match (by, writes) {
        (By::Command, false) => drop(connection.ask(&["GET", id]).await),
        (By::Command, true) => drop(connection.ask(&["SET", id, "1"]).await),
        (By::Request, false) => drop(get(router, &path).await),
        (By::Request, true) => drop(put(router, &path, json!("1")).await),
        (By::Line, false) => {
            let line = json!(id).to_string();
            send(router, Method::POST, "/records:batchGet", &[], line).await;
        }
        (By::Line, true) => {
            let line = json!({"id": id, "text": "1"}).to_string();
            send(router, Method::POST, "/records:batchWrite", &[], line).await;
        }
    }
}

#[tokio::test]
async fn what_ends_by_its_deadline_or_is_not_known_is_counted() {
    let counts = Counts::default();
    let _recorded = metrics::set_default_local_recorder(&counts);
    let (subject, faults) = Subject::wrapped(Faults::new, Memory::new(64 << 20), settings()).await;
    let (router, mut connection) = (subject.router(), subject.connect());
    ask(&mut connection, &["SET damaged 1"]).await;
    counts.take();
    let ways = [By::Command, By::Request, By::Line];
    for (kind, fault, outcome) in [
        (Kind::Read, Fault::DeadlinePassed, "read deadline"),
        (Kind::Read, Fault::DeadlinePassed, "write deadline"),
        (Kind::Read, Fault::Overloaded, "read overloaded"),
        (Kind::Run, Fault::Overloaded, "write overloaded"),
        (Kind::Run, Fault::UnknownApplied, "write unknown"),
        (Kind::Run, Fault::UnknownNotApplied, "write unknown"),
    ] {
        for by in ways {
            faults.next(kind, fault);
            ask_by(by, (&mut connection, &router), outcome.starts_with("write"), "a").await;
            assert_eq!(counts.take(), counted(&[(outcome, 1)]), "{fault:?} {by:?}");
            // It waits until all is known. Until then the door asks the store, which could meet the
            // next fault.
            assert_eq!(connection.ask(&["SET", "a", "2"]).await.text(), "OK", "{fault:?} {by:?}");
            counts.take();
        }
    }
    let (partition, harm) = (Bytes::from_static(b"damaged"), Harm::FlippedBit);
    faults.damage(Damage { table: Table::Records, partition, sort: None, harm, strong_reads_are_whole: false });
    for (writes, outcome) in [(false, "read damaged"), (true, "write damaged")] {
        for by in ways {
            ask_by(by, (&mut connection, &router), writes, "damaged").await;
            assert_eq!(counts.take(), counted(&[(outcome, 1)]), "{by:?}");
        }
    }
}
