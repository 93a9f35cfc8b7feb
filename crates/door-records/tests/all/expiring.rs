//! Expiry, also by a clock that is moved by hand.

use std::sync::Arc;
use std::time::Duration;

use store::{Clock, ManualClock, UnixMillis};

use crate::support::{Connection, Subject};

/// The answer to a line of words, as people see it.
async fn ask(connection: &mut Connection, line: &str) -> String {
    connection.ask(&line.split(' ').collect::<Vec<_>>()).await.text()
}

#[tokio::test]
async fn what_has_expired_is_not_seen_again_when_the_clock_is_set_back() {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let begin = clock.now();
    let subject = Subject::by_clock(clock.clone()).await;
    let mut connection = subject.connect();
    assert_eq!(connection.ask(&["SET", "text", "1", "EX", "60"]).await.text(), "OK");
    assert_eq!(connection.ask(&["HSETEX", "hash", "EX", "60", "FIELDS", "1", "f", "1"]).await.text(), "1");
    assert_eq!(connection.ask(&["HSET", "hash", "g", "2"]).await.text(), "1");
    clock.advance(Duration::from_secs(61));
    for command in [&["GET", "text"][..], &["HGET", "hash", "f"]] {
        assert_eq!(connection.ask(command).await.text(), "nothing", "{command:?}");
    }
    clock.set(begin);
    for command in [&["GET", "text"][..], &["HGET", "hash", "f"]] {
        assert_eq!(connection.ask(command).await.text(), "nothing", "{command:?}");
    }
    assert_eq!(connection.ask(&["HKEYS", "hash"]).await.text(), "g");
}

#[tokio::test]
async fn attributes_are_set_only_if_there_is_a_record_or_if_there_is_none() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, expected) in [
        ("HSETEX a XX FIELDS 1 f 1", "0"),
        ("EXISTS a", "0"),
        ("HSETEX a NX FIELDS 1 f 1", "1"),
        ("HSETEX a NX FIELDS 1 f 2", "0"),
        ("HSETEX a XX FNX FIELDS 1 f 2", "0"),
        ("HSETEX a EX 100 XX FXX FIELDS 1 f 3", "1"),
        ("HGET a f", "3"),
        ("SET t 1", "OK"),
        ("HSETEX t NX FIELDS 1 f 1", "WRONGTYPE Operation against a key holding the wrong kind of value"),
    ] {
        assert_eq!(ask(&mut connection, command).await, expected, "{command}");
    }
    let both = ask(&mut connection, "HSETEX a NX XX FIELDS 1 f 4").await;
    assert!(both.starts_with("ERR "), "{both}");
}

/// As in Redis and Valkey.
#[tokio::test]
async fn an_option_about_an_expiry_may_come_again_and_the_last_one_counts() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, answer) in [
        ("SET text 1 EXAT 9000000000 EXAT 9000000001", "OK"),
        ("EXPIRETIME text", "9000000001"),
        ("SET text 2 KEEPTTL KEEPTTL", "OK"),
        ("GETEX text PERSIST PERSIST", "2"),
        ("EXPIRETIME text", "-1"),
        ("GETEX text EXAT 9000000000 EXAT 9000000002", "2"),
        ("EXPIRETIME text", "9000000002"),
        ("HSETEX hash EXAT 9000000000 FNX EXAT 9000000003 FIELDS 1 f 1", "1"),
        ("HEXPIRETIME hash FIELDS 1 f", "9000000003"),
        ("HSETEX hash KEEPTTL KEEPTTL FIELDS 1 f 2", "1"),
        ("HGETEX hash EXAT 9000000000 EXAT 9000000004 FIELDS 1 f", "2"),
        ("HEXPIRETIME hash FIELDS 1 f", "9000000004"),
        ("HGETEX hash PERSIST PERSIST FIELDS 1 f", "2"),
        ("HEXPIRETIME hash FIELDS 1 f", "-1"),
    ] {
        assert_eq!(ask(&mut connection, command).await, answer, "{command}");
    }
    for command in [
        "SET text 3 EX 5 PX 5",
        "SET text 3 EX 5 KEEPTTL",
        "SET text 3 KEEPTTL EX 5",
        "SET text 3 EX 5 EX",
        "GETEX text PERSIST EX 5",
        "GETEX text EX 5 PERSIST",
        "GETEX text EX 5 EXAT 5",
        "HSETEX hash KEEPTTL EX 5 FIELDS 1 f 3",
        "HSETEX hash EX 5 PX 5 FIELDS 1 f 3",
        "HGETEX hash PERSIST EX 5 FIELDS 1 f",
        "HGETEX hash EX 5 PERSIST FIELDS 1 f",
        "PENATES.HSET hash KEEPTTL PERSIST FIELDS 1 f 3",
    ] {
        let answer = ask(&mut connection, command).await;
        assert!(answer.starts_with("ERR "), "{command}: {answer}");
    }
    assert_eq!(ask(&mut connection, "GET text").await, "2");
    assert_eq!(ask(&mut connection, "HGETALL hash").await, "f 2");
}

