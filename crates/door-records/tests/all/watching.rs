//! `WATCH`: transactions that happen only if records are as they were.

use std::sync::Arc;
use std::time::Duration;

use crate::support::frame::Frame;
use crate::support::stores::{Gate, Shared};
use crate::support::{Connection, Peer, Subject, fill, keyspace, runtime, settings};
use budget::Memory;
use futures::future::join_all;
use store::faults::{Fault, Faults, Kind};
use store::{Store, StoreError, StoreResult, Wrapper};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The commands of two connections to one server, in order.
type Sent = &'static [(usize, &'static [&'static str])];

/// What is sent, and whether a transaction of the first connection on `a` happens then. `a` begins
/// with `city Ulm`, and `b` is absent.
const WATCHED: &[(Sent, &str)] = &[
    (&[(0, &["WATCH", "a"])], "DONE"),
    (&[(0, &["WATCH", "b"])], "DONE"),
    (&[(0, &["WATCH", "a"]), (1, &["HSET", "a", "city", "Bonn"])], "NOTHING"),
    (&[(0, &["WATCH", "a"]), (0, &["HSET", "a", "city", "Bonn"])], "NOTHING"),
    (&[(0, &["WATCH", "a"]), (1, &["HGETALL", "a"]), (1, &["SET", "c", "1"])], "DONE"),
    (&[(0, &["WATCH", "a", "b"]), (1, &["SET", "b", "1"])], "NOTHING"),
    (&[(0, &["WATCH", "b"]), (0, &["WATCH", "a"]), (1, &["DEL", "a"])], "NOTHING"),
    // What is watched again stays as it was first seen.
    (&[(0, &["WATCH", "a"]), (1, &["DEL", "a"]), (0, &["WATCH", "a"])], "NOTHING"),
    (&[(0, &["WATCH", "a"]), (1, &["PEXPIRE", "a", "100000"])], "NOTHING"),
    (&[(0, &["WATCH", "a"]), (1, &["PEXPIRE", "a", "0"])], "NOTHING"),
    (&[(0, &["WATCH", "a"]), (1, &["DEL", "a"]), (0, &["UNWATCH"])], "DONE"),
    (&[(0, &["WATCH", "a"]), (1, &["DEL", "a"]), (0, &["MULTI"]), (0, &["DISCARD"])], "DONE"),
    (&[(0, &["WATCH", "a"]), (1, &["DEL", "a"]), (0, &["MULTI"]), (0, &["EXEC"])], "DONE"),
    (&[(0, &["WATCH", "a"]), (1, &["DEL", "a"]), (0, &["RESET"])], "DONE"),
    // It is an error, and nothing is forgotten.
    (&[(0, &["WATCH", "a"]), (0, &["DISCARD"]), (1, &["DEL", "a"])], "NOTHING"),
];

/// Runs all of them, each in both versions of the protocol.
async fn watch(mut connections: [Connection; 2]) {
    for version in ["2", "3"] {
        for (sent, then) in WATCHED {
            for connection in &mut connections {
                connection.hello(version).await;
            }
            connections[1].ask(&["DEL", "a", "b", "c"]).await;
            connections[1].ask(&["HSET", "a", "city", "Ulm"]).await;
            let mut in_transaction = false;
            for (connection, words) in *sent {
                let answer = connections[*connection].ask(words).await;
                assert_eq!(matches!(answer, Frame::Error(_)), words[0] == "DISCARD" && !in_transaction, "{words:?}");
                in_transaction = words[0] == "MULTI" || in_transaction && !["EXEC", "DISCARD"].contains(&words[0]);
                if words[0] == "RESET" {
                    connections[*connection].hello(version).await;
                }
            }
            for words in [&["MULTI"][..], &["HSET", "a", "done", "1"]] {
                connections[0].ask(words).await;
            }
            let is_done = match connections[0].ask(&["EXEC"]).await {
                Frame::Null => "NOTHING",
                Frame::List(answers) if answers.len() == 1 => "DONE",
                other => panic!("{sent:?}: {other:?}"),
            };
            assert_eq!(is_done, *then, "{sent:?}");
            let changed = connections[1].ask(&["HEXISTS", "a", "done"]).await;
            assert_eq!(changed, Frame::Integer(i64::from(*then == "DONE")), "{sent:?}");
        }
    }
}

#[test]
fn a_transaction_happens_only_if_what_it_watches_is_as_it_was() {
    runtime().block_on(async {
        let subject = Subject::start().await;
        watch([subject.connect(), subject.connect()]).await;
    });
}

#[test]
fn redis_answers_likewise() {
    let Some(peer) = Peer::redis() else { return };
    runtime().block_on(async { watch([peer.connect().await, peer.connect().await]).await });
}

/// Clients that speak RESP2 tell a missing list from missing bytes.
#[tokio::test]
async fn a_transaction_that_does_not_happen_is_a_missing_list() {
    let subject = Subject::start().await;
    let mut connection = subject.pipe(1 << 10);
    let sent = "WATCH a\r\nSET a 1\r\nMULTI\r\nGET a\r\nEXEC\r\nGET none\r\nCOMMAND INFO none\r\nQUIT\r\n";
    connection.write_all(sent.as_bytes()).await.unwrap();
    let mut answers = String::new();
    connection.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers, "+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n$-1\r\n*1\r\n$-1\r\n+OK\r\n");
}

