//! Records over HTTP, and the same records by both doors.
//!
//! The tests that are named in [`over_each_engine`] run over a data folder and over a keyspace.

use std::sync::Arc;
use std::time::Duration;

use crate::support::http::{get, patch, put, send};
use crate::support::stores::Gate;
use crate::support::{Subject, keyspace, settings};
use axum::body::Body;
use budget::Memory;
use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use store::faults::{Fault, Faults, Kind};
use store::{Clock, SystemClock};
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

macro_rules! over_each_engine {
    ($($test:ident)*) => {
        mod over_a_folder {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::Subject::start().await).await;
            })*
        }

        mod over_a_keyspace {
            $(#[tokio::test]
            async fn $test() {
                // A missing node was reported.
                let Some(options) = super::keyspace().await else { return };
                super::$test(super::Subject::on_cassandra(options).await).await;
            })*
        }
    };
}

over_each_engine! {
    a_record_is_put_read_changed_and_deleted
    a_patch_that_sets_nothing_makes_no_record
    a_condition_that_does_not_hold_changes_nothing
    records_and_attributes_expire_at_the_time_that_is_said
    a_record_is_the_same_by_both_doors
    bytes_that_are_no_text_have_a_form
    a_number_is_stored_as_the_text_that_was_sent
    many_records_are_written_and_read_line_by_line_in_their_order
    a_parameter_that_is_not_known_is_refused
}

