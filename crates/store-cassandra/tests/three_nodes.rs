//! What weaker settings lose: each entry of the list in docs/cassandra.md that needs several nodes
//! of one data center. Nodes keep no hints here, so a write that a node has missed stays missed.

#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Cluster, ClusterSpec, CommitlogSync, NodeId, Settings, Shape};
use store::{
    Call, Class, Deadline, Direction, Expect, Guard, NewRow, Outcome, Removal, Row, Scan, Stamp, Step, Store,
    StoreError, StoreResult, SystemClock, Table,
};
use store_cassandra::testing::{DATACENTER, can_run, initialise_among_new_nodes, settings};
use store_cassandra::{
    CassandraOptions, CassandraStore, ClassLevels, Compared, Comparing, Level, Levels, OnCompared, Replication,
    WarmedNode, Warming, WrongCopy,
};

const TABLE: Table = Table::Objects;

/// The time limit of a call that should succeed: nodes share two cores with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time limit of a call that cannot succeed.
const SHORT: Duration = Duration::from_secs(3);

fn call(within: Duration) -> Call {
    Call::new(Class::Description, Deadline::within(within))
}

fn put(partition: impl Into<Bytes>) -> Step {
    Step::Put { table: TABLE, partition: partition.into(), rows: vec![NewRow::new("row", "v")] }
}

fn make_head(partition: &'static str) -> Step {
    Step::CompareAndWrite {
        table: TABLE,
        partition: partition.into(),
        sort: "head".into(),
        expect: Expect::Absent,
        guard: Guard { stamp: Stamp::fresh(), tag: Bytes::new() },
        value: "v".into(),
    }
}

/// Partitions whose copies lie on different nodes, if there are fewer copies than nodes.
const SPREAD: [&str; 16] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

struct Three(Cluster);

impl Three {
    fn address(&self, keyspace: &str) -> store_cassandra::Address {
        let hosts: Vec<String> = self.0.contact_points().iter().map(ToString::to_string).collect();
        format!("cassandra://{}/{keyspace}", hosts.join(",")).parse().unwrap()
    }

    async fn make(&self, keyspace: &str, copies: u32) {
        let options = CassandraOptions { connect_timeout: PATIENCE, ..CassandraOptions::new(self.address(keyspace)) };
        initialise_among_new_nodes(&options, &Replication::one(DATACENTER, copies), PATIENCE).await;
    }

    async fn open(&self, keyspace: &str, read: Level, write: Level) -> Arc<CassandraStore> {
        let both = ClassLevels { read, write };
        let levels = Levels { description: both, record: both, ..Levels::default() };
        let options =
            CassandraOptions { levels, connect_timeout: PATIENCE, ..CassandraOptions::new(self.address(keyspace)) };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match CassandraStore::open(options.clone(), Arc::new(SystemClock)).await {
                Ok(store) => return store,
                // Nodes that come and go are not all known at once.
                Err(error) => assert!(error.is_passing() && Instant::now() < deadline, "{error}"),
            }
        }
    }

    fn kill(&self, nodes: &[u8]) {
        eprintln!("killing {nodes:?}");
        nodes.iter().for_each(|node| self.0.kill(NodeId(*node)).unwrap());
    }

    fn start(&self, nodes: &[u8]) {
        eprintln!("starting {nodes:?}");
        tokio::task::block_in_place(|| nodes.iter().for_each(|node| self.0.start(NodeId(*node)).unwrap()));
    }
}

async fn surely(store: &CassandraStore, step: Step) {
    let outcome = store.run(call(PATIENCE), vec![step]).await.unwrap();
    assert!(outcome.is_applied(), "{outcome:?}");
}

async fn row(store: &CassandraStore, call: Call, partition: &'static str) -> StoreResult<Option<Row>> {
    store.get(call, TABLE, &partition.into(), &"row".into()).await
}

/// How many of [`SPREAD`] can be written.
async fn written(store: &CassandraStore) -> usize {
    let mut written = 0;
    for partition in SPREAD {
        match store.run(call(SHORT), vec![put(partition)]).await {
            Ok(Outcome::Applied) => written += 1,
            // Until a node has noticed that another is down, the outcome may be unknown.
            Err(StoreError::Unavailable(_)) | Ok(Outcome::Unknown { .. }) => {}
            outcome => panic!("{outcome:?}"),
        }
    }
    written
}

