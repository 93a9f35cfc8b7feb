//! With a store that stalls, each command has its answer or a refusal by its deadline. The clock is
//! tokio's, paused, so that a deadline is exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::counted::Guarded;
use crate::support::frame::Frame;
use crate::support::http::get;
use crate::support::{Connection, Subject, fill, settings};
use axum::body::{Body, to_bytes};
use budget::Memory;
use futures::future::join_all;
use http::{HeaderMap, Request, StatusCode, header};
use records::Mode;
use store::faults::{Fault, Faults, Kind, Rates};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tower::ServiceExt;

const DEADLINE: Duration = Duration::from_millis(50);

/// A task that a deadline wakes may run so much later.
const SCHEDULING: Duration = Duration::from_millis(2);

const STALL: Fault = Fault::Delay(Duration::from_secs(3_600));

async fn stalling() -> (Subject, Arc<Faults>, Connection) {
    let settings = door_records::Settings { deadline: DEADLINE, ..settings() };
    let (subject, faults) = Subject::wrapped(Faults::new, Memory::new(64 << 20), settings).await;
    let connection = subject.connect();
    (subject, faults, connection)
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
    assert_eq!(connection.ask(&["RESET"]).await.text(), "RESET");
    faults.next(Kind::Read, STALL);
    let (_, took) = timed(&mut connection, &["GET", "a"]).await;
    assert!(at_its_deadline(took, DEADLINE), "after RESET: {took:?}");
}

#[tokio::test]
async fn commands_that_arrive_together_have_the_same_deadline() {
    let (_subject, faults, mut connection) = stalling().await;
    tokio::time::pause();
    // PING waits for the command before it. So the last one begins when most of its time is over.
    (0..2).for_each(|_| faults.next(Kind::Read, Fault::Delay(DEADLINE * 4 / 5)));
    let began = Instant::now();
    let answers = connection.ask_all(&[&["GET", "a"], &["PING"], &["GET", "b"]]).await;
    let answers: Vec<String> = answers.iter().map(|answer| answer.text()).collect();
    assert_eq!(answers[..2], ["nothing", "PONG"]);
    assert!(answers[2].starts_with("DEADLINE ") && at_its_deadline(began.elapsed(), DEADLINE), "{answers:?}");
}

#[tokio::test]
async fn what_waits_for_memory_is_refused_at_its_deadline() {
    let memory = Memory::new(1 << 20);
    let settings = door_records::Settings { deadline: DEADLINE, ..settings() };
    let subject = Subject::with(memory.clone(), settings).await;
    let (mut connection, router) = (subject.connect(), subject.router());
    tokio::time::pause();
    let mut shares = fill(&memory);
    let (answer, took) = timed(&mut connection, &["ECHO", &"x".repeat(100_000)]).await;
    assert!(answer.starts_with("OVERLOADED there is no memory for the request now"), "{answer}");
    assert!(at_its_deadline(took, DEADLINE), "{took:?}");
    // What is left is enough to read lines, and not to answer one.
    shares.drain(..64);
    let (status, _, took, answer) = asked(&router, "POST /records:batchGet", "\"a\"\n", Some(30)).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(answer.contains("\"kind\":\"overloaded\""), "{answer}");
    assert!(at_its_deadline(took, Duration::from_millis(30)), "{took:?}");
}

/// The pause grows with the refusals, up to a second.
#[tokio::test]
async fn refusals_by_a_limit_come_at_once_and_what_follows_them_is_read_later() {
    let has_exceeded = Arc::new(AtomicBool::new(false));
    let subject = Subject::guarded(Box::new(Guarded(has_exceeded.clone()))).await;
    let mut connection = subject.connect();
    tokio::time::pause();
    for (count, pause_ms) in [(1, 10), (3, 30), (150, 1_000)] {
        has_exceeded.store(true, Ordering::SeqCst);
        let sent: Vec<&[&str]> = vec![&["GET", "a"]; count];
        let began = Instant::now();
        let answers = connection.ask_all(&sent).await;
        assert!(answers.iter().all(|answer| answer.text().starts_with("LIMIT ")), "{answers:?}");
        assert!(began.elapsed() < SCHEDULING, "{count}: {:?}", began.elapsed());
        has_exceeded.store(false, Ordering::SeqCst);
        let (answer, took) = timed(&mut connection, &["PING"]).await;
        assert_eq!(answer, "PONG");
        assert!(at_its_deadline(took, Duration::from_millis(pause_ms)), "{count}: {took:?}");
    }
    // A connection that ends keeps its place as long.
    has_exceeded.store(true, Ordering::SeqCst);
    let mut pipe = subject.pipe(1 << 10);
    let began = Instant::now();
    pipe.write_all(b"PING\r\nPING\r\nQUIT\r\n").await.unwrap();
    let mut answers = String::new();
    pipe.read_to_string(&mut answers).await.unwrap();
    assert!(answers.ends_with("+OK\r\n"), "{answers}");
    assert!(at_its_deadline(began.elapsed(), Duration::from_millis(20)), "{:?}", began.elapsed());
}

