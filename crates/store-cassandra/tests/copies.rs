//! Copies on two nodes that differ: each wrong one is named, and nothing else. Nodes keep no hints here,
//! so a write that a node has missed stays missed.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Cluster, ClusterSpec, CommitlogSync, NodeId, Settings, Shape};
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use store::{Call, Class, Deadline, NewRow, Outcome, Step, Store, SystemClock, Table, ValueKind, envelope};
use store_cassandra::testing::{DATACENTER, can_run, damage, initialise_among_new_nodes, settings};
use store_cassandra::{
    CassandraOptions, CassandraStore, ClassLevels, Compared, Comparing, CopyFault, Level, Levels, OnCompared,
    Replication, WrongCopy,
};

/// Nodes share two cores with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

const ROWS: u32 = 300;

fn call() -> Call {
    Call::new(Class::Description, Deadline::within(PATIENCE))
}

fn put(partition: &str, sort: &str, text: &str) -> Step {
    let value = envelope::seal(ValueKind::Token, text.as_bytes());
    let rows = vec![NewRow::new(sort.to_owned(), value)];
    Step::Put { table: Table::Objects, partition: partition.to_owned().into(), rows }
}

/// Runs a step until it is applied: nodes that have just started or died do not answer at once.
async fn surely(store: &CassandraStore, step: Step) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match store.run(call(), vec![step.clone()]).await {
            Ok(Outcome::Applied) => return,
            Ok(Outcome::Unknown { .. }) => assert!(Instant::now() < deadline),
            Err(error) => assert!(error.is_passing() && Instant::now() < deadline, "{error}"),
            outcome => panic!("{outcome:?}"),
        }
    }
}

/// Keeps what is found.
#[derive(Default)]
struct Found {
    wrong: Mutex<Vec<WrongCopy>>,
    last: Mutex<Compared>,
}

impl OnCompared for Found {
    fn progress(&self, compared: Compared) -> ControlFlow<()> {
        *self.last.lock().unwrap() = compared;
        ControlFlow::Continue(())
    }

    fn found(&self, wrong: WrongCopy) {
        self.wrong.lock().unwrap().push(wrong);
    }
}

struct Two {
    nodes: Cluster,
    options: CassandraOptions,
}

