//! The Cassandra node of all benchmarks here.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use cluster::{CASSANDRA_VERSION, Cluster, ClusterSpec, CommitlogSync, NodeId, Settings, Shape};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use serde_json::json;
use store::SystemClock;
use store_cassandra::{CassandraOptions, CassandraStore};
use testbed::monitor::Counters;

/// The only node.
const NODE: NodeId = NodeId(1);
/// Memory for the row cache, which no table uses by default: more than the volumes of a run take.
const ROW_CACHE: &str = "512MiB";

/// A node that ends when the value is dropped.
pub struct Node(Cluster);

impl Node {
    /// Starts it with its data in a folder. The default heap, in MiB, fits the machine.
    pub fn start(folder: &Path, heap_mib: Option<u32>, commitlog_sync: CommitlogSync) -> Result<Self> {
        let mut settings = Settings { heap_mib, commitlog_sync, ..Settings::default() };
        // No later process uses its data, so the schema of each store need not be flushed.
        settings.jvm_options.push("-Dcassandra.unsafesystem=true".to_owned());
        settings.yaml.insert("row_cache_size".to_owned(), json!(ROW_CACHE));
        // Mapped files cannot be dropped from the page cache.
        settings.yaml.insert("disk_access_mode".to_owned(), json!("standard"));
        let cluster = Cluster::open(folder, &ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(1)) })?;
        cluster.start_all()?;
        Ok(Self(cluster))
    }

    /// Its name and version.
    pub fn version() -> String {
        format!("Apache Cassandra {CASSANDRA_VERSION}")
    }

    /// The address for clients.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(*self.0.contact_points().first().context("a cluster without nodes")?)
    }

    /// The address of a store in it.
    pub fn store(&self, keyspace: &str) -> Result<String> {
        Ok(format!("cassandra://{}/{keyspace}", self.address()?))
    }

    /// Opens a store in this process, with default settings.
    pub async fn open(&self, keyspace: &str) -> Result<Arc<CassandraStore>> {
        let options = CassandraOptions::new(self.store(keyspace)?.parse()?);
        Ok(CassandraStore::open(options, Arc::new(SystemClock)).await?)
    }

    /// A session of the driver alone.
    pub async fn session(&self) -> Result<Session> {
        Ok(SessionBuilder::new().known_node_addr(self.address()?).build().await?)
    }

    /// What it has used so far.
    pub fn usage(&self) -> Result<Counters> {
        Ok(Counters::of(self.pid()?)?)
    }

    /// Its process id.
    pub fn pid(&self) -> Result<u32> {
        self.0.status().first().and_then(|node| node.pid).context("the node does not run")
    }

    /// Its log.
    pub fn log(&self) -> Result<std::path::PathBuf> {
        Ok(self.0.status().first().context("a cluster without nodes")?.log.clone())
    }

    /// The folder of its data files.
    pub fn data(&self) -> Result<std::path::PathBuf> {
        let status = self.0.status();
        Ok(status.first().context("a cluster without nodes")?.folder.join("data"))
    }

    /// Runs `nodetool`.
    pub fn nodetool(&self, command: &[&str]) -> Result<String> {
        Ok(self.0.nodetool(NODE, command)?)
    }
}
