//! For tests: a Cassandra node that all tests of a process share. A test gets its own keyspace on
//! it, or a part of a shared keyspace. The stores in the shared keyspace also share a session and
//! its prepared statements.
//!
//! The node ends with the process, however that ends. Its data stays in a temporary folder, because
//! nothing runs after a process's end; the next process deletes it.

#![allow(clippy::unwrap_used)] // Only tests use this.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterSpec, Settings, Shape};
use futures::{FutureExt, StreamExt};
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use store::{Clock, Store};
use tokio::runtime::Runtime;
use tokio::sync::{OnceCell, Semaphore};

use crate::address::Address;
use crate::cassandra_store::{CassandraStore, Prepared};
use crate::initialise::InitError;
use crate::options::CassandraOptions;
use crate::schema::Replication;
use apart::Apart;

mod apart;
pub mod damage;
mod dump;

pub use dump::{dump, load};

/// The node's data center.
pub const DATACENTER: &str = "dc1";

/// Keyspaces that are created at the same time: a node creates one table after the other in any
/// case.
static MAKING: Semaphore = Semaphore::const_new(2);

/// Options of the Java machines of all nodes here, which live for minutes.
const SHORT_LIVED: [&str; 4] = [
    // In its first minutes a node spends a third of its processor time in the second compiler.
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=128m",
    // Work that each node does every 2 ms, and every five minutes for each table.
    "-Dcassandra.approximate_time_precision_ms=10",
    "-Dcassandra.size_recorder_interval=0",
];

/// Further options of the node that tests share. It makes hundreds of tables, and nothing in it has
/// to survive a crash.
const SHARED: [&str; 4] = [
    // The schema is not flushed at each table, and nothing is synced.
    "-Dcassandra.unsafesystem=true",
    "-Dcassandra.skip_sync=true",
    // A table's histograms have one copy each instead of two.
    "-Dcassandra.dehr_stripe_count=1",
    // A node locks its heap into memory when it starts, which takes seconds for all of it.
    "-Xms512m",
];

/// Without MBeans a table takes less time, because each has hundreds of them.
const NO_MBEANS: &str = "-Dorg.apache.cassandra.disable_mbean_registration=true";

/// The node's heap. Each test may make a keyspace, and each table takes some hundred kilobytes of it.
const HEAP_MIB: u32 = 2_048;

/// The node's memory for prepared statements: its default is 10 MiB, but a store has more than 200
/// statements, and a process of tests makes more than a hundred stores.
const PREPARED_STATEMENTS_CACHE: &str = "256MiB";

/// The beginning of the names of nodes' folders; the rest is the process id.
const FOLDER: &str = "penates-test-node-";

/// The node, started at the first call; `None` if none can be started. That is reported, and is a
/// failure if `CI` is set. It has no MBeans, so `nodetool` cannot ask it: see [`node_with_mbeans`].
pub fn node() -> Option<&'static Cluster> {
    static NODE: OnceLock<Option<Cluster>> = OnceLock::new();
    NODE.get_or_init(|| can_run().then(|| started("usual", &[NO_MBEANS]))).as_ref()
}

/// Like [`node`], but another node, with MBeans, for `nodetool`.
pub fn node_with_mbeans() -> Option<&'static Cluster> {
    static NODE: OnceLock<Option<Cluster>> = OnceLock::new();
    NODE.get_or_init(|| can_run().then(|| started("with_mbeans", &[]))).as_ref()
}

/// Starts a node that the process shares, in a folder of its own.
fn started(name: &str, jvm_options: &[&str]) -> Cluster {
    let mut settings = Settings { heap_mib: Some(HEAP_MIB), ..settings() };
    settings.jvm_options.extend(SHARED.iter().chain(jvm_options).map(|option| (*option).to_owned()));
    settings.yaml.insert("prepared_statements_cache_size".to_owned(), PREPARED_STATEMENTS_CACHE.into());
    let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(1)) };
    remove_left_folders();
    let of_process = std::env::temp_dir().join(format!("{FOLDER}{}", std::process::id()));
    let node = Cluster::open(of_process.join(name), &spec).unwrap();
    node.start_all().unwrap();
    node
}

/// Deletes the folders of processes that have ended.
fn remove_left_folders() {
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(FOLDER)).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another process may be deleting it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The usual settings of nodes, for ones that live for minutes, and with a long time limit for
/// starting, since test machines are busy.
pub fn settings() -> Settings {
    let jvm_options = SHORT_LIVED.map(str::to_owned).to_vec();
    Settings { jvm_options, up_within: Duration::from_secs(900), ..Settings::default() }
}

/// Whether tests over any engine run on Cassandra, as `cargo xtask test` runs them a second time. Tests with very
/// many changes make fewer there, because each takes some milliseconds.
pub fn on_cassandra() -> bool {
    std::env::var_os("PENATES_TEST_ENGINE").is_some_and(|engine| engine == "cassandra")
}

/// Whether nodes can be started here. If not, that is reported.
pub fn can_run() -> bool {
    let Err(error) = cluster::prerequisites() else { return true };
    not_run(&format!("tests against Cassandra: {error}"));
    false
}

