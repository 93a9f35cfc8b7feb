//! The door over a Cassandra keyspace that several servers share.

use std::sync::Arc;
use std::time::Duration;

use crate::support::frame::Frame;
use crate::support::{Connection, Subject, keyspace, runtime};
use bytes::Bytes;
use futures::future::join_all;
use records::{Mode, Records};
use store::{Call, Class, Clock, Deadline, ManualClock, Store, SystemClock, Table, UnixMillis};
use store_cassandra::{CassandraOptions, CassandraStore};

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

fn within() -> Deadline {
    Deadline::within(Duration::from_secs(60))
}

/// Asks lines of words, each of which has its answer.
async fn assert_answers(connection: &mut Connection, asked: &[(&str, &str)]) {
    for (line, answer) in asked {
        assert_eq!(connection.ask(&line.split(' ').collect::<Vec<_>>()).await.text(), *answer, "{line}");
    }
}

/// The clocks of the nodes are set back, and those of the servers with them. Nodes keep a row for
/// an hour longer, so nothing but the kept time hides what has expired.
#[test]
fn what_has_expired_stays_so_after_a_restart_with_an_earlier_clock() {
    runtime().block_on(async {
        for mode in [Mode::Atomic, Mode::Fast] {
            let Some(options) = keyspace().await else { return };
            let clock = Arc::new(ManualClock::new(SystemClock.now()));
            let begin = clock.now();
            let server = async || Subject::with_clock(options.clone(), mode, clock.clone()).await;
            let first = server().await;
            let made = [
                ("SET text 1 PX 60000", "OK"),
                ("HSET hash stays 1 goes 2", "2"),
                ("HPEXPIRE hash 60000 FIELDS 1 goes", "1"),
            ];
            assert_answers(&mut first.connect(), &made).await;
            clock.advance(Duration::from_secs(120));
            let gone = [("EXISTS text", "0"), ("HGETALL hash", "stays 1")];
            assert_answers(&mut first.connect(), &gone).await;
            first.records.keep_time(within(), Duration::ZERO).await.unwrap();
            drop(first);
            clock.set(begin);
            let second = server().await;
            // Without the kept time it would be seen again.
            assert_answers(&mut second.connect(), &[("GET text", "1"), ("HLEN hash", "2")]).await;
            let behind = second.records.begin_at_kept_time(within()).await.unwrap();
            assert_eq!(behind, Duration::from_secs(120), "{mode}");
            assert_answers(&mut second.connect(), &gone).await;
        }
    });
}

#[test]
fn expired_attributes_of_a_lasting_record_are_deleted_on_cassandra() {
    const IDS: [&str; 3] = ["a", "b", "c"];
    const LEASE: Duration = Duration::from_secs(600);
    runtime().block_on(async {
        let Some(options) = keyspace().await else { return };
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let subject = Subject::with_clock(options.clone(), Mode::Atomic, clock.clone()).await;
        let mut client = subject.connect();
        for id in IDS {
            assert_eq!(client.ask(&["HSET", id, "stays", "1", "goes", &"x".repeat(2_000)]).await.text(), "2");
            assert_eq!(client.ask(&["HPEXPIRE", id, "60000", "FIELDS", "1", "goes"]).await.text(), "1");
        }
        assert_eq!(client.ask(&["PEXPIRE", "b", "7200000"]).await.text(), "1");
        clock.advance(Duration::from_secs(60));
        let store = CassandraStore::open(options, clock.clone()).await.unwrap();
        let row_bytes = async |id: &'static str| {
            let call = Call::new(Class::Record, within());
            let row = store.get(call, Table::Records, &Bytes::from(id), &Bytes::new()).await.unwrap();
            row.unwrap().value.len()
        };
        assert!(row_bytes("a").await > 2_000);
        // One server walks. When it is gone, another one goes on where it was.
        let other = Records::new(store.clone(), clock.clone());
        other.check_mode(within()).await.unwrap();
        let turn = subject.records.take_walk(within(), &"first".into(), LEASE).await.unwrap().unwrap();
        assert!(other.take_walk(within(), &"second".into(), LEASE).await.unwrap().is_none());
        let first = subject.records.drop_expired(within(), turn.from.clone(), (1, 1 << 20)).await.unwrap();
        assert!(first.records == 1 && first.next.is_some(), "{first:?}");
        subject.records.keep_walk(within(), turn, first.next).await.unwrap();
        clock.advance(LEASE);
        let turn = other.take_walk(within(), &"second".into(), LEASE).await.unwrap().unwrap();
        let second = other.drop_expired(within(), turn.from, (1_000, 4 << 20)).await.unwrap();
        assert!(second.records == 2 && second.next.is_none() && second.stopped_by.is_none(), "{second:?}");
        for id in IDS {
            let bytes = row_bytes(id).await;
            assert!(bytes < 200, "{id} has {bytes} bytes");
            assert_eq!(client.ask(&["HGETALL", id]).await.text(), "stays 1");
        }
        assert_answers(&mut client, &[("PTTL a", "-1"), ("PTTL b", "6540000")]).await;
    });
}
