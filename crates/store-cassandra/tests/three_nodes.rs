//! Three nodes, under a steady mix of puts and switched heads, while one of them is killed and comes back, and another stands still.
//! Then what two replicas give up.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Cluster, ClusterSpec, NodeId, Shape};
use store::{
    Call, Class, Deadline, Expect, Guard, NewRow, Outcome, Scan, Stamp, Step, Store, StoreError, SystemClock, Table,
};
use store_cassandra::testing::{DATACENTER, can_run, settings};
use store_cassandra::{CassandraOptions, CassandraStore, ClassLevels, InitError, Level, Levels, Replication};

const TABLE: Table = Table::Objects;
const WRITERS: usize = 4;

/// How long one call may take: nodes share two processors with whatever else is tested.
const PATIENCE: Duration = Duration::from_secs(60);

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(PATIENCE))
}

fn put(partition: &Bytes, sort: Bytes) -> Step {
    Step::Put { table: TABLE, partition: partition.clone(), rows: vec![NewRow::new(sort, "v")] }
}

fn write_head(partition: &Bytes, expect: Expect, stamp: Stamp, log: Bytes) -> Step {
    Step::CompareAndWrite {
        table: TABLE,
        partition: partition.clone(),
        sort: Bytes::from_static(b"head"),
        expect,
        guard: Guard { stamp, tag: Bytes::new() },
        value: log.clone(),
        rows: vec![NewRow::new(log, "v")],
    }
}

async fn opened(node: &Cluster, keyspace: &str, level: Level) -> Arc<CassandraStore> {
    let hosts: Vec<String> = node.contact_points().iter().map(ToString::to_string).collect();
    let address = format!("cassandra://{}/{keyspace}", hosts.join(",")).parse().unwrap();
    let levels = Levels { description: ClassLevels::both(level), ..Levels::default() };
    let options = CassandraOptions { levels, ..CassandraOptions::new(address) };
    CassandraStore::open(options, Arc::new(SystemClock)).await.unwrap()
}

async fn made(node: &Cluster, keyspace: &str, copies: u32) {
    let address = format!("cassandra://{}/{keyspace}", node.contact_points()[0]).parse().unwrap();
    let options = CassandraOptions { connect_timeout: PATIENCE, ..CassandraOptions::new(address) };
    let (replication, deadline) = (Replication::one(DATACENTER, copies), Instant::now() + PATIENCE);
    // A node hears of the others a moment after they are up.
    while let Err(error) = CassandraStore::initialise(&options, Some(&replication), false).await {
        assert!(matches!(error, InitError::TooFewNodes { .. }) && Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What is written all the time, and what was acknowledged of it.
struct Mix {
    store: Arc<CassandraStore>,
    stop: AtomicBool,
    acknowledged: AtomicUsize,
}

impl Mix {
    /// One writer: a row, then a head with its log entry, in a partition of its own. Answers all keys that were acknowledged.
    async fn write(self: Arc<Self>, partition: Bytes) -> BTreeSet<Bytes> {
        let (mut keys, mut stands) = (BTreeSet::new(), Expect::Absent);
        for number in 0_u32.. {
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
            let (row, log) = (Bytes::from(format!("row {number:06}")), Bytes::from(format!("log {number:06}")));
            let stamp = Stamp::fresh();
            let steps = vec![put(&partition, row.clone()), write_head(&partition, stands, stamp, log.clone())];
            let outcome = self.store.run(call(), steps).await;
            assert!(matches!(outcome, Ok(Outcome::Applied)), "{partition:?}, {number}: {outcome:?}");
            keys.extend([row, log]);
            stands = Expect::Stamp(stamp);
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        keys
    }

    async fn goes_on(&self) {
        let (wanted, deadline) = (self.acknowledged.load(Ordering::SeqCst) + 50, Instant::now() + 4 * PATIENCE);
        while self.acknowledged.load(Ordering::SeqCst) < wanted {
            assert!(Instant::now() < deadline, "nothing is acknowledged any more");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn surely_there(store: &CassandraStore, partition: &Bytes, keys: &BTreeSet<Bytes>) {
    let (mut found, mut rest) = (BTreeSet::new(), Some(Scan::prefix(Bytes::new(), 64 << 10)));
    while let Some(scan) = rest {
        let page = store.scan(call(), TABLE, partition, scan.clone()).await.unwrap();
        found.extend(page.rows.into_iter().map(|row| row.sort));
        rest = scan.resumed(page.next);
    }
    let lost: Vec<_> = keys.difference(&found).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "three nodes need a machine to themselves; it was not yet seen to pass on a busy one"]
async fn with_three_copies_no_request_fails_and_nothing_is_lost_while_a_node_is_away_with_two_some_fail() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let spec = ClusterSpec { settings: settings(), ..ClusterSpec::new(Shape::nodes(3)) };
    let cluster = Cluster::open(folder.path(), &spec).unwrap();
    cluster.start_all().unwrap();
    let [first, second, third] = [1, 2, 3].map(NodeId);
    made(&cluster, "three", 3).await;
    made(&cluster, "two", 2).await;

    let store = opened(&cluster, "three", Level::LocalQuorum).await;
    let mix = Arc::new(Mix { store, stop: AtomicBool::new(false), acknowledged: AtomicUsize::new(0) });
    let partitions: Vec<Bytes> = (0..WRITERS).map(|number| format!("partition {number}").into()).collect();
    let writers: Vec<_> =
        partitions.iter().map(|partition| tokio::spawn(mix.clone().write(partition.clone()))).collect();
    mix.goes_on().await;
    cluster.kill(second).unwrap();
    mix.goes_on().await;
    tokio::task::block_in_place(|| cluster.start(second)).unwrap();
    mix.goes_on().await;
    cluster.pause(third).unwrap();
    mix.goes_on().await;
    cluster.resume(third).unwrap();
    mix.goes_on().await;
    mix.stop.store(true, Ordering::SeqCst);
    let mut written = Vec::new();
    for writer in writers {
        written.push(writer.await.unwrap());
    }

    for node in [first, second, third] {
        tokio::task::block_in_place(|| cluster.nodetool(node, &["repair", "--full", "three"])).unwrap();
    }
    let all = opened(&cluster, "three", Level::All).await;
    for (partition, keys) in partitions.iter().zip(&written) {
        surely_there(&all, partition, keys).await;
    }

    // With two copies a quorum is both, so what has one of them on the node that is away cannot be written; at level ONE it can.
    let (quorum, one) = (opened(&cluster, "two", Level::LocalQuorum).await, opened(&cluster, "two", Level::One).await);
    cluster.kill(third).unwrap();
    let (mut refused, mut taken) = (0, 0);
    for number in 0..30 {
        let partition = Bytes::from(format!("partition {number}"));
        match quorum.run(call(), vec![put(&partition, "a".into())]).await {
            Ok(Outcome::Applied) => taken += 1,
            // Until the others have noticed that it is away it may as well not be known.
            Err(StoreError::Unavailable(_)) | Ok(Outcome::Unknown { .. }) => refused += 1,
            outcome => panic!("{outcome:?}"),
        }
        let outcome = one.run(call(), vec![put(&partition, "b".into())]).await.unwrap();
        assert!(outcome.is_applied(), "{outcome:?}");
    }
    assert!(refused > 0 && taken > 0, "{refused} refused, {taken} taken");

    // What was killed first has everything by itself, since it was repaired.
    cluster.kill(first).unwrap();
    let alone = opened(&cluster, "three", Level::One).await;
    for (partition, keys) in partitions.iter().zip(&written) {
        surely_there(&alone, partition, keys).await;
    }
}
