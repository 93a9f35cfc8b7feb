//! What a cluster should be like.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ClusterError, Result};

/// A node's number in its cluster, from 1. It is also the last number of the node's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u8);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many nodes there are, and where. It is settled when a cluster is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How many data centers; they are called `dc1`, `dc2` and so on.
    pub datacenters: u8,
    /// How many nodes each of them has.
    pub nodes_per_datacenter: u8,
}

impl Shape {
    /// The most nodes that a cluster may have.
    pub const NODES_MAX: u8 = 32;

    /// This many nodes in one data center.
    pub const fn nodes(count: u8) -> Self {
        Self { datacenters: 1, nodes_per_datacenter: count }
    }

    /// How many nodes there are in all.
    pub fn count(self) -> usize {
        usize::from(self.datacenters) * usize::from(self.nodes_per_datacenter)
    }

    pub(crate) fn check(self) -> Result<()> {
        match self.count() {
            0 => Err(ClusterError::BadSpec("a cluster has at least one node in at least one data center".to_owned())),
            count if count > usize::from(Self::NODES_MAX) => {
                let most = Self::NODES_MAX;
                Err(ClusterError::BadSpec(format!("{count} nodes are too many: at most {most} fit on one machine")))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} data center(s) of {} node(s)", self.datacenters, self.nodes_per_datacenter)
    }
}

/// When Cassandra acknowledges a write: its `commitlog_sync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommitlogSync {
    /// At once; the log is synced each period. What was acknowledged since is lost when the node is killed.
    Periodic {
        /// `commitlog_sync_period`.
        #[serde(with = "humantime_serde")]
        period: Duration,
    },
    /// After the sync that covers it, which is started at once.
    Batch,
    /// After the sync that covers it; one sync each window.
    Group {
        /// `commitlog_sync_group_window`.
        #[serde(with = "humantime_serde")]
        window: Duration,
    },
}

impl Default for CommitlogSync {
    /// As Cassandra is delivered: each ten seconds.
    fn default() -> Self {
        Self::Periodic { period: Duration::from_secs(10) }
    }
}

/// Which loopback network the nodes are in: node N has the address 127.0.K.N.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The first that no other cluster has and where nothing listens at the nodes' ports. A cluster keeps what it got.
    #[default]
    Automatic,
    /// This K.
    Fixed(u8),
}

/// The ports, the same for all nodes: their addresses differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ports {
    /// For clients (CQL).
    pub cql: u16,
    /// For the other nodes.
    pub storage: u16,
    /// For JMX, without password, on the node's loopback address.
    pub jmx: u16,
}

impl Default for Ports {
    /// Cassandra's own.
    fn default() -> Self {
        Self { cql: 9042, storage: 7000, jmx: 7199 }
    }
}

/// How the nodes run. It may change from one start of a node to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// When a write is acknowledged.
    pub commitlog_sync: CommitlogSync,
    /// Whether clients must log in; the first role is `cassandra` with the password `cassandra`. To be chosen before the first
    /// start.
    pub authentication: bool,
    /// The size of each node's heap in MiB; by itself it is what fits into memory, 256 to 1,024.
    pub heap_mib: Option<u32>,
    /// More options for the Java machine, after our own, so that they override them.
    pub jvm_options: Vec<String>,
    /// More of `cassandra.yaml`: each key replaces ours.
    pub yaml: BTreeMap<String, Value>,
    /// How long a node may take until it is up.
    #[serde(with = "humantime_serde")]
    pub up_within: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            commitlog_sync: CommitlogSync::default(),
            authentication: false,
            heap_mib: None,
            jvm_options: Vec::new(),
            yaml: BTreeMap::new(),
            // A node is up after 3 to 11 s on an idle machine; tests run on busy ones.
            up_within: Duration::from_secs(180),
        }
    }
}

/// All that is to be known to make a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// How many nodes, and where.
    pub shape: Shape,
    /// Their addresses.
    #[serde(default)]
    pub network: Network,
    /// Their ports.
    #[serde(default)]
    pub ports: Ports,
    /// How they run.
    #[serde(default)]
    pub settings: Settings,
}

impl ClusterSpec {
    /// A cluster with nothing special about it.
    pub fn new(shape: Shape) -> Self {
        Self { shape, network: Network::default(), ports: Ports::default(), settings: Settings::default() }
    }
}
