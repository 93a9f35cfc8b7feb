//! The node of Cassandra.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use cluster::{Cluster, ClusterSpec, CommitlogSync, NodeId, Settings, Shape};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use store::SystemClock;
use store_cassandra::{CassandraOptions, CassandraStore};
use testbed::monitor::Counters;

/// The only node.
const NODE: NodeId = NodeId(1);
/// A node that ends when the value is dropped.
pub struct Node(Cluster);

impl Node {
    /// Starts it with its data in a folder. The default heap, in MiB, fits the machine.
    pub fn start(folder: &Path, heap_mib: Option<u32>, commitlog_sync: CommitlogSync) -> Result<Self> {
        let mut settings = Settings { heap_mib, commitlog_sync, ..Settings::default() };
        // No later process uses its data, so the schema of each store need not be flushed.
        settings.jvm_options.push("-Dcassandra.unsafesystem=true".to_owned());
        let cluster = Cluster::open(folder, &ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(1)) })?;
        cluster.start_all()?;
        Ok(Self(cluster))
    }

    /// The address for clients.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(*self.0.contact_points().first().context("a cluster without nodes")?)
    }

    /// The address of a store in it.
    pub fn store(&self, keyspace: &str) -> Result<String> {
        Ok(format!("cassandra://{}/{keyspace}", self.address()?))
    }

    /// What it has used so far.
    pub fn usage(&self) -> Result<Counters> {
        let pid = self.0.status().first().and_then(|node| node.pid).context("the node does not run")?;
        Ok(Counters::of(pid)?)
    }

    /// Runs `nodetool`.
    pub fn nodetool(&self, command: &[&str]) -> Result<String> {
        Ok(self.0.nodetool(NODE, command)?)
    }
}

/// Opens a store in this process, with default settings.
pub async fn open(address: SocketAddr, keyspace: &str) -> Result<Arc<CassandraStore>> {
    let options = CassandraOptions::new(format!("cassandra://{address}/{keyspace}").parse()?);
    Ok(CassandraStore::open(options, Arc::new(SystemClock)).await?)
}

/// A session of the driver alone.
pub async fn session(address: SocketAddr) -> Result<Session> {
    Ok(SessionBuilder::new().known_node_addr(address).build().await?)
}
