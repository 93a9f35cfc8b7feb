//! A node that hangs, is killed, comes back, and runs out of space, under a store that stays open.
//! The node requires a password and TLS. Also a node that syncs its commit log only now and then,
//! one that reads few tombstones, and one whose disk is full.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Cluster, ClusterSpec, CommitlogSync, NodeId, Settings, Shape};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use scylla::client::session_builder::SessionBuilder;
use serde_json::json;
use store::{
    Call, Class, Deadline, Direction, Expect, Guard, Lane, Measured, NewRow, Outcome, Removal, Scan, Stamp, Step,
    Store, StoreError, SystemClock, Table,
};
use store_cassandra::testing::{DATACENTER, can_run, not_run, settings};
use store_cassandra::{Address, CassandraOptions, CassandraStore, Credentials, Password, Replication};

const NODE: NodeId = NodeId(1);

/// The time limit of calls while the node hangs.
const SHORT: Duration = Duration::from_secs(2);

/// How much later than its deadline a call may return on a busy machine.
const LATE: Duration = Duration::from_secs(20);

fn call(within: Duration) -> Call {
    Call::new(Class::Description, Deadline::within(within))
}

fn key(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn put(sort: &'static str) -> Step {
    Step::Put { table: Table::Objects, partition: key("p"), rows: vec![NewRow::new(sort, "v")] }
}

fn make_head(sort: &'static str) -> Step {
    Step::CompareAndWrite {
        table: Table::Objects,
        partition: key("p"),
        sort: key(sort),
        expect: Expect::Absent,
        guard: Guard { stamp: Stamp::fresh(), tag: Bytes::new() },
        value: key("v"),
    }
}

async fn there(store: &CassandraStore, sort: &'static str) -> bool {
    let patience = call(Duration::from_secs(60)).strong();
    store.get(patience, Table::Objects, &key("p"), &key(sort)).await.unwrap().is_some()
}

/// Runs a step until it is applied, like a client that is asked to retry.
async fn surely(store: &CassandraStore, step: Step) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        match store.run(call(SHORT), vec![step.clone()]).await {
            Ok(Outcome::Applied) => return,
            Ok(Outcome::Unknown { .. }) => {}
            Ok(outcome) => panic!("{outcome:?}"),
            Err(error) => assert!(error.is_passing(), "{error}"),
        }
        assert!(Instant::now() < deadline, "the node does not come back");
    }
}

/// Waits until the store reports that it refuses writes. A call that is not answered in time may
/// mean load, which is no refusal: the driver has to give the node up first.
async fn until_writes_are_refused(store: &CassandraStore) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !store.health().await.refusing_writes.contains_key(&Lane::Text) {
        assert!(Instant::now() < deadline, "the store reports that it takes writes");
    }
}

