//! The door in mode fast, over a Cassandra keyspace that several servers share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::frame::Frame;
use crate::support::http::{get, patch, put, send};
use crate::support::{Connection, Subject, keyspace, runtime, settings};
use axum::body::Body;
use futures::future::join;
use http::{Method, StatusCode};
use records::Mode;
use serde_json::json;
use store::{Clock, SystemClock, UnixMillis};
use store_cassandra::{CassandraOptions, ClassLevels, Level, Levels};

/// A fresh keyspace with the levels for which the mode is made; `None` if no node can be started.
async fn options() -> Option<CassandraOptions> {
    let options = keyspace().await?;
    let record = ClassLevels { read: Level::LocalOne, write: Level::One };
    Some(CassandraOptions { levels: Levels { record, ..options.levels }, ..options })
}

async fn fast() -> Option<Subject> {
    Some(Subject::in_mode(options().await?, Mode::Fast).await)
}

/// Asks a line of words.
async fn ask(connection: &mut Connection, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    connection.ask(&words).await.text()
}

/// Asks until there is this answer: what expires goes when its time has come.
async fn until(connection: &mut Connection, line: &str, answer: &str) {
    let began = Instant::now();
    loop {
        let found = ask(connection, line).await;
        if found == answer {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{line}: {found}");
    }
}

/// Asks until it is refused.
async fn until_refused(connection: &mut Connection, line: &str) {
    let began = Instant::now();
    while !ask(connection, line).await.starts_with("ERR ") {
        assert!(began.elapsed() < Duration::from_secs(30), "{line} is not refused");
    }
}

/// A clock that is ahead of the others.
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> UnixMillis {
        SystemClock.now().plus(self.0)
    }
}

