//! Many clients that change one record at once. A gate in front of the store holds their writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use budget::Memory;

use store::faults::{Fault, Faults, Kind};
use store::{Call, Outcome, Step, Store, StoreError, StoreResult, Table, Wrapper};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::support::{Subject, settings};

/// The longest time that a test waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// Holds changes of records until it is opened.
struct Gate {
    inner: Arc<dyn Store>,
    arrived: AtomicUsize,
    is_open: watch::Sender<bool>,
    /// The first change is refused once the gate is open.
    refuses_first: AtomicBool,
}

impl Wrapper for Gate {
    fn inner(&self) -> &dyn Store {
        self.inner.as_ref()
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        let changes_records = steps.iter().any(|step| step.table() == Table::Records);
        if changes_records {
            let is_first = self.arrived.fetch_add(1, Ordering::Relaxed) == 0;
            self.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
            if is_first && self.refuses_first.load(Ordering::Relaxed) {
                return Err(StoreError::Overloaded("the first one is refused".to_owned()));
            }
        }
        self.inner.run(call, steps).await
    }
}

async fn gated() -> (Subject, Arc<Gate>) {
    let gate = |inner| Gate {
        inner,
        arrived: AtomicUsize::new(0),
        is_open: watch::Sender::new(false),
        refuses_first: AtomicBool::new(false),
    };
    let settings = door_records::Settings { deadline: PATIENCE, ..settings() };
    Subject::wrapped(gate, Memory::new(1 << 20), settings).await
}

impl Gate {
    /// Returns once so many changes wait.
    async fn has(&self, count: usize) {
        let all_there = async {
            while self.arrived.load(Ordering::Relaxed) < count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, all_there)
            .await
            .unwrap_or_else(|_| panic!("{} arrived", self.arrived.load(Ordering::Relaxed)));
    }

    fn open(&self) {
        self.is_open.send_replace(true);
    }
}

/// Asks on a connection of its own.
fn ask(subject: &Subject, command: &'static [&'static str]) -> JoinHandle<String> {
    let mut connection = subject.connect();
    tokio::spawn(async move { connection.ask(command).await.text() })
}

async fn answers(asked: Vec<JoinHandle<String>>) -> Vec<String> {
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.unwrap());
    }
    answers.sort();
    answers
}

