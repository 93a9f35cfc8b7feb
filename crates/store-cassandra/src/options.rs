//! What can be set.

use std::fmt;
use std::time::Duration;

use crate::address::Address;
use crate::levels::Levels;

/// Who connects.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The role.
    pub user: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Where the cluster is and how it is talked to.
#[derive(Clone, Debug)]
pub struct CassandraOptions {
    /// Some of its nodes (the others are found through them) and the keyspace.
    pub address: Address,
    /// Who connects, where the cluster asks for a password.
    pub credentials: Option<Credentials>,
    /// Certificates of the authorities (PEM) that sign the nodes' certificates, which name the nodes' IP addresses. `None`: no TLS.
    pub tls_ca_pem: Option<Vec<u8>>,
    /// The data center whose nodes are talked to. It must be named where there are several.
    pub local_datacenter: Option<String>,
    /// How many replicas have to answer.
    pub levels: Levels,
    /// The data center where heads are switched, with [`Serial::LocalSerial`](crate::Serial::LocalSerial): a store elsewhere refuses to. It
    /// must be named where there are copies in several.
    pub home_datacenter: Option<String>,
    /// After how long without an answer a second node is asked the same; for reads only. `None`: never.
    pub speculative_after: Option<Duration>,
    /// Requests to the cluster at once; one more waits for as long as its deadline allows.
    pub requests_max: usize,
    /// How long a new connection may take, and opening the store.
    pub connect_timeout: Duration,
    /// How long an upload may stay silent.
    pub content_lease: Duration,
    /// How far this machine's clock may be from the nodes' before writes are refused. `None`: it is not looked at (tests with a clock
    /// of their own).
    pub clock_skew_max: Option<Duration>,
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
            home_datacenter: None,
            speculative_after: Some(Duration::from_millis(200)),
            requests_max: 1024,
            connect_timeout: Duration::from_secs(10),
            content_lease: Duration::from_secs(60),
            clock_skew_max: Some(Duration::from_secs(300)),
        }
    }
}