#[test]
fn attributes_and_texts_are_written_unread_and_counted_as_they_are_named() {
    runtime().block_on(async {
        let Some(subject) = fast().await else { return };
        let mut client = subject.connect();
        for (line, answer) in [
            ("HGETALL user:1", ""),
            ("HSET user:1 city Ulm visits 1 city Bonn", "2"),
            ("HSET user:1 city Ulm", "1"),
            ("HGETALL user:1", "city Ulm visits 1"),
            ("HMGET user:1 visits none", "1 nothing"),
            ("HLEN user:1", "2"),
            ("TYPE user:1", "hash"),
            ("HDEL user:1 visits none none", "2"),
            ("HKEYS user:1", "city"),
            // The last write decides the kind.
            ("SET user:1 text", "OK"),
            ("GET user:1", "text"),
            ("HGETALL user:1", "WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("HSET user:1 plan free", "1"),
            ("HGETALL user:1", "plan free"),
            ("HDEL user:1 plan", "1"),
            ("EXISTS user:1", "0"),
            ("MSET a 1 b 2 a 3", "OK"),
            ("MGET a b c", "3 2 nothing"),
            ("HSET h f v", "1"),
            ("DBSIZE", "3"),
            ("DEL a h a none", "4"),
            ("UNLINK none", "1"),
            ("EXISTS a b h", "1"),
            ("HGETALL h", ""),
            ("HSET h g w", "1"),
            ("HGETALL h", "g w"),
            ("DBSIZE", "2"),
        ] {
            assert_eq!(ask(&mut client, line).await, answer, "{line}");
        }
    });
}

#[test]
fn attributes_and_records_expire_at_absolute_times() {
    runtime().block_on(async {
        let Some(subject) = fast().await else { return };
        let mut client = subject.connect();
        for (line, answer) in [
            ("HSETEX a EXAT 9000001000 FIELDS 2 f 1 g 2", "1"),
            ("HEXPIRETIME a FIELDS 3 f g none", "9000001000 9000001000 -2"),
            ("HPERSIST a FIELDS 2 g none", "1 -2"),
            ("HEXPIREAT a 9000000500 FIELDS 3 f g none", "1 1 -2"),
            ("HEXPIRETIME a FIELDS 2 f g", "9000000500 9000000500"),
            ("HEXPIREAT a 9000000100 GT FIELDS 1 f", "0"),
            ("HEXPIREAT a 9000000100 LT FIELDS 1 f", "1"),
            ("HSET a g 3", "1"),
            ("HEXPIRETIME a FIELDS 2 f g", "9000000100 -1"),
            ("HGETEX a EXAT 9000000050 FIELDS 2 f g", "1 3"),
            ("HEXPIRETIME a FIELDS 2 f g", "9000000050 9000000050"),
            ("HEXPIRE a 0 FIELDS 1 f", "2"),
            ("HGETALL a", "g 3"),
            // An expiry of the record is that of the attributes that are there.
            ("HPERSIST a FIELDS 1 g", "1"),
            ("EXPIRETIME a", "-1"),
            ("EXPIREAT a 9000001000", "1"),
            ("EXPIRETIME a", "9000001000"),
            ("HSET a later 1", "1"),
            ("EXPIRETIME a", "-1"),
            ("HEXPIRETIME a FIELDS 2 g later", "9000001000 -1"),
            ("EXPIREAT a 9000002000", "1"),
            ("EXPIRETIME a", "9000002000"),
            // No attribute keeps an earlier one.
            ("HSET a later 2", "1"),
            ("HEXPIRETIME a FIELDS 2 g later", "9000002000 -1"),
            ("EXPIREAT a 9000003000", "1"),
            ("HEXPIRETIME a FIELDS 2 g later", "-1 -1"),
            ("EXPIRETIME a", "9000003000"),
            ("PERSIST a", "1"),
            ("EXPIRETIME a", "-1"),
            ("EXPIREAT none 9000001000", "0"),
            ("EXPIRE a -1", "1"),
            ("EXISTS a", "0"),
            ("PENATES.HSET p EXAT 9000001000 FIELDS 2 f 1 f 2", "1"),
            ("EXPIRETIME p", "9000001000"),
            ("HEXPIRETIME p FIELDS 1 f", "-1"),
            // What is not named keeps its expiry, and here it has none.
            ("HSET p g 3", "1"),
            ("PENATES.HSET p EXAT 9000002000 FIELDS 1 f 4", "1"),
            ("EXPIRETIME p", "-1"),
            ("HEXPIRETIME p FIELDS 2 f g", "9000002000 -1"),
            ("PENATES.HSET p PERSIST FIELDS 1 f 5", "1"),
            ("HEXPIRETIME p FIELDS 1 f", "-1"),
            ("PENATES.HSET p EXAT 1 FIELDS 1 f 6", "1"),
            ("HGETALL p", "g 3"),
            ("DEL p", "1"),
            ("SET t text EXAT 9000001000", "OK"),
            ("EXPIRETIME t", "9000001000"),
            ("GETEX t PERSIST", "text"),
            ("EXPIRETIME t", "-1"),
            ("SET t new", "OK"),
        ] {
            assert_eq!(ask(&mut client, line).await, answer, "{line}");
        }
        assert_eq!(ask(&mut client, "HSET soon f 1 g 2").await, "2");
        assert_eq!(ask(&mut client, "HPEXPIRE soon 1 FIELDS 1 f").await, "1");
        until(&mut client, "HGETALL soon", "g 2").await;
        assert_eq!(ask(&mut client, "PEXPIRE soon 1").await, "1");
        until(&mut client, "EXISTS soon", "0").await;
        until(&mut client, "DBSIZE", "1").await;
        assert_eq!(ask(&mut client, "PSETEX soon").await.split(' ').next(), Some("ERR"));
        assert_eq!(ask(&mut client, "SET soon text PX 1").await, "OK");
        until(&mut client, "GET soon", "nothing").await;
        assert_eq!(ask(&mut client, "HSET soon h 3").await, "1");
        assert_eq!(ask(&mut client, "HGETALL soon").await, "h 3");
    });
}

#[test]
fn what_depends_on_what_is_stored_is_refused_and_changes_nothing() {
    runtime().block_on(async {
        let Some(subject) = fast().await else { return };
        let mut client = subject.connect();
        ask(&mut client, "HSET a f 1").await;
        ask(&mut client, "SET t 1").await;
        for line in [
            "HSETNX a g 1",
            "HINCRBY a f 1",
            "HINCRBYFLOAT a f 1",
            "HGETDEL a FIELDS 1 f",
            "HSETEX a NX FIELDS 1 g 1",
            "HSETEX a XX FIELDS 1 f 2",
            "HSETEX a FNX FIELDS 1 g 1",
            "HSETEX a FXX FIELDS 1 f 2",
            "HSETEX a KEEPTTL FIELDS 1 f 2",
            "PENATES.HSET a NX FIELDS 1 g 1",
            "PENATES.HSET a XX EX 100 FIELDS 1 f 2",
            "PENATES.HSET a FNX FIELDS 1 g 1",
            "PENATES.HSET a FXX FIELDS 1 f 2",
            "PENATES.HSET a KEEPTTL FIELDS 1 f 2",
            "SET t 2 NX",
            "SET t 2 XX",
            "SET t 2 GET",
            "SET t 2 KEEPTTL",
            "GETDEL t",
            "INCR t",
            "INCRBY t 1",
            "DECR t",
            "DECRBY t 1",
            "APPEND t 1",
            "WATCH a",
        ] {
            let refused = ask(&mut client, line).await;
            assert!(refused.starts_with("ERR ") && refused.contains("mode fast"), "{line}: {refused}");
        }
        assert_eq!(ask(&mut client, "HGETALL a").await, "f 1");
        assert_eq!(ask(&mut client, "GET t").await, "1");
        let long = format!("HSET a {} v", "n".repeat(1_025));
        assert!(ask(&mut client, &long).await.starts_with("ERR the name of an attribute"));
    });
}

#[test]
fn a_transaction_that_only_writes_is_one_write_and_another_writes_nothing() {
    runtime().block_on(async {
        let Some(subject) = fast().await else { return };
        let mut client = subject.connect();
        ask(&mut client, "HSET a old 1").await;
        for line in ["MULTI", "DEL a", "HSET a f 1 g 2", "HDEL a g", "HSETEX a EXAT 9000001000 FIELDS 1 h 3"] {
            ask(&mut client, line).await;
        }
        assert_eq!(ask(&mut client, "EXEC").await, "1 2 1 1");
        assert_eq!(ask(&mut client, "HGETALL a").await, "f 1 h 3");
        for line in ["MULTI", "SET a text", "HGETALL a"] {
            ask(&mut client, line).await;
        }
        assert!(ask(&mut client, "EXEC").await.contains("mode fast"));
        assert_eq!(ask(&mut client, "HGETALL a").await, "f 1 h 3");
    });
}

#[test]
fn a_wrong_command_of_a_transaction_is_one_error_and_the_others_are_written() {
    runtime().block_on(async {
        let (subject, _faults) = Subject::shared(Mode::Fast, settings()).await;
        let mut client = subject.connect();
        for line in ["MULTI", "HSET a f 1", "SET a 2 EX x", "HSETEX a EX 9 FIELDS 2 g 2", "HSET a h 3"] {
            ask(&mut client, line).await;
        }
        let Frame::List(answers) = client.ask(&["EXEC"]).await else { panic!("no list of answers") };
        let answers: Vec<String> = answers.iter().map(Frame::text).collect();
        assert_eq!(answers.len(), 4, "{answers:?}");
        assert_eq!((&*answers[0], &*answers[3]), ("1", "1"));
        assert_eq!(answers[1], "ERR value is not an integer or out of range");
        assert!(answers[2].starts_with("ERR The `numfields` parameter must match"), "{answers:?}");
        assert_eq!(ask(&mut client, "HGETALL a").await, "f 1 h 3");
        // If all are wrong, nothing is written.
        for line in ["MULTI", "SET b 2 EX x"] {
            ask(&mut client, line).await;
        }
        assert_eq!(ask(&mut client, "EXEC").await, "ERR value is not an integer or out of range");
        assert_eq!(ask(&mut client, "EXISTS b").await, "0");
        // What mode fast does not offer is no mistake of one command.
        for refused in ["SET a 2 NX", "HSETEX a FNX FIELDS 1 g 1", "INCR a", "GET a"] {
            for line in ["MULTI", "HSET a f 4", refused] {
                ask(&mut client, line).await;
            }
            let answer = ask(&mut client, "EXEC").await;
            assert!(answer.starts_with("ERR ") && answer.contains("mode fast"), "{refused}: {answer}");
            assert_eq!(ask(&mut client, "HGETALL a").await, "f 1 h 3", "{refused}");
        }
    });
}

#[test]
fn the_last_write_of_each_attribute_wins_by_the_clocks() {
    runtime().block_on(async {
        let Some(options) = options().await else { return };
        // So far that this test ends before the other clock gets there.
        let ahead = Subject::with_clock(options.clone(), Mode::Fast, Arc::new(Ahead(Duration::from_secs(60)))).await;
        let usual = Subject::in_mode(options, Mode::Fast).await;
        let (mut ahead, mut usual) = (ahead.connect(), usual.connect());
        assert_eq!(ask(&mut ahead, "HSET a f ahead g ahead").await, "2");
        assert_eq!(ask(&mut usual, "HSET a f usual h usual").await, "2");
        assert_eq!(ask(&mut usual, "HGETALL a").await, "f ahead g ahead h usual");
        assert_eq!(ask(&mut usual, "DEL a").await, "1");
        assert_eq!(ask(&mut ahead, "HGETALL a").await, "f ahead g ahead");
        assert_eq!(ask(&mut ahead, "DEL a").await, "1");
        assert_eq!(ask(&mut usual, "EXISTS a").await, "0");
        // To set an expiry is no later than the value that it is set on.
        assert_eq!(ask(&mut usual, "HSET b f 1").await, "1");
        assert_eq!(ask(&mut ahead, "HEXPIREAT b 9000001000 FIELDS 1 f").await, "1");
        assert_eq!(ask(&mut usual, "HSET b f 2").await, "1");
        assert_eq!(ask(&mut ahead, "HGETALL b").await, "f 2");
        assert_eq!(ask(&mut ahead, "HEXPIRETIME b FIELDS 1 f").await, "-1");
    });
}

#[test]
fn a_keyspace_has_one_mode_and_servers_of_the_other_refuse() {
    runtime().block_on(async {
        for (first, second) in [(Mode::Atomic, Mode::Fast), (Mode::Fast, Mode::Atomic)] {
            let Some(options) = options().await else { return };
            let one = Subject::in_mode(options.clone(), first).await;
            let other = Subject::in_mode(options, second).await;
            let (mut one, mut other, router) = (one.connect(), other.connect(), other.router());
            assert_eq!(ask(&mut other, "EXISTS a").await, "0", "there are no records yet");
            assert_eq!(ask(&mut one, "HSET a f 1").await, "1");
            // What a server knows of a keyspace without records is a second old at most.
            until_refused(&mut other, "HGETALL a").await;
            for line in ["HGETALL a", "MGET a b", "SCAN 0", "HSET a f 2", "DEL a", "HEXPIRE a 5 FIELDS 1 f"] {
                let refused = ask(&mut other, line).await;
                assert!(refused.contains(&format!("are in mode {first}")), "{line}: {refused}");
            }
            let refused = get(&router, "/records/a").await;
            assert_eq!((refused.status, refused.json()["kind"].as_str()), (StatusCode::CONFLICT, Some("conflict")));
            assert_eq!(ask(&mut one, "HGETALL a").await, "f 1");
        }
    });
}

#[test]
fn servers_of_both_modes_that_write_first_at_once_agree_on_one() {
    runtime().block_on(async {
        let Some(options) = options().await else { return };
        let atomic = Subject::in_mode(options.clone(), Mode::Atomic).await;
        let fast = Subject::in_mode(options, Mode::Fast).await;
        let (mut one, mut other) = (atomic.connect(), fast.connect());
        let (one, other) = join(ask(&mut one, "HSET a f 1"), ask(&mut other, "HSET b f 1")).await;
        assert_eq!([&one, &other].iter().filter(|answer| **answer == "1").count(), 1, "{one}, {other}");
    });
}

#[test]
fn records_over_http_are_written_unread_and_without_conditions() {
    runtime().block_on(async {
        let Some(subject) = fast().await else { return };
        let (router, mut client) = (subject.router(), subject.connect());
        let later = SystemClock.now().0 + 3_600_000;
        let record = json!({"visits": 1, "city": "Ulm", "ends": {"value": "2", "expires_at": later - 1}});
        let path = format!("/records/a?expires_at={later}");
        assert_eq!(put(&router, &path, record).await.status, StatusCode::NO_CONTENT);
        let read = get(&router, "/records/a?expiries=true").await;
        let ends = json!({"value": "2", "expires_at": later - 1});
        assert_eq!(read.json(), json!({"city": "Ulm", "ends": ends, "visits": "1"}));
        assert_eq!(read.headers["penates-expires-at"], later.to_string());
        let known = [("if-none-match", read.etag())];
        let known = [(known[0].0, known[0].1.as_str())];
        let unchanged = send(&router, Method::GET, "/records/a", &known, Body::empty()).await;
        assert_eq!(unchanged.status, StatusCode::NOT_MODIFIED);
        assert_eq!(ask(&mut client, "HGETALL a").await, "city Ulm ends 2 visits 1");

        let change = json!({"visits": null, "city": "Bonn"});
        assert_eq!(patch(&router, "/records/a", change).await.status, StatusCode::NO_CONTENT);
        assert_eq!(get(&router, "/records/a").await.json(), json!({"city": "Bonn", "ends": "2"}));
        for (method, condition) in
            [(Method::PUT, "if-match"), (Method::PATCH, "if-none-match"), (Method::DELETE, "if-match")]
        {
            let refused = send(&router, method, "/records/a", &[(condition, "*")], json!({"x": "1"}).to_string()).await;
            assert_eq!((refused.status, refused.json()["kind"].as_str()), (StatusCode::CONFLICT, Some("not-offered")));
        }
        // An expiry in a patch is that of all attributes.
        let path = format!("/records/a?expires_at={later}");
        assert_eq!(patch(&router, &path, json!({"plan": "free"})).await.status, StatusCode::NO_CONTENT);
        assert_eq!(ask(&mut client, "PEXPIRETIME a").await, later.to_string());
        // So is that there is none. An attribute keeps its own.
        let lasting = patch(&router, "/records/a?persist=true", json!({"plan": "paid"})).await;
        assert_eq!(lasting.status, StatusCode::NO_CONTENT, "{}", lasting.body);
        assert_eq!(ask(&mut client, "PEXPIRETIME a").await, "-1");
        let expiries = ask(&mut client, "HPEXPIRETIME a FIELDS 3 city plan ends").await;
        assert_eq!(expiries, format!("-1 -1 {}", later - 1));
        assert_eq!(ask(&mut client, "HGET a plan").await, "paid");
        let missing = patch(&router, "/records/none?persist=true", json!({})).await;
        assert_eq!(missing.status, StatusCode::NOT_FOUND);
        assert_eq!(patch(&router, "/records/a?ttl_ms=0", json!({})).await.status, StatusCode::NO_CONTENT);
        assert_eq!(get(&router, "/records/a").await.status, StatusCode::NOT_FOUND);
        assert_eq!(patch(&router, "/records/a?ttl_ms=60000", json!({})).await.status, StatusCode::NOT_FOUND);
        assert_eq!(put(&router, "/records/a", json!("a text")).await.status, StatusCode::NO_CONTENT);
        assert_eq!(get(&router, "/records/a").await.json(), json!("a text"));
        for _ in 0..2 {
            let deleted = send(&router, Method::DELETE, "/records/a", &[], Body::empty()).await;
            assert_eq!(deleted.status, StatusCode::NO_CONTENT);
        }
        assert_eq!(get(&router, "/records/a").await.status, StatusCode::NOT_FOUND);
    });
}

#[test]
fn many_records_are_written_by_lines_and_a_listing_can_be_written_to_either_mode() {
    runtime().block_on(async {
        let Some(subject) = fast().await else { return };
        let router = subject.router();
        let mut lines: Vec<_> =
            (0..200).map(|n| json!({"id": format!("r{n}"), "attributes": {"n": n, "x": "y"}})).collect();
        lines.push(json!({"id": "r1", "patch": {"n": "changed", "x": null}}));
        lines.push(json!({"id": "r2", "delete": true}));
        lines.push(json!({"id": "r3", "text": "a text", "ttl_ms": 3600000}));
        lines.push(json!({"id": "r4", "delete": true, "if_match": "\"another\""}));
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let written = send(&router, Method::POST, "/records:batchWrite", &[], body).await.lines();
        let statuses: Vec<u64> = written.iter().map(|line| line["status"].as_u64().unwrap()).collect();
        assert_eq!(statuses[..203], [204; 203]);
        assert_eq!(statuses[203..], [409]);
        assert_eq!(get(&router, "/records/r1").await.json(), json!({"n": "changed"}));

        let copied = get(&router, "/records/?values=true").await;
        assert_eq!(copied.lines().len(), 199);
        let atomic = Subject::start().await.router();
        let loaded = send(&atomic, Method::POST, "/records:batchWrite", &[], copied.body).await.lines();
        assert!(loaded.iter().all(|line| line["status"] == 201), "{:?}", loaded[0]);
        let back = get(&atomic, "/records/?values=true").await.body;
        let loaded = send(&router, Method::POST, "/records:batchWrite", &[], back).await.lines();
        assert!(loaded.iter().all(|line| line["status"] == 204), "{:?}", loaded[0]);
        for id in ["r0", "r1", "r3"] {
            let path = format!("/records/{id}");
            assert_eq!(get(&router, &path).await.etag(), get(&atomic, &path).await.etag(), "{id}");
        }
    });
}

#[test]
fn a_record_that_is_too_large_to_be_read_is_not_put_and_can_be_deleted() {
    runtime().block_on(async {
        let Some(subject) = fast().await else { return };
        let (router, mut client) = (subject.router(), subject.connect());
        let value = "v".repeat(60_000);
        let large = json!({"a": value, "b": value, "c": value});
        assert_eq!(put(&router, "/records/a", large).await.json()["kind"], "too-large");
        assert_eq!(ask(&mut client, "EXISTS a").await, "0");
        for name in ["a", "b", "c"] {
            assert_eq!(ask(&mut client, &format!("HSET a {name} {value}")).await, "1");
        }
        assert!(ask(&mut client, "HGETALL a").await.starts_with("ERR a record has at most"));
        assert_eq!(get(&router, "/records/a").await.json()["kind"], "too-large");
        assert!(ask(&mut client, &format!("HSET a d {}", "v".repeat(70_000))).await.starts_with("ERR a record has"));
        assert_eq!(ask(&mut client, "HDEL a b").await, "1");
        assert_eq!(ask(&mut client, "HLEN a").await, "2");
        assert_eq!(ask(&mut client, "DEL a").await, "1");
        assert_eq!(ask(&mut client, "EXISTS a").await, "0");
    });
}

#[test]
fn a_record_takes_no_more_attributes_once_its_server_has_seen_that_it_is_too_large() {
    runtime().block_on(async {
        let (subject, _faults) = Subject::shared(Mode::Fast, settings()).await;
        let mut client = subject.connect();
        let value = "v".repeat(60_000);
        let mut names = 0;
        let refused = loop {
            let answer = ask(&mut client, &format!("HSET a f{names} {value}")).await;
            if answer != "1" {
                break answer;
            }
            names += 1;
            assert!(names < 20, "it grows without end");
        };
        assert!(refused.starts_with("ERR a record has at most 131072 bytes"), "{refused}");
        assert!(ask(&mut client, "HSET a g 1").await == "1", "what is left until the server looks");
        assert!(ask(&mut client, "HGETALL a").await.starts_with("ERR a record has at most"));
        assert_eq!(patch(&subject.router(), "/records/a", json!({"h": value})).await.json()["kind"], "too-large");
        // Others do not wait for that, and it can be made smaller.
        assert_eq!(ask(&mut client, &format!("HSET b f {value}")).await, "1");
        let all: Vec<String> = (0..names).map(|n| format!("f{n}")).collect();
        assert_eq!(ask(&mut client, &format!("HDEL a {}", all.join(" "))).await, names.to_string());
        assert_eq!(ask(&mut client, &format!("HSET a f0 {value}")).await, "1");
        assert_eq!(ask(&mut client, "HLEN a").await, "2");
    });
}

#[test]
fn a_record_of_more_attributes_than_one_list_has_steps_expires_as_a_whole() {
    runtime().block_on(async {
        let Some(subject) = fast().await else { return };
        let mut client = subject.connect();
        let pairs: Vec<String> = (0..1_500).map(|n| format!("n{n} {n}")).collect();
        assert_eq!(ask(&mut client, &format!("HSET a {}", pairs.join(" "))).await, "1500");
        assert_eq!(ask(&mut client, "EXPIREAT a 9000001000").await, "1");
        assert_eq!(ask(&mut client, "HLEN a").await, "1500");
        assert_eq!(ask(&mut client, "EXPIRETIME a").await, "9000001000");
    });
}