#[tokio::test]
async fn a_time_in_seconds_is_the_nearest_one() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, expected) in [
        ("SET a 1 PXAT 9000000000600", "OK"),
        ("EXPIRETIME a", "9000000001"),
        ("SET a 1 PXAT 9000000000499", "OK"),
        ("EXPIRETIME a", "9000000000"),
        ("HSETEX h PXAT 9000000000500 FIELDS 1 f 1", "1"),
        ("HEXPIRETIME h FIELDS 1 f", "9000000001"),
    ] {
        assert_eq!(ask(&mut connection, command).await, expected, "{command}");
    }
}

#[tokio::test]
async fn attributes_that_are_set_or_read_with_a_time_that_has_passed_are_deleted() {
    const OTHER_KIND: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, expected) in [
        ("HSETEX a EX 0 FIELDS 1 f 1", "1"),
        ("EXISTS a", "0"),
        ("HSETEX a XX EX -1 FIELDS 1 f 1", "0"),
        ("HSETEX a EX -1 FIELDS 1 f 1", "ERR invalid expire time in 'hsetex' command"),
        ("HSET a f 1 g 2", "2"),
        ("HGETEX a EXAT 1 FIELDS 2 f f", "1 nothing"),
        ("HGETEX a EX -1 FIELDS 1 g", "ERR invalid expire time in 'hgetex' command"),
        ("HGETEX a PX 0 FIELDS 1 g", "2"),
        ("EXISTS a", "0"),
        ("SET t 1", "OK"),
        ("HSETEX t EX 0 FIELDS 1 f 1", OTHER_KIND),
        ("HSETEX t EX -1 FIELDS 1 f 1", OTHER_KIND),
        ("HGETEX t EX 0 FIELDS 1 f", OTHER_KIND),
    ] {
        assert_eq!(ask(&mut connection, command).await, expected, "{command}");
    }
}

#[tokio::test]
async fn attributes_and_the_expiry_of_their_record_are_set_by_one_command() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, expected) in [
        ("PENATES.HSET a EXAT 9000001000 FIELDS 2 f 1 g 2", "2"),
        ("EXPIRETIME a", "9000001000"),
        ("HEXPIRETIME a FIELDS 2 f g", "-1 -1"),
        ("HGETALL a", "f 1 g 2"),
        // Without an option the expiry stays, as with `HSET`.
        ("PENATES.HSET a FIELDS 2 f 3 h 4", "1"),
        ("EXPIRETIME a", "9000001000"),
        ("penates.hset a keepttl fields 1 f 5", "0"),
        ("EXPIRETIME a", "9000001000"),
        ("PENATES.HSET a PXAT 9000002000123 FIELDS 1 f 6", "0"),
        ("PEXPIRETIME a", "9000002000123"),
        ("PENATES.HSET a PERSIST FIELDS 1 i 7", "1"),
        ("TTL a", "-1"),
        ("HGETALL a", "f 6 g 2 h 4 i 7"),
        // What is set loses an expiry of its own, and what is not keeps it.
        ("HEXPIREAT a 9000000500 FIELDS 2 f g", "1 1"),
        ("PENATES.HSET a EXAT 9000001000 FIELDS 1 f 8", "0"),
        ("HEXPIRETIME a FIELDS 2 f g", "-1 9000000500"),
        ("PENATES.HSET b KEEPTTL FIELDS 2 f 1 f 2", "1"),
        ("HGETALL b", "f 2"),
        ("TTL b", "-1"),
        ("COMMAND INFO penates.hset", "penates.hset -6 write 1 1 1"),
    ] {
        assert_eq!(ask(&mut connection, command).await, expected, "{command}");
    }
}

#[tokio::test]
async fn a_record_that_is_set_for_a_time_is_gone_after_it() {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let subject = Subject::by_clock(clock.clone()).await;
    let mut connection = subject.connect();
    assert_eq!(ask(&mut connection, "PENATES.HSET a EX 60 FIELDS 1 f 1").await, "1");
    assert_eq!(ask(&mut connection, "PENATES.HSET b PX 1500 FIELDS 1 f 1").await, "1");
    assert_eq!(ask(&mut connection, "PTTL a").await, "60000");
    assert_eq!(ask(&mut connection, "PTTL b").await, "1500");
    clock.advance(Duration::from_millis(1_500));
    assert_eq!(ask(&mut connection, "EXISTS a b").await, "1");
    clock.advance(Duration::from_secs(60));
    assert_eq!(ask(&mut connection, "EXISTS a b").await, "0");
}

#[tokio::test]
async fn a_record_that_is_set_until_a_time_that_has_passed_is_deleted() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, expected) in [
        ("HSET a f 1", "1"),
        ("PENATES.HSET a EXAT 1 FIELDS 2 f 2 g 3", "1"),
        ("EXISTS a", "0"),
        ("PENATES.HSET a PXAT 1 FIELDS 1 f 1", "1"),
        ("EXISTS a", "0"),
    ] {
        assert_eq!(ask(&mut connection, command).await, expected, "{command}");
    }
}