#[tokio::test]
async fn quit_within_a_transaction_ends_the_connection_and_changes_nothing() {
    let subject = Subject::start().await;
    let mut connection = subject.pipe(1 << 10);
    connection.write_all(b"MULTI\r\nSET a 1\r\nQUIT\r\nSET a 2\r\n").await.unwrap();
    let mut answers = String::new();
    connection.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers, "+OK\r\n+QUEUED\r\n+OK\r\n");
    assert_eq!(subject.connect().ask(&["EXISTS", "a"]).await, Frame::Integer(0));
}

/// Counts by reading and writing. The slower connection tries again.
async fn count(mut connection: Connection, times: usize) {
    for _ in 0..times {
        loop {
            assert_eq!(connection.ask(&["WATCH", "n"]).await.text(), "OK");
            let counted = match connection.ask(&["GET", "n"]).await {
                Frame::Null => 0,
                counted => counted.text().parse::<u64>().unwrap(),
            };
            connection.ask(&["MULTI"]).await;
            connection.ask(&["SET", "n", &(counted + 1).to_string()]).await;
            if connection.ask(&["EXEC"]).await != Frame::Null {
                break;
            }
        }
    }
}

#[test]
fn clients_that_count_by_reading_and_writing_lose_nothing() {
    runtime().block_on(async {
        let subject = Subject::start().await;
        join_all((0..6).map(|_| count(subject.connect(), 20))).await;
        assert_eq!(subject.connect().ask(&["GET", "n"]).await.text(), "120");
    });
}

#[test]
fn on_cassandra_a_transaction_watches_its_own_record() {
    runtime().block_on(async {
        let Some(options) = keyspace().await else { return };
        let servers = [Subject::on_cassandra(options.clone()).await, Subject::on_cassandra(options).await];
        join_all(servers.iter().map(|server| count(server.connect(), 3))).await;
        let mut connection = servers[0].connect();
        assert_eq!(connection.ask(&["GET", "n"]).await.text(), "6");
        for words in [&["WATCH", "n", "other"][..], &["MULTI"], &["SET", "n", "0"]] {
            connection.ask(words).await;
        }
        let refused = connection.ask(&["EXEC"]).await;
        assert!(matches!(&refused, Frame::Error(error) if error.starts_with("CROSSSLOT on Cassandra")), "{refused:?}");
        assert_eq!(connection.ask(&["GET", "n"]).await.text(), "6");
    });
}

#[test]
fn what_cannot_be_watched_is_refused() {
    runtime().block_on(async {
        let subject = Subject::start().await;
        let mut connection = subject.connect();
        let ids: Vec<String> = (0..65).map(|number| format!("id{number}")).collect();
        let many: Vec<&str> = std::iter::once("WATCH").chain(ids.iter().map(String::as_str)).collect();
        let long = "x".repeat(1_025);
        for (words, then) in [
            (&["WATCH"][..], "ERR wrong number of arguments for 'watch' command"),
            (&many, "ERR a connection watches at most 64 keys"),
            (&["WATCH", &long], "ERR the id of a record has 1 to 1024 bytes, not 1025"),
        ] {
            let refused = connection.ask(words).await;
            assert!(matches!(&refused, Frame::Error(error) if error == then), "{refused:?}");
        }
        assert_eq!(connection.ask(&many[..65]).await.text(), "OK");
        connection.ask(&["MULTI"]).await;
        let refused = connection.ask(&["WATCH", "a"]).await;
        assert!(matches!(&refused, Frame::Error(error) if error == "ERR WATCH inside MULTI is not allowed"));
    });
}

/// A store whose home is elsewhere.
struct Away(Arc<dyn Store>);