/// A misspelt time to live would keep a record for ever.
async fn a_parameter_that_is_not_known_is_refused(subject: Subject) {
    let router = subject.router();
    let put = put(&router, "/records/user:3?ttl=5", json!({"a": 1})).await;
    assert_eq!(put.status, StatusCode::BAD_REQUEST, "{}", put.body);
    assert!(put.body.contains("`ttl`") && put.body.contains("ttl_ms"), "{}", put.body);
    for path in ["/records/user:3?attribute=a", "/records/?matches=user*"] {
        assert_eq!(get(&router, path).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    assert_eq!(get(&router, "/records/user:3").await.status, StatusCode::NOT_FOUND);
}

async fn a_record_is_put_read_changed_and_deleted(subject: Subject) {
    let router = subject.router();
    assert_eq!(get(&router, "/records/user:1").await.status, StatusCode::NOT_FOUND);
    let record = r#"{"city":"Ulm","visits":1,"plan":"free"}"#;
    let made = send(&router, Method::PUT, "/records/user:1", &[], record).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let read = get(&router, "/records/user:1").await;
    assert_eq!(read.body, r#"{"city":"Ulm","visits":"1","plan":"free"}"#, "in the order in which they were sent");
    assert_eq!(read.etag(), made.etag());
    let part = get(&router, "/records/user:1?attributes=visits,none,city").await;
    assert_eq!(part.body, r#"{"visits":"1","city":"Ulm"}"#);

    let changed = patch(&router, "/records/user:1", json!({"plan": null, "city": "Bonn"})).await;
    assert_eq!(changed.status, StatusCode::NO_CONTENT);
    assert_ne!(changed.etag(), made.etag());
    assert_eq!(get(&router, "/records/user:1").await.json(), json!({"city": "Bonn", "visits": "1"}));
    let put_again = put(&router, "/records/user:1", json!("a text")).await;
    assert_eq!(put_again.status, StatusCode::NO_CONTENT);
    assert_eq!(get(&router, "/records/user:1").await.body, "\"a text\"");
    assert_eq!(patch(&router, "/records/user:1", json!({"a": "b"})).await.status, StatusCode::CONFLICT);

    for status in [StatusCode::NO_CONTENT, StatusCode::NOT_FOUND] {
        assert_eq!(send(&router, Method::DELETE, "/records/user:1", &[], Body::empty()).await.status, status);
    }
    assert_eq!(get(&router, "/records/user:1").await.status, StatusCode::NOT_FOUND);
    let made = patch(&router, "/records/a%2Fb", json!({"x": "1"})).await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert_eq!(get(&router, "/records/a%2Fb").await.json(), json!({"x": "1"}));
}

async fn a_patch_that_sets_nothing_makes_no_record(subject: Subject) {
    let router = subject.router();
    for (path, change) in [
        ("/records/none?ttl_ms=60000", json!({})),
        ("/records/none", json!({})),
        ("/records/none?ttl_ms=60000", json!({"a": null})),
    ] {
        let refused = patch(&router, path, change.clone()).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{path} {change}: {}", refused.body);
        assert_eq!(refused.json()["kind"], "absent");
    }
    let line = json!({"id": "none", "patch": {}, "ttl_ms": 60000}).to_string();
    let refused = send(&router, Method::POST, "/records:batchWrite", &[], line).await.lines();
    assert_eq!((&refused[0]["status"], &refused[0]["kind"]), (&json!(404), &json!("absent")));
    assert_eq!(get(&router, "/records/none").await.status, StatusCode::NOT_FOUND);
}

async fn a_condition_that_does_not_hold_changes_nothing(subject: Subject) {
    let router = subject.router();
    let if_match = async |tag: &str, value: &str| {
        send(&router, Method::PUT, "/records/a", &[("if-match", tag)], json!({ "v": value }).to_string()).await
    };
    assert_eq!(if_match("*", "1").await.status, StatusCode::PRECONDITION_FAILED);
    let first = put(&router, "/records/a", json!({"v": "first"})).await.etag();
    let second = if_match(&first, "second").await;
    assert_eq!(second.status, StatusCode::NO_CONTENT);
    assert_eq!(if_match(&first, "third").await.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!(get(&router, "/records/a").await.json(), json!({"v": "second"}));
    let only_new = [("if-none-match", "*")];
    let refused = send(&router, Method::PATCH, "/records/a", &only_new, json!({"w": "1"}).to_string()).await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    let made = send(&router, Method::PUT, "/records/b", &only_new, json!({"w": "1"}).to_string()).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let unreadable = [("if-none-match", "abc")];
    for id in ["a", "c"] {
        let path = format!("/records/{id}");
        let refused = send(&router, Method::PUT, &path, &unreadable, json!({"w": "1"}).to_string()).await;
        assert_eq!((refused.status, &refused.json()["kind"]), (StatusCode::BAD_REQUEST, &json!("malformed-header")));
    }
    assert_eq!(get(&router, "/records/a").await.json(), json!({"v": "second"}));
    assert_eq!(get(&router, "/records/c").await.status, StatusCode::NOT_FOUND);
    let stale = [("if-match", first.as_str())];
    let refused = send(&router, Method::DELETE, "/records/a", &stale, Body::empty()).await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    let known = [("if-none-match", second.etag())];
    let known = [(known[0].0, known[0].1.as_str())];
    assert_eq!(send(&router, Method::GET, "/records/a", &known, Body::empty()).await.status, StatusCode::NOT_MODIFIED);
}

async fn records_and_attributes_expire_at_the_time_that_is_said(subject: Subject) {
    let (router, mut redis) = (subject.router(), subject.connect());
    let later = SystemClock.now().0 + 3_600_000;
    let path = format!("/records/a?expires_at={later}");
    let sent =
        json!({"lasts": "1", "ends": {"value": "2", "expires_at": later - 1}, "gone": {"value": "3", "ttl_ms": 0}});
    assert_eq!(put(&router, &path, sent).await.status, StatusCode::CREATED);
    let read = get(&router, "/records/a?expiries=true").await;
    assert_eq!(read.json(), json!({"lasts": "1", "ends": {"value": "2", "expires_at": later - 1}}));
    assert_eq!(read.headers["penates-expires-at"], later.to_string());
    assert_eq!(get(&router, "/records/a").await.json(), json!({"lasts": "1", "ends": "2"}));
    assert_eq!(redis.ask(&["PEXPIRETIME", "a"]).await.text(), later.to_string());
    assert_eq!(redis.ask(&["HPEXPIRETIME", "a", "FIELDS", "1", "ends"]).await.text(), (later - 1).to_string());
    // A patch keeps the expiry of the record, unless it says another.
    patch(&router, "/records/a", json!({"ends": "lasts now"})).await;
    assert_eq!(get(&router, "/records/a?expiries=true").await.json(), json!({"lasts": "1", "ends": "lasts now"}));
    assert_eq!(redis.ask(&["PEXPIRETIME", "a"]).await.text(), later.to_string());
    // It also says that there shall be none.
    let lasting = patch(&router, "/records/a?persist=true", json!({"more": "3"})).await;
    assert_eq!(lasting.status, StatusCode::NO_CONTENT, "{}", lasting.body);
    assert_eq!(redis.ask(&["PEXPIRETIME", "a"]).await.text(), "-1");
    let read = get(&router, "/records/a").await;
    assert_eq!(read.json(), json!({"lasts": "1", "ends": "lasts now", "more": "3"}));
    assert!(!read.headers.contains_key("penates-expires-at"), "{:?}", read.headers);
    patch(&router, &path, json!({})).await;
    assert_eq!(redis.ask(&["PEXPIRETIME", "a"]).await.text(), later.to_string());
    let line = json!({"id": "a", "patch": {}, "persist": true}).to_string();
    let changed = send(&router, Method::POST, "/records:batchWrite", &[], line).await.lines();
    assert_eq!((&changed[0]["status"], redis.ask(&["PTTL", "a"]).await.text().as_str()), (&json!(204), "-1"));
    for time in ["ttl_ms=1", "expires_at=2"] {
        let both = patch(&router, &format!("/records/a?persist=true&{time}"), json!({})).await;
        assert_eq!(both.status, StatusCode::BAD_REQUEST);
        assert!(both.body.contains("either persist or a time, not both"), "{}", both.body);
    }
    patch(&router, "/records/a?ttl_ms=0", json!({})).await;
    assert_eq!(get(&router, "/records/a").await.status, StatusCode::NOT_FOUND);
    let both = put(&router, "/records/a?ttl_ms=1&expires_at=2", json!({"a": "b"})).await;
    assert_eq!(both.status, StatusCode::BAD_REQUEST);
    let both = json!({"a": {"value": "b", "ttl_ms": 60000, "expires_at": later}});
    for refused in [put(&router, "/records/a", both.clone()).await, patch(&router, "/records/a", both).await] {
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(refused.body.contains("either expires_at or ttl_ms, not both"), "{}", refused.body);
    }
    assert_eq!(get(&router, "/records/a").await.status, StatusCode::NOT_FOUND);
}

async fn a_record_is_the_same_by_both_doors(subject: Subject) {
    let (router, mut redis) = (subject.router(), subject.connect());
    put(&router, "/records/a", json!({"city": "Ulm", "n": 4})).await;
    assert_eq!(redis.ask(&["HGETALL", "a"]).await.text(), "city Ulm n 4");
    let before = get(&router, "/records/a").await.etag();
    assert_eq!(redis.ask(&["HINCRBY", "a", "n", "1"]).await.text(), "5");
    let after = get(&router, "/records/a").await;
    assert_eq!(after.json(), json!({"city": "Ulm", "n": "5"}));
    assert_ne!(after.etag(), before);
    assert_eq!(redis.ask(&["SET", "t", "text"]).await.text(), "OK");
    assert_eq!(get(&router, "/records/t").await.json(), json!("text"));
    assert_eq!(send(&router, Method::DELETE, "/records/t", &[], Body::empty()).await.status, StatusCode::NO_CONTENT);
    assert_eq!(redis.ask(&["EXISTS", "t", "a"]).await.text(), "1");
}

async fn bytes_that_are_no_text_have_a_form(subject: Subject) {
    let router = subject.router();
    put(
        &router,
        "/records/a",
        json!({"bytes": {"base64": "/wA="}, "mixed": {"value": {"base64": "YQ=="}, "ttl_ms": 60000}}),
    )
    .await;
    assert_eq!(get(&router, "/records/a").await.json(), json!({"bytes": {"base64": "/wA="}, "mixed": "a"}));
    let line = json!({"id": {"base64": "/w=="}, "text": {"base64": "/wA="}}).to_string();
    let written = send(&router, Method::POST, "/records:batchWrite", &[], line).await;
    assert_eq!(written.lines(), [json!({"id": {"base64": "/w=="}, "status": 201})]);
    let read = send(&router, Method::POST, "/records:batchGet", &[], r#"{"id": {"base64": "/w=="}}"#).await;
    assert_eq!(read.lines()[0]["text"], json!({"base64": "/wA="}));
}

async fn a_number_is_stored_as_the_text_that_was_sent(subject: Subject) {
    let router = subject.router();
    let numbers = ["12345678901234567890123", "1.10", "1e2", "-0", "0.1234567890123456789", "1E+400", "7"];
    let object = |value: fn(&str) -> String| {
        let pairs = numbers.iter().enumerate().map(|(place, number)| format!("\"n{place}\": {}", value(number)));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
    };
    let plain = object(|number| format!(" {number} "));
    let expiring = object(|number| format!("{{\"value\": {number}, \"ttl_ms\": 3600000}}"));
    let read = object(|number| format!("\"{number}\""));
    let read: Value = serde_json::from_str(&read).unwrap();
    for (method, id, sent) in [(Method::PUT, "a", &plain), (Method::PUT, "b", &expiring), (Method::PATCH, "a", &plain)]
    {
        let path = format!("/records/{id}");
        let written = send(&router, method, &path, &[], sent.clone()).await;
        assert!(written.status.is_success(), "{}", written.body);
        assert_eq!(get(&router, &path).await.json(), read, "{sent}");
    }
    let lines = format!("{{\"id\": 1.10, \"text\": 1e2}}\n{{\"id\": \"c\", \"attributes\": {plain}}}\n");
    let written = send(&router, Method::POST, "/records:batchWrite", &[], lines).await.lines();
    assert!(written.iter().all(|line| line["status"] == 201), "{written:?}");
    let asked = "{\"id\": 1.10}\n\"c\"\n";
    let found = send(&router, Method::POST, "/records:batchGet", &[], asked).await.lines();
    assert_eq!((&found[0]["id"], &found[0]["text"]), (&json!("1.10"), &json!("1e2")));
    assert_eq!(found[1]["attributes"], read);
}

async fn many_records_are_written_and_read_line_by_line_in_their_order(subject: Subject) {
    let router = subject.router();
    let mut lines: Vec<Value> =
        (0..300).map(|n| json!({"id": format!("r{n}"), "attributes": {"n": n, "x": "y"}})).collect();
    lines.push(json!({"id": "r1", "patch": {"n": "changed", "x": null}}));
    lines.push(json!({"id": "r2", "delete": true}));
    lines.push(json!({"id": "r3", "text": "a text", "ttl_ms": 3600000}));
    lines.push(json!({"id": "r4", "delete": true, "if_match": "\"another\""}));
    lines.push(json!({"id": "r5"}));
    let mut body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    body.push_str("no json\n");
    let written = send(&router, Method::POST, "/records:batchWrite", &[], body).await;
    let output = written.lines();
    let statuses: Vec<u64> = output.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses[..300], [201; 300]);
    assert_eq!(statuses[300..], [204, 204, 204, 412, 400, 400]);
    assert_eq!(output[299]["id"], "r299");
    assert_eq!(output[303]["kind"], "precondition-failed");

    let asked = "\"r1\"\n{\"id\":\"r2\"}\n\"r3\"\n{\"id\":\"r4\",\"attributes\":[\"x\"]}\n\"\"\n";
    let read = send(&router, Method::POST, "/records:batchGet", &[], asked).await.lines();
    assert_eq!(read[0]["attributes"], json!({"n": "changed"}));
    assert_eq!(read[1], json!({"id": "r2", "absent": true}));
    assert_eq!((&read[2]["text"], read[2]["expires_at"].is_u64()), (&json!("a text"), true));
    assert_eq!(read[3]["attributes"], json!({"x": "y"}));
    assert_eq!(read[4]["status"], 400);

    let listed = get(&router, "/records/?match=r29*").await.lines();
    assert_eq!(listed.len(), 11);
    let all = get(&router, "/records/?values=true").await.lines();
    assert_eq!(all.len(), 299);
    let copied = get(&router, "/records/?values=true").await.body;
    let other = Subject::start().await.router();
    let loaded = send(&other, Method::POST, "/records:batchWrite", &[], copied).await.lines();
    assert!(loaded.iter().all(|line| line["status"] == 201), "a listing can be written elsewhere: {:?}", loaded[0]);
    assert_eq!(get(&other, "/records/r1").await.etag(), get(&router, "/records/r1").await.etag());
}

/// An import that is repeated would otherwise replace what the server remembers of its clients.
#[tokio::test]
async fn lines_that_change_records_do_not_count_as_asking_for_them() {
    let subject = Subject::remembering().await;
    let router = subject.router();
    let lines: String = (0..50).map(|n| format!("{}\n", json!({"id": format!("user:{n}"), "text": "1"}))).collect();
    let patch_all: String = (0..50).map(|n| format!("{}\n", json!({"id": format!("user:{n}"), "patch": {}}))).collect();
    for body in [&lines, &lines, &lines, &patch_all] {
        let written = send(&router, Method::POST, "/records:batchWrite", &[], body.clone()).await.lines();
        assert_eq!(written.len(), 50);
    }
    assert_eq!(subject.records.hottest(), Vec::<Bytes>::new());
    put(&router, "/records/user:7", json!("2")).await;
    assert_eq!(subject.records.hottest(), [Bytes::from_static(b"user:7")]);
}

/// Each line that waits for its write would be refused with the first one, and begin again behind
/// later lines.
#[tokio::test]
async fn lines_on_one_record_happen_in_their_order_although_one_is_refused_late() {
    const LINES: usize = 66;
    let mut faults = None;
    let wrap = |store| Gate::new(faults.insert(Arc::new(Faults::new(store))).clone());
    let (subject, gate) = Subject::wrapped(wrap, Memory::new(64 << 20), settings()).await;
    let (router, faults) = (subject.router(), faults.unwrap());
    put(&router, "/records/a", json!("first")).await;
    let lines: Vec<String> =
        (0..LINES).map(|number| json!({"id": "a", "text": number.to_string()}).to_string()).collect();
    let closed = gate.closed().await;
    faults.next(Kind::Run, Fault::Overloaded);
    let opened = async {
        gate.keeps_waiting().await;
        // Until all that can begin have begun.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        drop(closed);
    };
    let sent = send(&router, Method::POST, "/records:batchWrite", &[], lines.join("\n"));
    let (answered, ()) = tokio::join!(sent, opened);
    let answers = answered.lines();
    assert_eq!((answers.len(), &answers[0]["kind"]), (LINES, &json!("overloaded")));
    assert!(answers[1..].iter().all(|answer| answer["status"] == 204), "{answers:?}");
    assert_eq!(get(&router, "/records/a").await.json(), json!((LINES - 1).to_string()));
}

/// A client may wait for an answer before it sends the next line.
#[tokio::test]
async fn the_answer_to_a_line_comes_while_the_request_still_arrives() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let subject = Subject::start().await;
    let router = subject.router();
    for (path, lines, member) in [
        ("/records:batchWrite", [json!({"id": "a", "text": "1"}), json!({"id": "b", "text": "2"})], "status"),
        ("/records:batchGet", [json!("a"), json!("b")], "text"),
    ] {
        let (sender, receiver) = mpsc::unbounded::<Result<Bytes, std::io::Error>>();
        let request = Request::post(path).body(Body::from_stream(receiver)).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let mut pieces = response.into_body().into_data_stream();
        for (line, id) in lines.iter().zip(["a", "b"]) {
            sender.unbounded_send(Ok(Bytes::from(format!("{line}\n")))).unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\n") {
                let piece = timeout(PATIENCE, pieces.next()).await.expect("no answer comes");
                answer.extend_from_slice(&piece.expect("the response has ended").unwrap());
            }
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert!(answer["id"] == id && !answer[member].is_null(), "{path}: {answer}");
        }
        drop(sender);
        assert!(timeout(PATIENCE, pieces.next()).await.unwrap().is_none(), "{path}");
    }
}

#[tokio::test]
async fn a_request_that_stalls_is_504_at_its_deadline() {
    let (subject, faults) = Subject::wrapped(Faults::new, Memory::new(1 << 20), settings()).await;
    let router = subject.router();
    tokio::time::pause();
    let in_20_ms = [("penates-deadline", "20")];
    let timed = async |method: Method, body: Body| {
        let began = Instant::now();
        let answered = send(&router, method, "/records/a", &in_20_ms, body).await;
        let took = began.elapsed();
        assert!((Duration::from_millis(20)..=Duration::from_millis(22)).contains(&took), "{took:?}");
        assert_eq!(answered.status, StatusCode::GATEWAY_TIMEOUT);
        answered.json()["kind"].as_str().unwrap().to_owned()
    };
    let stall = Fault::Delay(Duration::from_secs(3_600));
    faults.next(Kind::Read, stall);
    assert_eq!(timed(Method::GET, Body::empty()).await, "deadline");
    faults.next(Kind::Run, stall);
    assert_eq!(timed(Method::PUT, Body::from("{\"a\":\"b\"}")).await, "unknown-outcome");
    let unfinished = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    assert_eq!(timed(Method::PATCH, unfinished).await, "deadline");
    for wrong in ["0", "x", "-1", "99999999"] {
        let refused = send(&router, Method::GET, "/records/a", &[("penates-deadline", wrong)], Body::empty()).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{wrong}");
    }
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_with_its_reason() {
    let memory = Memory::new(64 << 20);
    let router = Subject::with(memory.clone(), settings()).await.router();
    let attributes: Vec<String> = (0..20_000).map(|number| format!("\"{number}\":1")).collect();
    for (record, kind) in [
        ("", "invalid"),
        ("[]", "invalid"),
        ("{}", "invalid"),
        ("{\"a\":{}}", "invalid"),
        ("{\"a\":true}", "invalid"),
        ("{\"a\":01}", "invalid"),
        ("{\"a\":[1]}", "invalid"),
        ("5", "invalid"),
        ("{\"a\":{\"base64\":\"?\"}}", "invalid"),
        (&"[".repeat(100_000), "invalid"),
        (&format!("{{{}}}", attributes.join(",")), "invalid"),
        (&json!({"a": "x".repeat(70_000)}).to_string(), "too-large"),
        (&json!({"a": "x".repeat(2 << 20)}).to_string(), "too-large"),
    ] {
        let refused = send(&router, Method::PUT, "/records/a", &[], record.to_owned()).await;
        let shown = &record[..record.len().min(40)];
        assert!(refused.status.is_client_error(), "{shown}: {}", refused.body);
        assert_eq!(refused.json()["kind"], kind, "{shown}: {}", refused.body);
    }
    let id = "k".repeat(1_025);
    assert_eq!(get(&router, &format!("/records/{id}")).await.json()["kind"], "invalid");
    let names = format!("{{\"id\":\"a\",\"attributes\":[{}]}}", vec!["\"\""; 100_000].join(","));
    let lines = send(&router, Method::POST, "/records:batchGet", &[], names).await.lines();
    assert_eq!(lines[0]["kind"], "invalid", "{lines:?}");
    let long = format!("\"a\"\n\"{}\"\n\"b\"\n", "x".repeat(2 << 20));
    let lines = send(&router, Method::POST, "/records:batchGet", &[], long).await.lines();
    assert_eq!((lines.len(), &lines[1]["kind"]), (2, &json!("too-large")), "nothing is read after it");
    assert_eq!(memory.taken_bytes(), 0);
}