#[tokio::test]
async fn neither_attributes_nor_the_expiry_are_set_if_a_condition_does_not_hold() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, expected) in [
        ("PENATES.HSET a XX EX 100 FIELDS 1 f 1", "nothing"),
        ("PENATES.HSET a FXX FIELDS 1 f 1", "nothing"),
        ("EXISTS a", "0"),
        ("PENATES.HSET a NX FNX EXAT 9000001000 FIELDS 1 f 1", "1"),
        ("PENATES.HSET a NX EXAT 9000002000 FIELDS 1 g 2", "nothing"),
        ("PENATES.HSET a PERSIST FNX FIELDS 2 f 2 g 2", "nothing"),
        ("PENATES.HSET a EXAT 1 FXX XX FIELDS 2 f 2 g 2", "nothing"),
        ("EXPIRETIME a", "9000001000"),
        ("HGETALL a", "f 1"),
        ("PENATES.HSET a XX FNX EXAT 9000003000 FIELDS 1 g 2", "1"),
        ("PENATES.HSET a FXX FIELDS 2 f 3 g 3", "0"),
        ("EXPIRETIME a", "9000003000"),
        ("HGETALL a", "f 3 g 3"),
    ] {
        assert_eq!(ask(&mut connection, command).await, expected, "{command}");
    }
}

#[tokio::test]
async fn a_refused_command_sets_neither_attributes_nor_the_expiry_of_their_record() {
    const FIELDS: &str = "Mandatory argument FIELDS is missing or not at the right position";
    const COUNT: &str = "The `numfields` parameter must match the number of arguments";
    const TIME: &str = "invalid expire time in 'penates.hset' command";
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    ask(&mut connection, "PENATES.HSET a EXAT 9000001000 FIELDS 1 f 1").await;
    ask(&mut connection, "SET t text").await;
    for (words, expected) in [
        ("FIELDS 1 f", "wrong number of arguments for 'penates.hset' command"),
        ("EX 5 f 9 g 9", FIELDS),
        ("NX XX FIELDS 1 f 9", FIELDS),
        ("FNX FXX FIELDS 1 f 9", FIELDS),
        ("EX 5 PX 5 FIELDS 1 f 9", FIELDS),
        ("EX 5 KEEPTTL FIELDS 1 f 9", FIELDS),
        ("KEEPTTL PERSIST FIELDS 1 f 9", FIELDS),
        ("PERSIST EXAT 5 FIELDS 1 f 9", FIELDS),
        ("EX 5 WHAT FIELDS 1 f 9", FIELDS),
        ("EX 5 FIELDS 0 f 9", "Parameter `numFields` should be greater than 0"),
        ("EX 5 FIELDS 2 f 9 g", COUNT),
        ("EX 5 FIELDS 1 f 9 g 9", COUNT),
        ("FIELDS 1 f 9 EX 5", COUNT),
        ("EX 0 FIELDS 1 f 9", TIME),
        ("PX -1 FIELDS 1 f 9", TIME),
        ("EX 9223372036854775807 FIELDS 1 f 9", TIME),
        ("EXAT x FIELDS 1 f 9", "value is not an integer or out of range"),
        ("EX 5 FIELDS 1 g large", "a record has at most 65536 bytes"),
    ] {
        let command = format!("PENATES.HSET a {words}").replace("large", &"v".repeat(70_000));
        let answer = ask(&mut connection, &command).await;
        assert!(answer.starts_with(&format!("ERR {expected}")), "{words}: {answer}");
    }
    assert_eq!(ask(&mut connection, "HGETALL a").await, "f 1");
    assert_eq!(ask(&mut connection, "EXPIRETIME a").await, "9000001000");
    for words in ["EX 5 FIELDS 1 f 9", "NX FIELDS 1 f 9", "FXX PERSIST FIELDS 1 f 9"] {
        let answer = ask(&mut connection, &format!("PENATES.HSET t {words}")).await;
        assert!(answer.starts_with("WRONGTYPE "), "{words}: {answer}");
    }
    assert_eq!(ask(&mut connection, "GET t").await, "text");
    assert_eq!(ask(&mut connection, "TTL t").await, "-1");
}

#[tokio::test]
async fn a_transaction_and_a_pipeline_have_the_expiry_too() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for command in ["MULTI", "PENATES.HSET a EXAT 9000001000 FIELDS 1 f 1", "HINCRBY a f 2", "EXPIRETIME a"] {
        ask(&mut connection, command).await;
    }
    assert_eq!(ask(&mut connection, "EXEC").await, "1 3 9000001000");
    let ids = ["b", "c", "d"];
    let set = ids.map(|id| ["PENATES.HSET", id, "EXAT", "9000002000", "FIELDS", "1", "f", "1"]);
    let asked = ids.map(|id| ["EXPIRETIME", id]);
    let sent: Vec<&[&str]> = set.iter().map(|words| &words[..]).chain(asked.iter().map(|words| &words[..])).collect();
    let answers: Vec<String> = connection.ask_all(&sent).await.iter().map(|answer| answer.text()).collect();
    assert_eq!(answers, ["1", "1", "1", "9000002000", "9000002000", "9000002000"]);
}