/// The certificate of an authority that has signed no node's certificate.
fn wrong_authority() -> Vec<u8> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem().into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_outlives_its_node() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut settings =
        Settings { authentication: true, client_tls: true, commitlog_sync: CommitlogSync::Batch, ..settings() };
    settings.jvm_options.push("-Dcassandra.disk_usage.monitor_interval_ms=100".to_owned());
    let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(1)) };
    let node = Cluster::open(folder.path(), &spec).unwrap();
    node.start_all().unwrap();
    let address: Address = format!("cassandra://{}/away", node.contact_points()[0]).parse().unwrap();
    let tls_ca_pem = Some(std::fs::read(node.authority()).unwrap());
    let role = |user: &str, password: Password| {
        let credentials = Some(Credentials { user: user.to_owned(), password });
        CassandraOptions { credentials, tls_ca_pem: tls_ca_pem.clone(), ..CassandraOptions::new(address.clone()) }
    };
    let login = |password: &str| role("cassandra", Password::Text(password.to_owned()));

    // The first role exists some seconds after the node starts.
    let deadline = Instant::now() + Duration::from_secs(120);
    while let Err(error) =
        CassandraStore::initialise(&login("cassandra"), Some(&Replication::one(DATACENTER, 1)), false).await
    {
        assert!(Instant::now() < deadline, "{error}");
    }
    for wrong in [login("wrong"), CassandraOptions::new(address.clone())] {
        let refused = CassandraStore::open(wrong, Arc::new(SystemClock)).await.err().unwrap().to_string();
        assert!(refused.to_lowercase().contains("authentication") || refused.contains("password"), "{refused}");
        assert!(!refused.contains("wrong"), "the error contains the password: {refused}");
    }
    let distrusting = CassandraOptions { tls_ca_pem: Some(wrong_authority()), ..login("cassandra") };
    let refused = CassandraStore::open(distrusting, Arc::new(SystemClock)).await.err().unwrap().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    let raw = SessionBuilder::new().known_nodes(address.hosts()).user("cassandra", "cassandra").build().await.unwrap();
    for statement in [
        "CREATE ROLE penates WITH PASSWORD = 'at home' AND LOGIN = true",
        "GRANT SELECT ON KEYSPACE away TO penates",
        "GRANT MODIFY ON KEYSPACE away TO penates",
    ] {
        raw.query_unpaged(statement, ()).await.unwrap();
    }
    let password = folder.path().join("password");
    std::fs::write(&password, "at home\n").unwrap();
    let store = CassandraStore::open(role("penates", Password::File(password.clone())), Arc::new(SystemClock));
    let store = store.await.unwrap();
    surely(&store, put("before")).await;
    surely(&store, make_head("head")).await;

    node.pause(NODE).unwrap();
    // A process of many threads stops a moment after the signal.
    let deadline = Instant::now() + LATE;
    while store.get(call(SHORT), Table::Objects, &key("p"), &key("before")).await.is_ok() {
        assert!(Instant::now() < deadline, "the node does not stop");
    }
    let began = Instant::now();
    let read = store.get(call(SHORT), Table::Objects, &key("p"), &key("before")).await;
    assert!(matches!(read, Err(StoreError::DeadlinePassed)), "{read:?}");
    let written = store.run(call(SHORT), vec![put("paused")]).await;
    assert!(matches!(written, Ok(Outcome::Unknown { .. })), "{written:?}");
    let switched = store.run(call(SHORT), vec![make_head("paused-head")]).await;
    assert!(matches!(switched, Ok(Outcome::Unknown { .. })), "{switched:?}");
    assert!(began.elapsed() < 3 * SHORT + LATE, "a call returned {:?} after it was made", began.elapsed());
    until_writes_are_refused(&store).await;
    node.resume(NODE).unwrap();
    surely(&store, put("paused")).await;
    assert!(there(&store, "before").await && there(&store, "paused").await);

    // Connections that are open go on, and those made afterwards have the new password.
    let deadline = Instant::now() + Duration::from_secs(120);
    while let Err(error) = raw.query_unpaged("ALTER ROLE penates WITH PASSWORD = 'elsewhere'", ()).await {
        // Its connections may have ended while the node was paused.
        assert!(Instant::now() < deadline, "{error}");
    }
    std::fs::write(&password, "elsewhere\n").unwrap();
    node.kill(NODE).unwrap();
    let error = store.run(call(SHORT), vec![put("killed")]).await;
    assert!(!matches!(error, Ok(Outcome::Applied)), "{error:?}");
    node.start(NODE).unwrap();
    surely(&store, put("after")).await;
    for sort in ["before", "head", "paused", "after"] {
        assert!(there(&store, sort).await, "{sort} was acknowledged and is lost");
    }
    assert!(store.health().await.refusing_writes.is_empty());

    // Cassandra's own way to refuse writes before the disk is full. It takes its own data for the
    // size of the disk.
    node.kill(NODE).unwrap();
    let mut full = node.settings();
    full.yaml.insert("data_disk_usage_percentage_fail_threshold".to_owned(), json!(1));
    full.yaml.insert("data_disk_usage_max_disk_size".to_owned(), json!("64KiB"));
    node.set_settings(full);
    node.start(NODE).unwrap();
    for step in [put("full"), make_head("full-head")] {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            match store.run(call(SHORT), vec![step.clone()]).await {
                Err(StoreError::Full(why)) => break assert!(why.contains("disk"), "{why}"),
                // The node has to check its disk first.
                outcome => assert!(Instant::now() < deadline, "{outcome:?}"),
            }
        }
    }
    assert!(there(&store, "before").await);
    assert!(store.health().await.refusing_writes.contains_key(&Lane::Service), "nothing is served without its audit");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_node_that_syncs_now_and_then_loses_writes_acknowledged_since_the_last_sync() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // As by default, but with a period so long that no sync comes in between.
    let commitlog_sync = CommitlogSync::Periodic { period: Duration::from_secs(3600) };
    let spec = ClusterSpec { settings: Settings { commitlog_sync, ..settings() }, ..ClusterSpec::new(Shape::nodes(1)) };
    let node = Cluster::open(folder.path(), &spec).unwrap();
    node.start_all().unwrap();
    let address: Address = format!("cassandra://{}/periodic", node.contact_points()[0]).parse().unwrap();
    let options = CassandraOptions::new(address);
    CassandraStore::initialise(&options, Some(&Replication::one(DATACENTER, 1)), false).await.unwrap();
    let store = CassandraStore::open(options, Arc::new(SystemClock)).await.unwrap();
    surely(&store, put("written out")).await;
    node.nodetool(NODE, &["flush"]).unwrap();
    // The node also syncs after a flush and right after its start, which may save one write.
    for acknowledged in ["first", "second", "third", "fourth"] {
        surely(&store, put(acknowledged)).await;
        node.kill(NODE).unwrap();
        node.start(NODE).unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        while let Err(error) = store.get(call(SHORT), Table::Objects, &key("p"), &key("written out")).await {
            assert!(error.is_passing() && Instant::now() < deadline, "{error}");
        }
        assert!(there(&store, "written out").await);
        if !there(&store, acknowledged).await {
            return;
        }
    }
    panic!("nothing was lost: the documentation promises too little");
}

