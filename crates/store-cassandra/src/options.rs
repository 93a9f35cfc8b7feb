//! Options of the engine.

use std::time::Duration;

use store::FormatLevel;

use crate::address::Address;
use crate::credentials::Credentials;
use crate::levels::Levels;

/// The address of the cluster, and how to use it.
#[derive(Clone, Debug)]
pub struct CassandraOptions {
    /// Some of its nodes (the others are discovered through them) and the keyspace.
    pub address: Address,
    /// The login, if the cluster requires a password.
    pub credentials: Option<Credentials>,
    /// Certificates (PEM) of the authorities that sign the nodes' certificates, which name the
    /// nodes' IP addresses. `None`: no TLS.
    pub tls_ca_pem: Option<Vec<u8>>,
    /// The data center whose nodes are used. It must be named if there are several.
    pub local_datacenter: Option<String>,
    /// How many replicas must answer.
    pub levels: Levels,
    /// After this time without an answer, a read is also sent to a second node. `None`: never. A try
    /// ends after 3 seconds, so a longer time means the same.
    pub speculative_after: Option<Duration>,
    /// Requests to the cluster at the same time. Further ones wait until their deadlines.
    pub requests_max: usize,
    /// The time limit for a new connection, and for opening the store.
    pub connect_timeout: Duration,
    /// How long an upload may send nothing.
    pub content_lease: Duration,
    /// The greatest difference between the clocks of two servers. If this machine's clock differs
    /// by more than half of it from those of most nodes, no head is switched. `None`: clocks are
    /// not compared, and count as equal (for tests with their own clocks).
    pub clock_skew_max: Option<Duration>,
    /// The newest level that this program knows. Tests set another one, to be an earlier or a later
    /// program.
    pub newest_level: FormatLevel,
}

impl CassandraOptions {
    /// The defaults, for a store at `address`.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            credentials: None,
            tls_ca_pem: None,
            local_datacenter: None,
            levels: Levels::default(),
            speculative_after: Some(Duration::from_millis(200)),
            requests_max: 1024,
            connect_timeout: Duration::from_secs(10),
            content_lease: Duration::from_secs(60),
            clock_skew_max: Some(Duration::from_secs(300)),
            newest_level: FormatLevel::NEWEST,
        }
    }
}
