//! Real Cassandra nodes as child processes on loopback addresses, for trials, tests and
//! measurements.
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
//! - `spec.rs`: the options of a cluster; `cluster.rs`: its operations; `error.rs`: its errors;
//! - `java.rs`, `jars.rs`, `jolokia.rs`: where Java, Cassandra and the agent that shows MBeans come
//!   from; `cache.rs`: the folder that keeps them;
//! - `network.rs`, `plan.rs`, `config.rs`, `jvm.rs`, `memory.rs`, `tls.rs`: a node's address, its
//!   part of the ring, its files, command line, memory and certificates;
//! - `programs.rs`: where programs are; `guard.rs`: ends children with their owner;
//!   `control_group.rs`: limits them; `node.rs`: a node from start to end; `cql.rs`: whether it
//!   answers;
//! - `control.rs`: commands from other processes; `nodetool.rs`: Cassandra's own commands.
//!
//! The crate knows nothing of Penates: no store, no driver, no schema.

mod cache;
mod cluster;
mod config;
mod control;
mod control_group;
mod cql;
mod error;
mod guard;
mod jars;
mod java;
mod jolokia;
mod jvm;
mod memory;
mod network;
mod node;
mod nodetool;
mod plan;
mod programs;
mod spec;
mod tail;
mod tls;

pub use cluster::Cluster;
pub use control::{Control, Order, leave_terminal, order};
pub use control_group::{ControlGroup, Limits};
pub use error::{ClusterError, Result};
pub use guard::{Guarded, WATCHER, guarded};
pub use jars::CASSANDRA_VERSION;
pub use java::Java;
pub use jolokia::{JOLOKIA_VERSION, jolokia_agent, jolokia_option};
pub use memory::fitting_heap_mib;
pub use node::{NodeState, NodeStatus};
pub use nodetool::nodetool;
pub use programs::{program, program_in};
pub use spec::{ClusterSpec, CommitlogSync, Network, NodeId, Ports, Settings, Shape};

/// Checks that this machine has what clusters need: Java 17, and Cassandra or Maven to fetch it. It
/// fetches nothing. Tests that cannot run print the error.
pub fn prerequisites() -> Result<()> {
    java::Java::find()?;
    jars::Jars::can_be_found()
}

/// Whether opening a cluster would fetch Cassandra first, which takes half a minute or more.
pub fn is_to_be_fetched() -> Result<bool> {
    jars::Jars::are_to_be_fetched()
}
