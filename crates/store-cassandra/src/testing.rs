//! For tests: a Cassandra node that all tests of a process share, and a keyspace of its own for each that wants one.
//!
//! The node keeps its data in a temporary folder and ends with the process, however that ends.

#![allow(clippy::unwrap_used)] // Only tests call this.

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cluster::{Cluster, ClusterSpec, Settings, Shape};
use store::Clock;
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::address::Address;
use crate::engine::CassandraStore;
use crate::options::CassandraOptions;
use crate::schema::Replication;

/// The node's data center.
pub const DATACENTER: &str = "dc1";

/// Keyspaces that are made at once: a node makes one table after the other anyway.
static MAKING: Semaphore = Semaphore::const_new(2);

static NODE: OnceLock<Option<(Cluster, TempDir)>> = OnceLock::new();

/// The node, started by whoever asks first; `None` where none can be started: that is told, and a failure where `CI` is set.
pub fn node() -> Option<&'static Cluster> {
    let node = NODE.get_or_init(|| {
        if !can_run() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Its schema need not survive a crash, so it need not be flushed at each of hundreds of tables.
        let jvm_options = vec!["-Dcassandra.unsafesystem=true".to_owned()];
        let settings = Settings { jvm_options, ..settings() };
        let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(1)) };
        let node = Cluster::open(folder.path(), &spec).unwrap();
        node.start_all().unwrap();
        Some((node, folder))
    });
    node.as_ref().map(|(node, _)| node)
}

/// How nodes run: as usual, but with all the time in the world to start, since test machines are busy.
pub fn settings() -> Settings {
    Settings { up_within: Duration::from_secs(900), ..Settings::default() }
}

/// Whether nodes can be started here; where not, that is told.
pub fn can_run() -> bool {
    let Err(error) = cluster::prerequisites() else { return true };
    tell_not_run(&format!("tests against Cassandra: {error}"));
    false
}

/// Options for a store in a fresh keyspace, with its tables made, on the shared node; `None` where no node can be started.
pub async fn fresh_options() -> Option<CassandraOptions> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let node = tokio::task::spawn_blocking(node).await.unwrap()?;
    let keyspace = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let address: Address = format!("cassandra://{}/{keyspace}", node.contact_points()[0]).parse().unwrap();
    // The clocks of tests stand where the tests put them.
    let options = CassandraOptions { clock_skew_max: None, ..CassandraOptions::new(address) };
    let _turn = MAKING.acquire().await.unwrap();
    CassandraStore::initialise(&options, Some(&Replication::one(DATACENTER, 1)), false).await.unwrap();
    Some(options)
}

/// A store in a fresh keyspace of the shared node; `None` where no node can be started.
pub async fn fresh_store(clock: Arc<dyn Clock>) -> Option<Arc<CassandraStore>> {
    let options = fresh_options().await?;
    Some(CassandraStore::open(options, clock).await.unwrap())
}

/// Tells whoever runs all tests what was left out: in the file that `PENATES_NOT_RUN` names. Where `CI` is set nothing may be.
fn tell_not_run(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {what}");
    eprintln!("not run: {what}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(list, "{what}").unwrap();
    }
}
