//! Expiry by a clock that is moved by hand.

use std::sync::Arc;
use std::time::Duration;

use store::{Clock, ManualClock, UnixMillis};

use crate::support::Subject;

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
        let answer = connection.ask(&command.split(' ').collect::<Vec<_>>()).await.text();
        assert_eq!(answer, expected, "{command}");
    }
    let both = connection.ask(&["HSETEX", "a", "NX", "XX", "FIELDS", "1", "f", "4"]).await.text();
    assert!(both.starts_with("ERR "), "{both}");
}