impl Wrapper for Away {
    fn inner(&self) -> &dyn Store {
        self.0.as_ref()
    }

    fn check_home(&self) -> StoreResult<()> {
        Err(StoreError::ReadOnly("the home of the store is elsewhere".to_owned()))
    }
}

#[tokio::test]
async fn a_transaction_that_only_reads_is_answered_where_nothing_can_be_changed() {
    let wrap = |store| Shared(Arc::new(Away(store)));
    let (subject, _) = Subject::wrapped(wrap, Memory::new(1 << 20), settings()).await;
    let mut connection = subject.connect();
    connection.ask(&["SET", "a", "1"]).await;
    let answers = connection.ask_all(&[&["WATCH", "a"], &["MULTI"], &["GET", "a"], &["TTL", "a"], &["EXEC"]]).await;
    assert_eq!(answers[4].text(), "1 -1");
    let answers = connection.ask_all(&[&["MULTI"], &["GET", "none"], &["DEL", "none"], &["EXEC"]]).await;
    assert!(answers[3].text().starts_with("READONLY "), "{answers:?}");
}

#[tokio::test]
async fn a_transaction_that_only_reads_waits_for_no_change_and_writes_nothing() {
    let (subject, gate) = Subject::wrapped(Gate::new, Memory::new(1 << 20), settings()).await;
    let (mut changing, mut reading) = (subject.connect(), subject.connect());
    changing.ask(&["SET", "a", "1"]).await;
    let closed = gate.closed().await;
    let read = async {
        gate.keeps_waiting().await;
        let answers = reading.ask_all(&[&["MULTI"], &["GET", "a"], &["EXEC"]]).await;
        drop(closed);
        answers
    };
    let (changed, answers) = tokio::join!(changing.ask(&["SET", "a", "2"]), read);
    assert_eq!((changed.text().as_str(), answers[2].text().as_str()), ("OK", "1"));
}

/// A client that sends all of a transaction at once does not wait for the answer to `WATCH`.
#[tokio::test]
async fn a_transaction_does_not_happen_if_its_watch_was_refused() {
    const PREVIOUS: &str = "EXECABORT Transaction discarded because of previous errors.";
    let memory = Memory::new(1 << 20);
    let settings = door_records::Settings { deadline: Duration::from_millis(50), ..settings() };
    let (subject, faults) = Subject::wrapped(Faults::new, memory.clone(), settings).await;
    let mut connection = subject.connect();
    let ids: Vec<String> = (0..65).map(|number| format!("id{number}")).collect();
    let many: Vec<&str> = std::iter::once("WATCH").chain(ids.iter().map(String::as_str)).collect();
    let one = ["WATCH", "a"];
    tokio::time::pause();
    for (refusal, watch, fault) in [
        ("DEADLINE ", &one[..], Some(Fault::Delay(Duration::from_secs(3_600)))),
        ("OVERLOADED ", &one, Some(Fault::Overloaded)),
        ("ERR ", &one, Some(Fault::Unavailable)),
        ("OVERLOADED there is no memory to watch", &many[..65], None),
        ("ERR a connection watches at most 64 keys", &many, None),
    ] {
        let held = if refusal.contains("memory") { fill(&memory) } else { Vec::new() };
        fault.into_iter().for_each(|fault| faults.next(Kind::Read, fault));
        let answers = connection.ask_all(&[watch, &["MULTI"], &["SET", "a", "1"], &["EXEC"]]).await;
        drop(held);
        let answers: Vec<String> = answers.iter().map(Frame::text).collect();
        assert!(answers[0].starts_with(refusal), "{answers:?}");
        assert_eq!(answers[1..], ["OK", "QUEUED", PREVIOUS], "{refusal}");
        assert_eq!(connection.ask(&["EXISTS", "a"]).await, Frame::Integer(0), "{refusal}");
    }
    // `UNWATCH` says that the client goes on without it. What Redis refuses too breaks nothing off.
    tokio::time::resume();
    connection.ask(&["PENATES.DEADLINE", "60000"]).await;
    faults.next(Kind::Read, Fault::Unavailable);
    let not_broken: [&[&[&str]]; 2] = [&[&one, &["UNWATCH"]], &[&["WATCH"]]];
    for sent in not_broken {
        assert!(matches!(connection.ask_all(sent).await[0], Frame::Error(_)), "{sent:?}");
        let answers = connection.ask_all(&[&["MULTI"], &["SET", "a", "1"], &["EXEC"]]).await;
        assert_eq!(answers[2].text(), "OK", "{sent:?}");
    }
}
