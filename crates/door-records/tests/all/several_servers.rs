//! The door over a Cassandra keyspace that several servers share.

use std::sync::Arc;
use std::time::Duration;

use crate::support::frame::Frame;
use crate::support::{Connection, Subject, keyspace, runtime};
use futures::future::join_all;
use records::Mode;
use store::{Clock, SystemClock, UnixMillis};
use store_cassandra::CassandraOptions;

/// Two servers of one keyspace; `None` if no node can be started, which was reported.
async fn two_servers() -> Option<[Subject; 2]> {
    let options = keyspace().await?;
    Some([Subject::on_cassandra(options.clone()).await, Subject::on_cassandra(options).await])
}

/// A clock that is a minute behind.
struct Behind;

impl Clock for Behind {
    fn now(&self) -> UnixMillis {
        UnixMillis(SystemClock.now().0 - 60_000)
    }
}

/// Adds one again and again. Returns how many answers there were, and how many were unknown.
async fn count(mut connection: Connection, key: &str, times: usize) -> (i64, i64) {
    let (mut answered, mut unknown) = (0, 0);
    for _ in 0..times {
        match connection.ask(&["HINCRBY", key, "count", "1"]).await {
            Frame::Integer(_) => answered += 1,
            Frame::Error(error) if error.starts_with("UNKNOWN ") => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    (answered, unknown)
}

#[test]
fn servers_that_change_one_record_at_once_lose_no_change() {
    runtime().block_on(async {
        let Some(servers) = two_servers().await else { return };
        let counting = servers.iter().flat_map(|server| (0..3).map(|_| count(server.connect(), "a", 12)));
        let counts = join_all(counting).await;
        let sum = |of: fn(&(i64, i64)) -> i64| counts.iter().map(of).sum::<i64>();
        let (answered, unknown) = (sum(|count| count.0), sum(|count| count.1));
        let stored: i64 = servers[0].connect().ask(&["HGET", "a", "count"]).await.text().parse().unwrap();
        assert!((answered..=answered + unknown).contains(&stored), "{stored} of {answered}, and perhaps {unknown}");
        assert!(answered > 0, "{unknown} are unknown");
    });
}

#[test]
fn what_has_expired_is_seen_on_no_server_and_can_be_made_again_on_each() {
    runtime().block_on(async {
        let Some(options) = keyspace().await else { return };
        let options = CassandraOptions { clock_skew_max: Some(Duration::from_secs(600)), ..options };
        let one = Subject::on_cassandra(options.clone()).await;
        let other = Subject::with_clock(options, Mode::Atomic, Arc::new(Behind)).await;
        let (mut one, mut other) = (one.connect(), other.connect());
        // Its own clock would set a time that has passed for others.
        assert_eq!(other.ask(&["SET", "c", "here", "PX", "55000"]).await.text(), "OK");
        assert_eq!(one.ask(&["GET", "c"]).await.text(), "here");
        assert_eq!(one.ask(&["DEL", "c"]).await.text(), "1");
        assert_eq!(one.ask(&["SET", "a", "first", "PX", "1"]).await.text(), "OK");
        assert_eq!(one.ask(&["HSET", "b", "stays", "1", "goes", "2"]).await.text(), "2");
        assert_eq!(one.ask(&["HPEXPIRE", "b", "1", "FIELDS", "1", "goes"]).await.text(), "1");
        let began = std::time::Instant::now();
        while other.ask(&["EXISTS", "a"]).await != Frame::Integer(0)
            || other.ask(&["HLEN", "b"]).await != Frame::Integer(1)
        {
            assert!(began.elapsed() < Duration::from_secs(30), "it is seen after it has expired");
        }
        assert_eq!(other.ask(&["HGETALL", "b"]).await.text(), "stays 1");
        assert_eq!(other.ask(&["SET", "a", "second", "NX"]).await.text(), "OK");
        assert_eq!(one.ask(&["SET", "a", "third", "NX"]).await.text(), "nothing");
        assert_eq!(one.ask(&["GET", "a"]).await.text(), "second");
        assert_eq!(one.ask(&["DEL", "a", "b", "c"]).await.text(), "2");
        assert_eq!(other.ask(&["EXISTS", "a", "b"]).await.text(), "0");
    });
}

#[test]
fn a_command_on_several_records_changes_each_of_them() {
    runtime().block_on(async {
        let Some([one, other]) = two_servers().await else { return };
        let (mut one, mut other) = (one.connect(), other.connect());
        let mut pairs = vec!["MSET".to_owned()];
        pairs.extend((0..20).flat_map(|number| [format!("k{}", number % 10), format!("v{number}")]));
        let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
        assert_eq!(one.ask(&pairs).await.text(), "OK");
        assert_eq!(other.ask(&["MGET", "k0", "k9", "k10"]).await.text(), "v10 v19 nothing");
        assert_eq!(other.ask(&["DBSIZE"]).await.text(), "10");
        assert_eq!(other.ask(&["DEL", "k0", "k0", "k1"]).await.text(), "2");
        assert_eq!(other.ask(&["DBSIZE"]).await.text(), "8");
    });
}