/// Otherwise each name could cost as much as the longest request.
#[tokio::test]
async fn a_pattern_that_is_longer_than_ids_is_refused_at_once() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    let ids: Vec<String> = (0..1_000).map(|number| format!("id:{number}")).collect();
    for ids in ids.chunks(50) {
        let pairs = ids.iter().flat_map(|id| [id.as_str(), "1"]);
        connection.ask(&["MSET"].into_iter().chain(pairs).collect::<Vec<_>>()).await;
    }
    connection.ask(&["HSET", "h", "ab", "1"]).await;
    let set = |bytes: usize| format!("*[{}]b", "a".repeat(bytes));
    let (long, longest) = (set(1_000_000), set(1_020));
    for command in [&["SCAN", "0", "MATCH", &long][..], &["HSCAN", "h", "0", "MATCH", &long], &["CONFIG", "GET", &long]]
    {
        let answer = connection.ask(command).await.text();
        assert_eq!(answer, "ERR a pattern has at most 1024 bytes, not 1000004", "{}", command[0]);
    }
    let refused = get(&subject.router(), &format!("/records/?match={}", "a".repeat(1_025))).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.body);
    assert!(refused.body.contains("a pattern has at most 1024 bytes, not 1025"), "{}", refused.body);
    // The longest one, and many stars, take little time for many names.
    assert_eq!(connection.ask(&["HSCAN", "h", "0", "MATCH", &longest]).await.text(), "0 ab 1");
    for pattern in [longest, "*i".repeat(512)] {
        assert_eq!(connection.ask(&["SCAN", "0", "COUNT", "10000", "MATCH", &pattern]).await.text(), "0 ");
    }
}

#[tokio::test]
async fn a_write_that_stalls_is_unknown_at_its_deadline_and_keeps_later_ones_of_its_record_waiting() {
    let (subject, faults, mut connection) = stalling().await;
    tokio::time::pause();
    faults.next(Kind::Run, STALL);
    let (answer, took) = timed(&mut connection, &["SET", "a", "1"]).await;
    assert!(answer.starts_with("UNKNOWN whether the change was made is not known"), "{answer}");
    assert!(at_its_deadline(took, DEADLINE), "{took:?}");
    // The second write follows the first one, so the store refuses it, and it waits. While a thread of
    // the store refuses it, the clock of this test may jump to the deadline: before the thread has
    // begun with it, or after that.
    let (answer, took) = timed(&mut subject.connect(), &["SET", "a", "2"]).await;
    let refusals = ["DEADLINE ", "OVERLOADED the deadline passed ", "UNKNOWN whether the change was made is not known"];
    assert!(refusals.iter().any(|refusal| answer.starts_with(refusal)), "{answer}");
    assert!(at_its_deadline(took, DEADLINE), "{took:?}");
    assert_eq!(timed(&mut connection, &["GET", "a"]).await.0, "nothing");
    // The stall ends. The first write is made now, or refused because its deadline has passed. The second
    // one is never made.
    tokio::time::advance(Duration::from_secs(3_600)).await;
    tokio::time::resume();
    connection.ask(&["PENATES.DEADLINE", "60000"]).await;
    let counted = connection.ask(&["INCR", "a"]).await.text();
    assert!(["1", "2"].contains(&&*counted), "{counted}");
}

