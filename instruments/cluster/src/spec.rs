//! The specification of a cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control_group::Limits;
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

/// Number of nodes and data centers. It is fixed when a cluster is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Number of data centers, named `dc1`, `dc2` and so on.
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

    /// Number of nodes in all.
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
    /// At once. The log is synced once per period; a killed node loses what it acknowledged since.
    Periodic {
        /// `commitlog_sync_period`.
        #[serde(with = "humantime_serde")]
        period: Duration,
    },
    /// After the sync that covers it, which is started at once.
    Batch,
    /// After the sync that covers it, with one sync per window.
    Group {
        /// `commitlog_sync_group_window`.
        #[serde(with = "humantime_serde")]
        window: Duration,
    },
}

/// The default window of `group`.
const GROUP_WINDOW: Duration = Duration::from_millis(10);

impl Default for CommitlogSync {
    /// Cassandra's default: ten seconds.
    fn default() -> Self {
        Self::Periodic { period: Duration::from_secs(10) }
    }
}

impl FromStr for CommitlogSync {
    type Err = String;

    /// `periodic`, `batch` or `group`; the first and the last also with a time: `periodic:1s`,
    /// `group:5ms`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (mode, time) = text.split_once(':').map_or((text, None), |(mode, time)| (mode, Some(time)));
        let time =
            time.map(|time| humantime::parse_duration(time).map_err(|error| format!("{time}: {error}"))).transpose()?;
        match (mode, time) {
            ("periodic", None) => Ok(Self::default()),
            ("periodic", Some(period)) => Ok(Self::Periodic { period }),
            ("batch", None) => Ok(Self::Batch),
            ("group", time) => Ok(Self::Group { window: time.unwrap_or(GROUP_WINDOW) }),
            _ => Err("expected periodic, batch or group, or with a time periodic:1s or group:5ms".to_owned()),
        }
    }
}

/// Which loopback network the nodes are in: node N has the address 127.0.K.N.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The first that no other cluster has and where nothing listens at the nodes' ports. A cluster
    /// keeps its network.
    #[default]
    Automatic,
    /// This K.
    Fixed(u8),
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Automatic => f.write_str("any that is free"),
            Self::Fixed(third) => write!(f, "127.0.{third}.0"),
        }
    }
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
    /// Cassandra's default ports.
    fn default() -> Self {
        Self { cql: 9042, storage: 7000, jmx: 7199 }
    }
}

/// The settings of nodes. They may change from one start of a node to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// When a write is acknowledged.
    pub commitlog_sync: CommitlogSync,
    /// Whether clients must log in. The first role is `cassandra` with the password `cassandra`.
    /// Choose this before the first start.
    pub authentication: bool,
    /// Whether clients may use TLS, at the same port. They should trust
    /// [`Cluster::authority`](crate::Cluster::authority).
    pub client_tls: bool,
    /// Size of each node's heap in MiB. By default it is what fits into memory, 256 to 1,024.
    pub heap_mib: Option<u32>,
    /// The home of the Java that runs the nodes, 11 or 17; `None`: the Java 17 that is found. Programs
    /// beside the nodes, such as `nodetool`, run on that one in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub java_home: Option<PathBuf>,
    /// More options for the Java machine. They follow the built-in ones and override them. The node's
    /// own address replaces `{address}` in them.
    pub jvm_options: Vec<String>,
    /// More of `cassandra.yaml`. Each key replaces the built-in one.
    pub yaml: BTreeMap<String, Value>,
    /// What each node may use, in a control group of its own; `None`: whatever the machine has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// How long a node may take until it is up.
    #[serde(with = "humantime_serde")]
    pub up_within: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            commitlog_sync: CommitlogSync::default(),
            authentication: false,
            client_tls: false,
            heap_mib: None,
            java_home: None,
            jvm_options: Vec::new(),
            yaml: BTreeMap::new(),
            limits: None,
            // A node is up after 3 to 11 s on an idle machine; tests run on busy ones.
            up_within: Duration::from_secs(300),
        }
    }
}

/// Everything needed to create a cluster.
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
    /// How the nodes run.
    #[serde(default)]
    pub settings: Settings,
}

impl ClusterSpec {
    /// A cluster with default settings.
    pub fn new(shape: Shape) -> Self {
        Self { shape, network: Network::default(), ports: Ports::default(), settings: Settings::default() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_sync_of_the_commit_log_is_written_as_a_word_and_a_time() {
        let parsed = |text: &str| text.parse::<CommitlogSync>();
        assert_eq!(parsed("periodic"), Ok(CommitlogSync::default()));
        assert_eq!(parsed("periodic:1s"), Ok(CommitlogSync::Periodic { period: Duration::from_secs(1) }));
        assert_eq!(parsed("batch"), Ok(CommitlogSync::Batch));
        assert_eq!(parsed("group:5ms"), Ok(CommitlogSync::Group { window: Duration::from_millis(5) }));
        for wrong in ["", "batch:1s", "group:", "group:5", "sometimes"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_stored_specification_is_read_back_unchanged() {
        let mut spec = ClusterSpec::new(Shape { datacenters: 2, nodes_per_datacenter: 3 });
        spec.network = Network::Fixed(7);
        spec.settings.commitlog_sync = CommitlogSync::Group { window: Duration::from_millis(5) };
        spec.settings.yaml.insert("memtable_heap_space".to_owned(), "64MiB".into());
        spec.settings.java_home = Some("/opt/jdk-17".into());
        let stored = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<ClusterSpec>(&stored).unwrap(), spec);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        for (datacenters, nodes_per_datacenter) in [(0, 1), (1, 0), (1, 33), (255, 255)] {
            assert!(Shape { datacenters, nodes_per_datacenter }.check().is_err());
        }
        Shape { datacenters: 4, nodes_per_datacenter: 8 }.check().unwrap();
    }
}