/// Writes a value to records in mode fast, one in each partition of [`SPREAD`]. Returns where that
/// was acknowledged.
async fn records_written(store: &CassandraStore, value: &'static str) -> Vec<&'static str> {
    let mut written = Vec::new();
    for partition in SPREAD {
        let everything = Removal::Range(Bytes::new(), None);
        let (table, rows) = (Table::Records, vec![NewRow::new("acity", value)]);
        let steps = vec![
            Step::Remove { table, partition: partition.into(), rows: everything },
            Step::Put { table, partition: partition.into(), rows },
        ];
        match store.run(call(SHORT).by_clock(), steps).await {
            Ok(Outcome::Applied) => written.push(partition),
            Err(StoreError::Unavailable(_)) | Ok(Outcome::Unknown { .. }) => {}
            outcome => panic!("{outcome:?}"),
        }
    }
    written
}

/// The records of these partitions, as a usual read finds them.
async fn records_read(store: &CassandraStore, partitions: &[&'static str]) -> Vec<Bytes> {
    let all = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 << 10 };
    let scans = partitions.iter().map(|partition| (Table::Records, Bytes::from(*partition), all.clone()));
    let found = store.scan_many(call(PATIENCE), scans.collect()).await.unwrap();
    found.into_iter().flat_map(|rows| rows.rows).map(|row| row.value).collect()
}

/// While a node hangs and the others have not noticed, each plain write finds another node in time.
/// There is time for three tries of three seconds only.
async fn writes_succeed_while_a_node_hangs(nodes: &Three, store: &CassandraStore) {
    nodes.0.pause(NodeId(3)).unwrap();
    let puts = (0..120).map(|number| put(format!("by {number}")));
    let writes = puts.map(|step| store.run(call(Duration::from_secs(9)), vec![step]));
    let outcomes = futures::future::join_all(writes).await;
    nodes.0.resume(NodeId(3)).unwrap();
    let failed: Vec<_> = outcomes.into_iter().filter(|outcome| !matches!(outcome, Ok(Outcome::Applied))).collect();
    assert!(failed.is_empty(), "{} of 120 failed: {failed:?}", failed.len());
}

/// By default a node may let another one answer for it, so that a wrong copy is not found.
async fn copies_are_not_compared_while_nodes_let_others_answer(nodes: &Three, keyspace: &str) {
    let options = CassandraOptions { connect_timeout: PATIENCE, ..CassandraOptions::new(nodes.address(keyspace)) };
    let comparing = Comparing { tables: vec![Table::Records], bytes_per_second: u64::MAX };
    let refused = CassandraStore::compare_copies(&options, &comparing, &Nothing).await.unwrap_err();
    assert!(refused.to_string().contains("dynamic_snitch: false"), "{refused}");
}

/// Expects that nothing is found.
struct Nothing;

impl OnCompared for Nothing {
    fn progress(&self, _: Compared) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn found(&self, wrong: WrongCopy) {
        panic!("{wrong:?}");
    }
}

/// The nodes read as many rows as there are copies.
async fn nodes_read_what_they_have_a_copy_of(nodes: &Three, keyspace: &str) {
    let options = CassandraOptions { connect_timeout: PATIENCE, ..CassandraOptions::new(nodes.address(keyspace)) };
    let of = |nodes| Warming { tables: vec![Table::Records], nodes, longest: PATIENCE, bytes_per_second: 0 };
    let counted = AtomicU64::default();
    let on_rows = |rows| {
        counted.fetch_add(rows, Ordering::Relaxed);
    };
    let warmed = CassandraStore::warm(&options, &of(Vec::new()), &on_rows).await.unwrap();
    assert!(warmed.len() == 3 && warmed.iter().all(|node| node.gap.is_none()), "{warmed:?}");
    let rows: u64 = warmed.iter().map(|node| node.rows).sum();
    assert_eq!((rows, counted.into_inner()), (2 * SPREAD.len() as u64, rows));
    let alone = CassandraStore::warm(&options, &of(vec![warmed[1].node.ip()]), &|_| {}).await.unwrap();
    let read = |node: &WarmedNode| (node.node, node.rows, node.bytes, node.gap.clone());
    assert_eq!(alone.iter().map(read).collect::<Vec<_>>(), [read(&warmed[1])]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "three nodes for some minutes: `cargo xtask proofs` runs it"]
async fn weaker_settings_lose_what_the_documentation_says_and_nothing_else() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let yaml = [("hinted_handoff_enabled".to_owned(), false.into())].into();
    let settings = Settings { heap_mib: Some(384), yaml, commitlog_sync: CommitlogSync::Batch, ..settings() };
    let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(3)) };
    let nodes = Three(Cluster::open(folder.path(), &spec).unwrap());
    tokio::task::block_in_place(|| nodes.0.start_all()).unwrap();
    for (keyspace, copies) in [("three", 3), ("two", 2), ("one", 1)] {
        nodes.make(keyspace, copies).await;
    }
    use Level::{LocalQuorum, One};
    let quorum = nodes.open("three", LocalQuorum, LocalQuorum).await;
    let weak_write = nodes.open("three", LocalQuorum, One).await;
    let (of_two, of_two_at_one) =
        (nodes.open("two", LocalQuorum, LocalQuorum).await, nodes.open("two", One, One).await);
    // Profiles: two copies have each write, and one of them is read.
    let profiles = nodes.open("two", One, Level::Two).await;
    assert_eq!(records_written(&profiles, "before").await, SPREAD);
    nodes_read_what_they_have_a_copy_of(&nodes, "two").await;
    copies_are_not_compared_while_nodes_let_others_answer(&nodes, "two").await;
    let of_one = nodes.open("one", LocalQuorum, LocalQuorum).await;
    // All three have it on their disks (nodes sync before they answer).
    surely(nodes.open("three", LocalQuorum, Level::All).await.as_ref(), put("before")).await;

    writes_succeed_while_a_node_hangs(&nodes, &quorum).await;

    nodes.kill(&[3]);
    // Three copies and quorums lose nothing.
    surely(&quorum, put("while one is away")).await;
    surely(&quorum, make_head("while one is away")).await;
    assert!(row(&quorum, call(PATIENCE).strong(), "before").await.unwrap().is_some());
    // Writes at ONE: strong reads need all copies. Heads are switched all the same.
    surely(&weak_write, put("weak")).await;
    surely(&weak_write, make_head("weak")).await;
    let strong = row(&weak_write, call(SHORT).strong(), "weak").await;
    assert!(strong.as_ref().is_err_and(StoreError::is_passing), "{strong:?}");
    // Two copies: if one of them is on the node that is down, a row cannot be written at a quorum,
    // but it can at ONE.
    let at_quorum = written(&of_two).await;
    assert!(0 < at_quorum && at_quorum < SPREAD.len(), "{at_quorum} written");
    assert_eq!(written(&of_two_at_one).await, SPREAD.len());
    // Writes at TWO, reads at ONE: all is read, and each acknowledged write is seen.
    assert_eq!(records_read(&profiles, &SPREAD).await.len(), SPREAD.len());
    let profiles_written = records_written(&profiles, "while one is away").await;
    assert!(!profiles_written.is_empty() && profiles_written.len() < SPREAD.len(), "{profiles_written:?}");
    let found = records_read(&profiles, &profiles_written).await;
    assert!(found.iter().all(|value| value == "while one is away"), "{found:?}");
    // One copy: a node takes its part of everything with it.
    let alone = written(&of_one).await;
    assert!(0 < alone && alone < SPREAD.len(), "{alone} written");

    nodes.start(&[3]);
    nodes.kill(&[1, 2]);
    // Reads at ONE may miss written rows. A strong read reports that it does not know.
    let weak = nodes.open("three", One, One).await;
    assert!(row(&weak, call(PATIENCE), "before").await.unwrap().is_some());
    assert_eq!(row(&weak, call(PATIENCE), "while one is away").await.unwrap(), None);
    let strong = row(&weak, call(SHORT).strong(), "while one is away").await;
    assert!(strong.as_ref().is_err_and(StoreError::is_passing), "{strong:?}");
    // Writes at ONE: the loss of the only node that has a row loses the row.
    surely(&weak, put("acknowledged by the third alone")).await;

    nodes.kill(&[3]);
    nodes.start(&[1, 2]);
    let profiles = nodes.open("two", One, Level::Two).await;
    let found = records_read(&profiles, &profiles_written).await;
    assert!(found.iter().all(|value| value == "while one is away"), "{found:?}");
    let quorum = nodes.open("three", LocalQuorum, LocalQuorum).await;
    assert!(row(&quorum, call(PATIENCE).strong(), "while one is away").await.unwrap().is_some());
    assert_eq!(row(&quorum, call(PATIENCE).strong(), "acknowledged by the third alone").await.unwrap(), None);
}