/// How many tombstones the node reads for one page. The engine looks at 200 rows at once that it
/// removes.
const TOMBSTONES_MAX: u32 = 300;

/// The sort key of a record of a queue: six bytes of a time and ten that tell writers apart.
fn record(number: u64) -> Bytes {
    let time = 1_800_000_000_000 + number * 300;
    Bytes::from([&time.to_be_bytes()[2..], &[number as u8; 10]].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_found_behind_more_removed_ones_than_a_node_reads_at_once() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.yaml.insert("tombstone_warn_threshold".to_owned(), json!(TOMBSTONES_MAX));
    settings.yaml.insert("tombstone_failure_threshold".to_owned(), json!(TOMBSTONES_MAX));
    let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(1)) };
    let node = Cluster::open(folder.path(), &spec).unwrap();
    node.start_all().unwrap();
    let address: Address = format!("cassandra://{}/removed", node.contact_points()[0]).parse().unwrap();
    let options = CassandraOptions::new(address.clone());
    CassandraStore::initialise(&options, Some(&Replication::one(DATACENTER, 1)), false).await.unwrap();
    let store = CassandraStore::open(options, Arc::new(SystemClock)).await.unwrap();

    let (count, left) = (2_000, [0, 1_100, 1_999]);
    for hundred in 0..count / 100 {
        let numbers = hundred * 100..(hundred + 1) * 100;
        let rows = numbers.clone().map(|number| NewRow::new(record(number), "v")).collect();
        surely(&store, Step::Put { table: Table::Work, partition: key("p"), rows }).await;
        let done = numbers.filter(|number| !left.contains(number)).map(record).collect();
        surely(&store, Step::Remove { table: Table::Work, partition: key("p"), rows: Removal::Rows(done) }).await;
    }
    // Before and behind it, in the order of a walk.
    let others: BTreeSet<Bytes> = (0..20).map(|number| Bytes::from(format!("other {number}"))).collect();
    for other in &others {
        let rows = vec![NewRow::new(record(0), "v")];
        surely(&store, Step::Put { table: Table::Work, partition: other.clone(), rows }).await;
    }
    let raw = SessionBuilder::new().known_nodes(address.hosts()).build().await.unwrap();
    let refuses = async |rows: &str| {
        let refused = raw.query_unpaged(format!("SELECT sort FROM removed.work {rows}"), ()).await.unwrap_err();
        assert!(refused.to_string().contains("READ_TOO_MANY_TOMBSTONES"), "{refused}");
    };
    refuses("").await;

    let patience = || call(Duration::from_secs(120)).strong();
    let sorts = async |direction, from, to, max_bytes| {
        let mut scan = Some(Scan { from, to, direction, max_bytes });
        let mut sorts = Vec::new();
        while let Some(next) = scan {
            let page = store.scan(patience(), Table::Work, &key("p"), next.clone()).await.unwrap();
            scan = next.resumed(page.next);
            sorts.extend(page.rows.into_iter().map(|row| row.sort));
        }
        sorts
    };
    // Several rows a page, and one.
    for max_bytes in [1 << 20, 1] {
        let forward = sorts(Direction::Forward, Bytes::new(), None, max_bytes).await;
        assert_eq!(forward, left.map(record));
        let mut backward = sorts(Direction::Backward, Bytes::new(), None, max_bytes).await;
        backward.reverse();
        assert_eq!(backward, left.map(record));
    }
    let within = sorts(Direction::Forward, record(1), Some(record(1_999)), 1 << 20).await;
    assert_eq!(within, [record(1_100)]);

    // Now the partition begins with more removed rows than a node reads.
    let first = Removal::Rows(vec![record(0)]);
    surely(&store, Step::Remove { table: Table::Work, partition: key("p"), rows: first }).await;
    refuses("PER PARTITION LIMIT 1").await;
    let walked = async |max| {
        let (mut partitions, mut from) = (Vec::new(), None);
        loop {
            let page = store.walk(patience(), Table::Work, from, max).await.unwrap();
            partitions.extend(page.partitions);
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let count = partitions.len();
        let partitions = BTreeSet::from_iter(partitions);
        assert_eq!(partitions.len(), count, "each comes once");
        partitions
    };
    let all: BTreeSet<Bytes> = others.iter().cloned().chain([key("p")]).collect();
    for max in [1, 1_000] {
        assert_eq!(walked(max).await, all);
    }

    let (table, rows) = (Table::Work, Removal::Range(record(0), None));
    let removed = store.run(patience(), vec![Step::Remove { table, partition: key("p"), rows }]).await.unwrap();
    assert!(matches!(removed, Outcome::Applied), "{removed:?}");
    assert!(sorts(Direction::Forward, Bytes::new(), None, 1 << 20).await.is_empty());
    assert_eq!(walked(3).await, others);

    // All requests were answered. Reads that were divided have a kind of their own.
    let failures = |kind: &str| -> u64 {
        let all = store.measures().into_iter();
        let these = all.filter(|measure| {
            measure.family == "penates_cassandra_failures_total" && measure.labels.contains(&("kind", kind.to_owned()))
        });
        these.map(|measure| if let Measured::Counter(count) = measure.value { count } else { 0 }).sum()
    };
    assert!(failures("tombstones") > 0);
    assert_eq!(failures("refused"), 0);
}