impl Two {
    async fn start(folder: &std::path::Path) -> Self {
        let yaml = [("hinted_handoff_enabled".to_owned(), false.into()), ("dynamic_snitch".to_owned(), false.into())];
        let settings =
            Settings { heap_mib: Some(384), yaml: yaml.into(), commitlog_sync: CommitlogSync::Batch, ..settings() };
        let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(2)) };
        let nodes = Cluster::open(folder, &spec).unwrap();
        tokio::task::block_in_place(|| nodes.start_all()).unwrap();
        let hosts: Vec<String> = nodes.contact_points().iter().map(ToString::to_string).collect();
        let address = format!("cassandra://{}/copies", hosts.join(",")).parse().unwrap();
        // The store opens while a node is away.
        let both = ClassLevels { read: Level::One, write: Level::One };
        let levels = Levels { description: both, ..Levels::default() };
        let options = CassandraOptions { connect_timeout: PATIENCE, levels, ..CassandraOptions::new(address) };
        initialise_among_new_nodes(&options, &Replication::one(DATACENTER, 2), PATIENCE).await;
        Self { nodes, options }
    }

    /// A store whose writes need so many copies.
    async fn store(&self, write: Level) -> Arc<CassandraStore> {
        let both = ClassLevels { read: Level::One, write };
        let levels = Levels { description: both, content: both, ..Levels::default() };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let options = CassandraOptions { levels, ..self.options.clone() };
            match CassandraStore::open(options, Arc::new(SystemClock)).await {
                Ok(store) => return store,
                Err(error) => assert!(error.is_passing() && Instant::now() < deadline, "{error}"),
            }
        }
    }

    fn address(&self, node: u8) -> SocketAddr {
        self.nodes.contact_points()[usize::from(node) - 1].to_string().parse().unwrap()
    }

    /// What is wrong, in the order of tables and keys.
    async fn wrong(&self) -> Vec<(SocketAddr, String, Bytes, CopyFault)> {
        let tables = vec![Table::Objects, Table::Contents];
        let comparing = Comparing { tables, bytes_per_second: u64::MAX };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = Found::default();
            let compared = CassandraStore::compare_copies(&self.options, &comparing, &found).await;
            let wrong = found.wrong.into_inner().unwrap();
            let is_away = |wrong: &WrongCopy| matches!(wrong.fault, CopyFault::Unanswered(_));
            match compared {
                // A node that has just started is not known at once.
                Err(error) => assert!(error.is_passing() && Instant::now() < deadline, "{error}"),
                Ok(_) if wrong.iter().any(is_away) => assert!(Instant::now() < deadline, "{wrong:?}"),
                Ok(compared) => {
                    assert_eq!(compared, found.last.into_inner().unwrap());
                    assert!(compared.ranges == compared.ranges_in_all && compared.rows >= ROWS.into(), "{compared:?}");
                    let wrong = wrong.into_iter().map(|wrong| (wrong.node, wrong.table, wrong.partition, wrong.fault));
                    let mut wrong: Vec<_> = wrong.collect();
                    wrong.sort_by(|one, other| (&one.1, &one.2).cmp(&(&other.1, &other.2)));
                    return wrong;
                }
            }
        }
    }

    /// What is wrong while a node does not answer.
    async fn wrong_while_one_is_away(&self) -> Vec<WrongCopy> {
        let comparing = Comparing { tables: vec![Table::Objects], bytes_per_second: u64::MAX };
        let found = Found::default();
        CassandraStore::compare_copies(&self.options, &comparing, &found).await.unwrap();
        found.wrong.into_inner().unwrap()
    }

    /// Deletes the row of a partition at one node, where the other one does not answer.
    async fn delete_at(&self, node: u8, partition: &str) {
        let session = SessionBuilder::new().known_node_addr(self.address(node)).build().await.unwrap();
        // A stored partition key begins with the byte 1.
        let hex: String = partition.bytes().map(|byte| format!("{byte:02x}")).collect();
        let delete = format!("DELETE FROM copies.objects WHERE partition = 0x01{hex} AND sort = textAsBlob('row')");
        let mut delete = Statement::new(delete);
        delete.set_consistency(Consistency::One);
        session.query_unpaged(delete, ()).await.unwrap();
    }

    fn kill(&self, node: u8) {
        self.nodes.kill(NodeId(node)).unwrap();
    }

    fn bring_back(&self, node: u8) {
        tokio::task::block_in_place(|| self.nodes.start(NodeId(node))).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "two nodes for two minutes: `cargo xtask proofs` runs it"]
async fn each_wrong_copy_is_named_and_no_other() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let two = Two::start(folder.path()).await;
    let store = two.store(Level::All).await;
    for number in 0..ROWS {
        surely(&store, put(&format!("object {}", number % 50), &format!("row {number:03}"), "text")).await;
    }
    for partition in ["changed", "deleted"] {
        surely(&store, put(partition, "row", "before")).await;
    }
    let bytes = Bytes::from(vec![b'x'; 300 << 10]);
    let stream = futures::stream::once(async move { Ok(bytes) });
    let content = store.put_content(call(), "owner".into(), Box::pin(stream)).await.unwrap();
    assert_eq!(two.wrong().await, [], "all copies are the same");

    two.kill(2);
    // The first node alone has these.
    let store = two.store(Level::One).await;
    surely(&store, put("added", "row", "text")).await;
    surely(&store, put("changed", "row", "after")).await;
    two.delete_at(1, "deleted").await;
    damage::set_bit_unnoticed(&two.options, content, 200 << 10).await;
    two.bring_back(2);
    let (first, second, objects) = (two.address(1), two.address(2), || "objects".to_owned());
    let expected = [
        (first, "content_chunks".to_owned(), Bytes::copy_from_slice(&content.0), CopyFault::Damaged),
        (second, objects(), "added".into(), CopyFault::Missing),
        (second, objects(), "changed".into(), CopyFault::Outdated),
        (first, objects(), "deleted".into(), CopyFault::Missing),
    ];
    // Comparing changes nothing, so a second run finds the same.
    for _ in 0..2 {
        assert_eq!(two.wrong().await, expected);
    }

    two.kill(2);
    let [away] = &two.wrong_while_one_is_away().await[..] else { panic!("one node is away") };
    assert_eq!((away.node, &*away.table), (second, ""));
}
