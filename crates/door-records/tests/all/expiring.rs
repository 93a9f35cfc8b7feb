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