/// A small disk, in memory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts it on a folder; `None`: this user may not mount anything, which is reported.
    fn mounted(folder: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&folder).unwrap();
        let size = format!("size={SMALL_MIB}m");
        let mounted = run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs"], &folder);
        if !mounted {
            not_run("a node whose disk is full: mounting a tmpfs is not allowed here");
        }
        mounted.then_some(Self(folder))
    }

    /// Enlarges it.
    fn grow(&self) {
        assert!(run("mount", &["-o", "remount,size=1g"], &self.0));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], &self.0);
    }
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> bool {
    Command::new(program).args(arguments).arg(folder).status().is_ok_and(|status| status.success())
}

/// Space for what a node writes at its start, and for some more rows.
const SMALL_MIB: usize = 96;

/// Bytes of each row that fills it.
const ROW_BYTES: usize = 60 << 10;

fn filling(number: usize) -> (Bytes, Bytes) {
    (Bytes::from(format!("filling {number}")), Bytes::from(vec![number as u8; ROW_BYTES]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_full_disk_is_down_and_loses_nothing_acknowledged() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mounted(folder.path().join("disk")) else { return };
    let on_disk = |name: &str| json!(disk.0.join(name));
    let mut settings = Settings { commitlog_sync: CommitlogSync::Batch, heap_mib: Some(256), ..settings() };
    settings.yaml.extend([
        ("data_file_directories".to_owned(), json!([on_disk("data")])),
        ("commitlog_directory".to_owned(), on_disk("commitlog")),
        ("hints_directory".to_owned(), on_disk("hints")),
        ("saved_caches_directory".to_owned(), on_disk("saved_caches")),
        ("commitlog_segment_size".to_owned(), json!("4MiB")),
        // As in the configuration that Cassandra ships with.
        ("disk_failure_policy".to_owned(), json!("stop")),
        ("commit_failure_policy".to_owned(), json!("stop")),
    ]);
    let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(1)) };
    let node = Cluster::open(folder.path().join("node"), &spec).unwrap();
    node.start_all().unwrap();
    let address: Address = format!("cassandra://{}/brimful", node.contact_points()[0]).parse().unwrap();
    let options = CassandraOptions::new(address);
    CassandraStore::initialise(&options, Some(&Replication::one(DATACENTER, 1)), false).await.unwrap();
    let store = CassandraStore::open(options, Arc::new(SystemClock)).await.unwrap();

    let (mut acknowledged, mut last, deadline) = (Vec::new(), String::new(), Instant::now() + Duration::from_secs(300));
    for number in 0.. {
        let (partition, value) = filling(number);
        let step = Step::Put { table: Table::Packs, partition, rows: vec![NewRow::new("row", value)] };
        match store.run(call(SHORT), vec![step]).await {
            Ok(Outcome::Applied) => acknowledged.push(number),
            Ok(Outcome::Unknown { reason }) => last = reason,
            Ok(outcome) => panic!("{outcome:?}"),
            Err(error) => {
                assert!(error.is_passing() || matches!(error, StoreError::Full(_)), "{error}");
                eprintln!("after {} rows: {error} (before that: {last})", acknowledged.len());
                break;
            }
        }
        assert!(Instant::now() < deadline, "{} rows, and the disk is not full: {last}", acknowledged.len());
    }
    assert!(!acknowledged.is_empty() && acknowledged.len() * ROW_BYTES < 2 * (SMALL_MIB << 20), "{acknowledged:?}");
    until_writes_are_refused(&store).await;

    // It has ended by itself, or answers nobody. It comes back when there is space.
    let _ = node.kill(NODE);
    disk.grow();
    node.start(NODE).unwrap();
    surely(&store, put("after")).await;
    for number in acknowledged {
        let (partition, value) = filling(number);
        let patience = call(Duration::from_secs(60)).strong();
        let row = store.get(patience, Table::Packs, &partition, &key("row")).await.unwrap();
        assert!(row.is_some_and(|row| row.value == value), "row {number} was acknowledged and is lost");
    }
}