#[tokio::test]
async fn a_change_that_waits_for_its_record_keeps_none_waiting_that_were_sent_with_it() {
    let (subject, faults, mut connection) = stalling().await;
    faults.next(Kind::Run, STALL);
    // The write begins before its deadline, however slow the machine is.
    tokio::time::pause();
    assert!(connection.ask(&["SET", "hot", "1"]).await.text().starts_with("UNKNOWN "));
    tokio::time::resume();
    let mut other = subject.connect();
    other.ask(&["PENATES.DEADLINE", "3000"]).await;
    let sent: [&[&str]; 5] = [&["SET", "a", "1"], &["INCR", "hot"], &["GET", "b"], &["SET", "c", "1"], &["GET", "d"]];
    let answers = other.ask_all(&sent).await;
    let answers: Vec<String> = answers.iter().map(|answer| answer.text()).collect();
    assert!(answers[1].starts_with("DEADLINE "), "{answers:?}");
    assert_eq!([&*answers[0], &answers[2], &answers[3], &answers[4]], ["OK", "nothing", "OK", "nothing"]);
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

/// So many commands are at work at once.
const AT_WORK: usize = 1_024;

/// Asks over HTTP. Returns the status, the headers and how long it took.
async fn asked(
    router: &axum::Router,
    request: &str,
    body: &'static str,
    ms: Option<u64>,
) -> (StatusCode, HeaderMap, Duration, String) {
    let (method, path) = request.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    if let Some(ms) = ms {
        request = request.header("penates-deadline", ms);
    }
    let began = Instant::now();
    let response = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    (parts.status, parts.headers, began.elapsed(), String::from_utf8(body.to_vec()).unwrap())
}

/// Every command on records, with as few words as it may have, and some about several of them or
/// all. What the words say is looked at once the record is read.
async fn every_command(connection: &mut Connection) -> Vec<Vec<String>> {
    let Frame::List(commands) = connection.ask(&["COMMAND"]).await else { panic!("no list of commands") };
    assert!(commands.len() > 50, "{commands:?}");
    let commands = commands.iter().map(|command| {
        let Frame::List(parts) = command else { panic!("{command:?}") };
        let Frame::Integer(words) = &parts[1] else { panic!("{command:?}") };
        let words = usize::try_from(words.unsigned_abs()).unwrap();
        [vec![parts[0].text()], vec!["x".to_owned(); words - 1]].concat()
    });
    let others = ["SCAN 0", "DBSIZE", "WATCH x", "MGET x y", "MSET x 1 y 2", "DEL x y", "EXISTS x y"];
    let others = others.map(|command| command.split(' ').map(str::to_owned).collect::<Vec<_>>());
    commands.chain(others).collect()
}

#[tokio::test]
async fn every_command_on_records_ends_by_its_deadline_if_the_store_stalls() {
    let (_subject, faults, mut connection) = stalling().await;
    tokio::time::pause();
    for command in every_command(&mut connection).await {
        faults.next(Kind::Read, STALL);
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let (answer, took) = timed(&mut connection, &words).await;
        assert!(answer.starts_with("DEADLINE "), "{command:?}: {answer}");
        assert!(at_its_deadline(took, DEADLINE), "{command:?} took {took:?}");
    }
    connection.ask(&["UNWATCH"]).await;
    for command in ["MULTI", "INCR t", "GET t"] {
        connection.ask(&command.split(' ').collect::<Vec<_>>()).await;
    }
    faults.next(Kind::Read, STALL);
    let (answer, took) = timed(&mut connection, &["EXEC"]).await;
    assert!(answer.starts_with("DEADLINE ") && at_its_deadline(took, DEADLINE), "{answer} after {took:?}");
}

/// Each call of the store takes far longer than any deadline.
const ALL_STALL: Rates = Rates {
    delay: 1.0,
    max_delay: Duration::from_secs(100 * 24 * 3_600),
    unavailable: 0.0,
    unknown_applied: 0.0,
    unknown_not_applied: 0.0,
};

/// A door to a store that several servers seem to share, before its first record.
async fn shared(mode: Mode) -> (Subject, Arc<Faults>, Connection) {
    let settings = door_records::Settings { deadline: DEADLINE, ..settings() };
    let (subject, faults) = Subject::shared(mode, settings).await;
    let connection = subject.connect();
    (subject, faults, connection)
}

/// The same with the text `there` and the attributes `h`.
async fn shared_with_records(mode: Mode) -> (Subject, Arc<Faults>, Connection) {
    let (subject, faults, mut connection) = shared(mode).await;
    connection.ask(&["PENATES.DEADLINE", "60000"]).await;
    assert_eq!(connection.ask(&["SET", "there", "1"]).await.text(), "OK");
    assert_eq!(connection.ask(&["HSET", "h", "f", "1"]).await.text(), "1");
    connection.ask(&["RESET"]).await;
    (subject, faults, connection)
}

#[tokio::test]
async fn every_command_ends_by_its_deadline_in_a_shared_store_in_both_modes() {
    // In mode fast they are written without being read.
    let writes = [
        "HSET x f 1",
        "HMSET x f 1",
        "HSETEX x EX 9 FIELDS 1 f 1",
        "PENATES.HSET x EX 9 FIELDS 1 f 1",
        "HDEL x f",
        "SET x 1",
        "SETEX x 9 1",
        "PSETEX x 9 1",
        "MSET x 1 y 2",
        "DEL x y",
        "UNLINK x",
    ];
    for (mode, of_writes) in [(Mode::Atomic, "DEADLINE "), (Mode::Fast, "UNKNOWN ")] {
        let (subject, faults, mut connection) = shared_with_records(mode).await;
        let commands = every_command(&mut connection).await;
        let router = subject.router();
        tokio::time::pause();
        faults.set_rates(1, ALL_STALL);
        for command in commands {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let (answer, took) = timed(&mut connection, &words).await;
            let is_late = answer.starts_with("DEADLINE ") || answer.starts_with("UNKNOWN ");
            // What mode fast does not offer, and what it need not read, it refuses at once.
            let is_refused = mode == Mode::Fast && answer.starts_with("ERR ") && took < SCHEDULING;
            let is_in_time = is_late && at_its_deadline(took, DEADLINE) || is_refused;
            assert!(is_in_time, "{mode}: {command:?} took {took:?}: {answer}");
        }
        connection.ask(&["UNWATCH"]).await;
        for command in writes {
            let (answer, took) = timed(&mut connection, &command.split(' ').collect::<Vec<_>>()).await;
            assert!(answer.starts_with(of_writes), "{mode}: {command}: {answer}");
            assert!(at_its_deadline(took, DEADLINE), "{mode}: {command} took {took:?}");
        }
        for command in ["MULTI", "SET x 1"] {
            connection.ask(&command.split(' ').collect::<Vec<_>>()).await;
        }
        let (answer, took) = timed(&mut connection, &["EXEC"]).await;
        assert!(answer.starts_with(of_writes) && at_its_deadline(took, DEADLINE), "{mode}: {answer} after {took:?}");
        for (request, body) in [
            ("GET /records/x", ""),
            ("PUT /records/x", "{\"f\": 1}"),
            ("PATCH /records/x", "{\"f\": 1}"),
            ("DELETE /records/x", ""),
            ("GET /records/", ""),
        ] {
            let (status, _, took, answer) = asked(&router, request, body, Some(30)).await;
            assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{mode}: {request}: {answer}");
            assert!(at_its_deadline(took, Duration::from_millis(30)), "{mode}: {request} took {took:?}");
        }
        tokio::time::resume();
    }
}

/// A change asks a shared store several times. Each of its calls may be the one that stalls.
#[tokio::test]
async fn a_command_on_a_shared_store_ends_by_its_deadline_whichever_of_its_calls_stalls() {
    let prompt = (Kind::Read, Fault::Delay(Duration::from_millis(1)));
    let away = (Kind::Read, Fault::Unavailable);
    let (read, write) = ((Kind::Read, STALL), (Kind::Run, STALL));
    // Before the first record its mode is looked for in three reads, and then written.
    for mode in [Mode::Atomic, Mode::Fast] {
        let (_subject, faults, mut connection) = shared(mode).await;
        tokio::time::pause();
        for (calls, command) in [
            (&[read][..], "GET x"),
            (&[prompt, read], "GET x"),
            (&[prompt, prompt, read], "GET x"),
            (&[read], "SET x 1"),
            (&[prompt, prompt, read], "SET x 1"),
            (&[write], "SET x 1"),
        ] {
            calls.iter().for_each(|(kind, fault)| faults.next(*kind, *fault));
            let (answer, took) = timed(&mut connection, &command.split(' ').collect::<Vec<_>>()).await;
            assert!(answer.starts_with("DEADLINE "), "{mode}: {command} after {calls:?}: {answer}");
            assert!(at_its_deadline(took, DEADLINE), "{mode}: {command} after {calls:?} took {took:?}");
            assert!(!faults.is_scripted(), "{mode}: {command} has fewer calls than {calls:?}");
        }
        tokio::time::resume();
    }
    for (mode, calls, command, expected) in [
        // A usual read, one that misses no change, one that a majority answers, and a write.
        (Mode::Atomic, &[prompt, read][..], "DEL none", "DEADLINE "),
        (Mode::Atomic, &[prompt, away, read], "DEL none", "DEADLINE "),
        (Mode::Atomic, &[prompt, write], "INCR there", "UNKNOWN "),
        (Mode::Atomic, &[prompt, write], "DEL h", "UNKNOWN "),
        (Mode::Fast, &[prompt, write], "EXPIRE there 100", "UNKNOWN "),
        (Mode::Fast, &[prompt, write], "HEXPIRE h 100 FIELDS 1 f", "UNKNOWN "),
    ] {
        let (_subject, faults, mut connection) = shared_with_records(mode).await;
        tokio::time::pause();
        calls.iter().for_each(|(kind, fault)| faults.next(*kind, *fault));
        let (answer, took) = timed(&mut connection, &command.split(' ').collect::<Vec<_>>()).await;
        assert!(answer.starts_with(expected), "{mode}: {command} after {calls:?}: {answer}");
        assert!(at_its_deadline(took, DEADLINE), "{mode}: {command} after {calls:?} took {took:?}");
        assert!(!faults.is_scripted(), "{mode}: {command} has fewer calls than {calls:?}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn every_request_over_http_ends_by_its_deadline_if_the_store_stalls() {
    let (subject, faults, _) = stalling().await;
    let router = subject.router();
    tokio::time::pause();
    for (number, (request, body)) in [
        ("GET /records/a", ""),
        ("PUT /records/a", "{\"f\": 1}"),
        ("PATCH /records/a", "{\"f\": 1}"),
        ("DELETE /records/a", ""),
        ("GET /records/", ""),
    ]
    .into_iter()
    .enumerate()
    {
        faults.next(Kind::Read, STALL);
        let ms = 20 + number as u64;
        let (status, _, took, answer) = asked(&router, request, body, Some(ms)).await;
        assert_eq!(status, StatusCode::GATEWAY_TIMEOUT, "{request}: {answer}");
        assert!(at_its_deadline(took, Duration::from_millis(ms)), "{request} took {took:?}");
    }
    for (request, body) in [
        ("POST /records:batchGet", "\"a\"\n\"b\"\n"),
        ("POST /records:batchWrite", "{\"id\": \"a\", \"text\": \"1\"}\n{\"id\": \"b\", \"delete\": true}\n"),
    ] {
        (0..2).for_each(|_| faults.next(Kind::Read, STALL));
        let (status, _, took, answer) = asked(&router, request, body, Some(30)).await;
        assert_eq!(status, StatusCode::OK, "{request}: {answer}");
        assert_eq!(answer.matches("\"kind\":\"deadline\"").count(), 2, "{request}: {answer}");
        assert!(took <= Duration::from_millis(30) + SCHEDULING, "{request} took {took:?}");
    }
    // A door of its own: a line may have come to its deadline before it was read, and left its fault.
    tokio::time::resume();
    let (subject, faults, _) = stalling().await;
    let router = subject.router();
    tokio::time::pause();
    faults.next(Kind::Run, STALL);
    let (status, _, took, answer) = asked(&router, "PUT /records/a", "\"1\"", None).await;
    assert_eq!(status, StatusCode::GATEWAY_TIMEOUT);
    assert!(answer.contains("unknown-outcome") && at_its_deadline(took, DEADLINE), "{answer} after {took:?}");
}

/// A door to the records `there` and `too`, whose clock stands still. The next write stalls.
async fn stalling_write() -> (Subject, Arc<Faults>, Connection) {
    let (subject, faults, mut connection) = stalling().await;
    connection.ask(&["PENATES.DEADLINE", "60000"]).await;
    assert_eq!(connection.ask(&["MSET", "there", "1", "too", "2"]).await.text(), "OK");
    connection.ask(&["RESET"]).await;
    tokio::time::pause();
    faults.next(Kind::Run, STALL);
    (subject, faults, connection)
}

/// The store may still make it, so each kind has records of its own.
#[tokio::test]
async fn every_kind_of_write_is_unknown_at_its_deadline_if_the_store_stalls() {
    let kinds: [&[&str]; 5] = [
        &["HSET h f 1"],
        &["MSET a 1 b 2"],
        &["DEL there"],
        &["DEL there too"],
        &["MULTI", "SET a 1", "GET a", "EXEC"],
    ];
    for commands in kinds {
        let (_subject, _faults, mut connection) = stalling_write().await;
        let mut last = (String::new(), Duration::ZERO);
        for command in commands {
            last = timed(&mut connection, &command.split(' ').collect::<Vec<_>>()).await;
        }
        let (answer, took) = last;
        assert!(answer.starts_with("UNKNOWN "), "{commands:?}: {answer}");
        assert!(at_its_deadline(took, DEADLINE), "{commands:?} took {took:?}");
        tokio::time::resume();
    }
    let lines = "{\"id\": \"new\", \"text\": \"1\"}\n{\"id\": \"there\", \"delete\": true}\n";
    for (request, body, status, unknown) in [
        ("PATCH /records/new", "{\"f\": 1}", StatusCode::GATEWAY_TIMEOUT, 1),
        ("DELETE /records/there", "", StatusCode::GATEWAY_TIMEOUT, 1),
        ("POST /records:batchWrite", lines, StatusCode::OK, 2),
    ] {
        let (subject, faults, _) = stalling_write().await;
        // One for each line.
        (1..unknown).for_each(|_| faults.next(Kind::Run, STALL));
        let (found, _, took, answer) = asked(&subject.router(), request, body, None).await;
        assert_eq!(found, status, "{request}: {answer}");
        assert_eq!(answer.matches("\"kind\":\"unknown-outcome\"").count(), unknown, "{request}: {answer}");
        assert!(at_its_deadline(took, DEADLINE), "{request} took {took:?}");
        tokio::time::resume();
    }
}

#[tokio::test]
async fn what_cannot_end_by_its_deadline_is_refused_at_once_while_the_store_stalls() {
    let (subject, faults, mut connection) = stalling().await;
    let router = subject.router();
    tokio::time::pause();
    let wave = || join_all((0..AT_WORK).map(|_| asked(&router, "GET /records/a", "", None)));
    (0..2 * AT_WORK).for_each(|_| faults.next(Kind::Read, STALL));
    let began = Instant::now();
    let late = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        let (status, headers, took, answer) = asked(&router, "GET /records/a", "", Some(20)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
        assert!(answer.contains("\"kind\":\"overloaded\"") && headers.contains_key(header::RETRY_AFTER), "{answer}");
        assert!(took < SCHEDULING, "{took:?}");
    };
    let (first, ()) = tokio::join!(wave(), late);
    assert!(first.iter().all(|(status, ..)| *status == StatusCode::GATEWAY_TIMEOUT));
    assert!(began.elapsed() <= DEADLINE + 2 * SCHEDULING);
    // Those of the first wave took their whole time. So those that come when as many as are at work
    // wait already are refused at once.
    let queue = join_all((0..AT_WORK).map(|_| asked(&router, "GET /records/a", "", Some(1_000))));
    let late = async {
        tokio::time::sleep(SCHEDULING).await;
        let sent = [&["GET", "a"][..], &["SET", "a", "1"], &["MGET", "a", "b"], &["DBSIZE"], &["CLIENT", "LIST"]];
        for command in sent {
            let (answer, took) = timed(&mut connection, command).await;
            assert!(answer.starts_with("OVERLOADED the commands before this one take longer"), "{answer}");
            assert!(took < SCHEDULING, "{took:?}");
        }
        let (status, headers, took, answer) = asked(&router, "GET /records/", "", None).await;
        assert!(status == StatusCode::SERVICE_UNAVAILABLE && headers.contains_key(header::RETRY_AFTER), "{answer}");
        assert!(took < SCHEDULING, "{took:?}");
        let (_, _, _, answer) = asked(&router, "POST /records:batchGet", "\"a\"\n", None).await;
        assert!(answer.contains("\"kind\":\"overloaded\""), "{answer}");
    };
    let (second, queued, ()) = tokio::join!(wave(), queue, late);
    assert!(second.iter().all(|(status, ..)| *status == StatusCode::GATEWAY_TIMEOUT));
    assert!(queued.iter().all(|(status, ..)| *status == StatusCode::NOT_FOUND));
    // The stall is over, and there are places.
    assert_eq!(timed(&mut connection, &["GET", "a"]).await.0, "nothing");
}
