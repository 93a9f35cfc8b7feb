//! Real Cassandra nodes as child processes on loopback addresses: for trying out, for tests and for measuring.
//!
//! ```no_run
//! use cluster::{Cluster, ClusterSpec, NodeId, Shape};
//!
//! let cluster = Cluster::open("try", &ClusterSpec::new(Shape::nodes(3)))?;
//! cluster.start_all()?;
//! println!("CQL at {:?}", cluster.contact_points());
//! cluster.kill(NodeId(2))?; // kill -9
//! cluster.start(NodeId(2))?;
//! # Ok::<(), cluster::ClusterError>(())
//! ```
//!
//! How to read it:
//!
//! - `spec.rs`: what one may ask for; `cluster.rs`: what one may do; `error.rs`: what can go wrong;
//! - `java.rs`, `jars.rs`: where Java and Cassandra come from; `cache.rs`: the folder where they are kept;
//! - `network.rs`, `plan.rs`, `config.rs`, `jvm.rs`, `memory.rs`: where a node listens, which part of the ring it has, its files,
//!   its command line and its memory;
//! - `guard.rs`: why no process is ever left behind; `node.rs`: a node from start to end; `cql.rs`: whether it answers.
//!
//! It knows nothing of Penates: no store, no driver, no schema.

mod cache;
mod cluster;
mod config;
mod cql;
mod error;
mod guard;
mod jars;
mod java;
mod jvm;
mod memory;
mod network;
mod node;
mod plan;
mod spec;
mod tail;

pub use cluster::Cluster;
pub use error::{ClusterError, Result};
pub use jars::CASSANDRA_VERSION;
pub use node::{NodeState, NodeStatus};
pub use spec::{ClusterSpec, CommitlogSync, Network, NodeId, Ports, Settings, Shape};

/// Whether this machine has what clusters need: Java 17, and Cassandra or what fetches it. Nothing is fetched by asking. Tests that
/// cannot run tell the error.
pub fn prerequisites() -> Result<()> {
    java::Java::find()?;
    jars::Jars::can_be_found()
}