/// Options for a store in a fresh keyspace with tables, on the shared node; `None` if no node can
/// be started.
pub async fn fresh_options() -> Option<CassandraOptions> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let node = tokio::task::spawn_blocking(node).await.unwrap()?;
    let keyspace = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let address: Address = format!("cassandra://{}/{keyspace}", node.contact_points()[0]).parse().unwrap();
    // The clocks of tests show what the tests set.
    let options = CassandraOptions { clock_skew_max: None, ..CassandraOptions::new(address) };
    let _turn = MAKING.acquire().await.unwrap();
    CassandraStore::initialise(&options, Some(&Replication::one(DATACENTER, 1)), false).await.unwrap();
    Some(options)
}

/// Records the level to which a store is being raised, as a raising that is interrupted leaves it.
pub async fn intend(options: &CassandraOptions, level: store::FormatLevel) {
    let (connected, _) = crate::connect::store(options).await.unwrap();
    connected.intend(options, level).await.unwrap();
}

/// A store in a fresh keyspace of the shared node; `None` if no node can be started.
pub async fn fresh_store(clock: Arc<dyn Clock>) -> Option<Arc<CassandraStore>> {
    let options = fresh_options().await?;
    Some(CassandraStore::open(options, clock).await.unwrap())
}

/// Options for a store in the keyspace that many tests share; `None` if no node can be started.
pub async fn shared_options() -> Option<CassandraOptions> {
    static OPTIONS: OnceCell<Option<CassandraOptions>> = OnceCell::const_new();
    OPTIONS.get_or_init(fresh_options).await.clone()
}

/// The session and the statements for all stores in the keyspace that many tests share. A session
/// ends with the runtime that made it, and each test has a runtime, so it has one that stays.
async fn prepare_shared() -> Option<Prepared> {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    let options = shared_options().await?;
    let beginning = RUNTIME.spawn(async move { Prepared::begin(&options).await });
    Some(beginning.await.unwrap().unwrap())
}

/// A store in its own part of a shared keyspace; `None` if no node can be started.
pub async fn shared_store(clock: Arc<dyn Clock>) -> Option<Arc<dyn Store>> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    static PREPARED: OnceCell<Option<Prepared>> = OnceCell::const_new();
    let options = shared_options().await?;
    let prepared = PREPARED.get_or_init(prepare_shared).await.clone()?;
    let store = CassandraStore::over(prepared, options, clock).boxed().await.unwrap();
    let prefix = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    Some(Arc::new(Apart::new(store, prefix.to_vec())))
}

/// Makes a store in a keyspace of a cluster whose nodes have just started: one of them learns of the
/// others a moment after they are up.
pub async fn initialise_among_new_nodes(options: &CassandraOptions, replication: &Replication, within: Duration) {
    let deadline = Instant::now() + within;
    while let Err(error) = CassandraStore::initialise(options, Some(replication), false).await {
        assert!(matches!(error, InitError::TooFewNodes { .. }) && Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// For each table of a keyspace, the number of rows that a node itself has and a digest of them,
/// read at level ONE from that node alone. The cluster must run with `dynamic_snitch: false`, so
/// that each node asks itself, and each node must have a copy of everything.
pub async fn digests_at(node: SocketAddr, keyspace: &str) -> BTreeMap<String, (usize, u64)> {
    let only = AllowListHostFilter::new([node]).unwrap();
    let session = SessionBuilder::new().known_node_addr(node).host_filter(Arc::new(only)).build().await.unwrap();
    let tables = format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
    let tables = session.query_unpaged(tables, ()).await.unwrap().into_rows_result().unwrap();
    let mut digests = BTreeMap::new();
    for table in tables.rows::<(String,)>().unwrap() {
        let (table,) = table.unwrap();
        let mut all = Statement::new(format!("SELECT * FROM {keyspace}.{table}"));
        all.set_consistency(Consistency::One);
        all.set_page_size(64);
        all.set_request_timeout(Some(Duration::from_secs(60)));
        let rows = session.query_iter(all, ()).await.unwrap().rows_stream::<scylla::value::Row>().unwrap();
        let (mut count, mut hasher) = (0, DefaultHasher::new());
        let mut rows = std::pin::pin!(rows);
        while let Some(row) = rows.next().await {
            count += 1;
            format!("{:?}", row.unwrap()).hash(&mut hasher);
        }
        digests.insert(table, (count, hasher.finish()));
    }
    digests
}

/// Reports a test that was left out, in the file that `PENATES_NOT_RUN` names. If `CI` is set, no
/// test may be left out.
pub fn not_run(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {what}");
    note_not_run(what);
}

/// Reports a test that this machine does not permit, likewise. Nothing that could be installed helps,
/// so it is no failure if `CI` is set: `cargo xtask test` knows such a line by its beginning.
pub fn not_permitted(what: &str) {
    note_not_run(&format!("not permitted here: {what}"));
}

fn note_not_run(what: &str) {
    // The list has a line for each.
    let what = what.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    eprintln!("not run: {what}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(list, "{what}").unwrap();
    }
}