#[tokio::test]
async fn changes_of_one_record_reach_the_store_without_waiting_for_each_other() {
    let (subject, gate) = gated().await;
    let asked: Vec<_> = (0..8).map(|_| ask(&subject, &["INCR", "hot"])).collect();
    gate.has(8).await;
    gate.open();
    assert_eq!(answers(asked).await, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert_eq!(ask(&subject, &["GET", "hot"]).await.unwrap(), "8");
}

#[tokio::test]
async fn a_change_that_follows_one_that_failed_begins_again() {
    let (subject, gate) = gated().await;
    gate.refuses_first.store(true, Ordering::Relaxed);
    let asked: Vec<_> = (0..8).map(|_| ask(&subject, &["INCR", "hot"])).collect();
    gate.has(8).await;
    gate.open();
    let answers = answers(asked).await;
    assert_eq!(answers[..7], ["1", "2", "3", "4", "5", "6", "7"]);
    assert!(answers[7].starts_with("OVERLOADED "), "{answers:?}");
}

#[tokio::test]
async fn a_command_that_changes_nothing_waits_for_the_change_that_it_saw() {
    for refuses_first in [false, true] {
        let (subject, gate) = gated().await;
        gate.refuses_first.store(refuses_first, Ordering::Relaxed);
        let first = ask(&subject, &["SET", "a", "1", "NX"]);
        gate.has(1).await;
        let second = ask(&subject, &["SET", "a", "2", "NX"]);
        gate.has(2).await;
        assert!(!second.is_finished());
        gate.open();
        let (first, second) = (first.await.unwrap(), second.await.unwrap());
        let expected = if refuses_first {
            ("OVERLOADED the first one is refused; nothing was changed", "OK")
        } else {
            ("OK", "nothing")
        };
        assert_eq!((&*first, &*second), expected);
    }
}

/// What one connection is answered that sends all of this at once.
async fn answers_at_once(subject: &Subject, commands: &[&str]) -> Vec<String> {
    let words: Vec<Vec<&str>> = commands.iter().map(|command| command.split(' ').collect()).collect();
    let sent: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    subject.connect().ask_all(&sent).await.iter().map(|answer| answer.text()).collect()
}

#[tokio::test]
async fn commands_that_one_client_sends_at_once_are_one_change_also_where_some_are_on_one_record() {
    let (subject, gate) = gated().await;
    gate.open();
    assert_eq!(ask(&subject, &["SET", "c", "text"]).await.unwrap(), "OK");
    let before = gate.arrived.load(Ordering::Relaxed);
    let sent = [
        ("HSET a f 1", "1"),
        ("EXPIREAT a 9000000000", "1"),
        ("HSET b f 1", "1"),
        ("HSET c f 1", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("HINCRBY a f 2", "3"),
        ("EXPIREAT b 9000000000", "1"),
        ("HGETALL a", "f 3"),
        ("HINCRBY a f x", "ERR value is not an integer or out of range"),
        ("EXPIRETIME a", "9000000000"),
        ("APPEND c !", "5"),
        ("GET c", "text!"),
        ("EXISTS d", "0"),
        ("HSETNX b f 2", "0"),
    ];
    assert_eq!(answers_at_once(&subject, &sent.map(|(command, _)| command)).await, sent.map(|(_, answer)| answer));
    assert_eq!(gate.arrived.load(Ordering::Relaxed) - before, 1);
    let left = ["HGETALL a", "EXPIRETIME a", "HGETALL b", "EXPIRETIME b", "GET c"];
    assert_eq!(answers_at_once(&subject, &left).await, ["f 3", "9000000000", "f 1", "9000000000", "text!"]);
}

#[tokio::test]
async fn commands_that_one_client_sends_at_once_keep_their_order_behind_the_change_of_another() {
    let (subject, gate) = gated().await;
    let first = ask(&subject, &["SET", "a", "1"]);
    gate.has(1).await;
    let sent = ["INCR a", "SET b 1", "APPEND a 0", "INCR a", "GET a", "EXPIREAT a 9000000000", "EXPIRETIME a"];
    let open_then = async {
        gate.has(2).await;
        gate.open();
    };
    let (answers, ()) = tokio::join!(answers_at_once(&subject, &sent), open_then);
    assert_eq!(answers, ["2", "OK", "2", "21", "21", "1", "9000000000"]);
    assert_eq!(first.await.unwrap(), "OK");
}

#[tokio::test]
async fn a_read_among_changes_that_fail_is_answered_unless_it_might_see_one_of_them() {
    let (subject, faults) = Subject::wrapped(Faults::new, Memory::new(1 << 20), settings()).await;
    assert_eq!(ask(&subject, &["SET", "a", "1"]).await.unwrap(), "OK");
    let sent = ["SET b 1", "GET a", "SET a 2", "GET a", "GET c"];
    for (fault, expected) in [
        (Fault::Overloaded, ["OVERLOADED", "1", "OVERLOADED", "1", "nothing"]),
        (Fault::UnknownNotApplied, ["UNKNOWN", "DEADLINE", "UNKNOWN", "DEADLINE", "nothing"]),
    ] {
        faults.next(Kind::Run, fault);
        let answers = answers_at_once(&subject, &sent).await;
        let words: Vec<&str> = answers.iter().map(|answer| answer.split(' ').next().unwrap()).collect();
        assert_eq!(words, expected, "{fault:?}: {answers:?}");
    }
}

#[tokio::test]
async fn a_record_that_is_deleted_and_made_again_at_once_is_as_its_last_change_left_it() {
    let (subject, gate) = gated().await;
    gate.open();
    for round in 0..50 {
        let asked: Vec<_> = (0..4)
            .flat_map(|_| {
                [
                    ask(&subject, &["INCR", "a"]),
                    ask(&subject, &["DEL", "a"]),
                    ask(&subject, &["PEXPIRE", "a", "100000"]),
                ]
            })
            .collect();
        for answer in asked {
            let answer = answer.await.unwrap();
            assert!(answer.parse::<u32>().is_ok_and(|count| count <= 4), "round {round}: {answer}");
        }
        ask(&subject, &["DEL", "a"]).await.unwrap();
    }
}
