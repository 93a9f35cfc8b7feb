//! What can go wrong, and what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::spec::{NodeId, Shape};

/// The result of whatever is done to a cluster.
pub type Result<T> = std::result::Result<T, ClusterError>;

/// Why something could not be done. Each message ends with what to do.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// There is no Java that Cassandra runs on.
    #[error(
        "Cassandra needs Java 17, and {found}; install it (Debian: openjdk-17-jre-headless) or set JAVA_HOME to one"
    )]
    NoJava {
        /// What was found instead.
        found: String,
    },
    /// Maven is needed once, to fetch the jars.
    #[error(
        "Maven (mvn) is needed to fetch Cassandra's jars; install it, or set CASSANDRA_HOME to an installation of Cassandra 5"
    )]
    NoMaven,
    /// Maven did not fetch the jars.
    #[error(
        "Maven could not fetch Cassandra's jars ({reason}); it is tried anew with the next start. It said:\n{output}"
    )]
    Fetch {
        /// Why it is said to have failed.
        reason: String,
        /// The end of Maven's output.
        output: String,
    },
    /// Another process has been fetching the jars for too long.
    #[error(
        "another process has been fetching Cassandra's jars into {cache} for {waited:?}; end it, or name another folder in PENATES_CASSANDRA_CACHE"
    )]
    FetchHeld {
        /// The cache folder.
        cache: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// `CASSANDRA_HOME` does not name an installation that can be used.
    #[error("CASSANDRA_HOME is {home}, where {missing} is missing; correct it, or unset it to have the jars fetched")]
    BadInstallation {
        /// What the variable says.
        home: PathBuf,
        /// What should be there.
        missing: String,
    },
    /// There is no place to keep the jars.
    #[error("there is no cache folder: set PENATES_CASSANDRA_CACHE, XDG_CACHE_HOME or HOME")]
    NoCacheFolder,
    /// A specification that makes no sense.
    #[error("{0}")]
    BadSpec(String),
    /// Another process runs the cluster in this folder.
    #[error(
        "another process runs the cluster in {folder}; end it with `penates cluster down --folder {folder}`, or name another folder"
    )]
    FolderHeld {
        /// The cluster's folder.
        folder: PathBuf,
    },
    /// There is no cluster in this folder.
    #[error("there is no cluster in {folder}; make one with `penates cluster up --folder {folder}`")]
    NoCluster {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder's cluster has another number of nodes.
    #[error("the cluster in {folder} has {made}, not {asked}; name another folder, or delete that one")]
    OtherShape {
        /// The cluster's folder.
        folder: PathBuf,
        /// How it was made.
        made: Shape,
        /// How it was asked for.
        asked: Shape,
    },
    /// Something listens where a node should.
    #[error(
        "{address} is in use, and a node of the cluster should listen there; end what listens there (another cluster, perhaps)"
    )]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// No loopback network is free.
    #[error("none of the loopback networks 127.0.1.0 to 127.0.254.0 is free; end another cluster first")]
    NoFreeNetwork,
    /// The nodes would not fit into memory.
    #[error(
        "{nodes} node(s) need about {needed_mib} MiB of memory, and {available_mib} MiB are available; start fewer nodes, or set the heap's size to try all the same"
    )]
    NotEnoughMemory {
        /// How many nodes there would be.
        nodes: usize,
        /// What they need, in MiB.
        needed_mib: u64,
        /// What there is, in MiB.
        available_mib: u64,
    },
    /// There is no node of this number.
    #[error("there is no node {node}; the cluster has the nodes 1 to {count}")]
    NoSuchNode {
        /// The node.
        node: NodeId,
        /// How many there are.
        count: usize,
    },
    /// The node runs already.
    #[error("node {node} runs already; stop or kill it first")]
    Running {
        /// The node.
        node: NodeId,
    },
    /// The node does not run.
    #[error("node {node} does not run; start it first")]
    NotRunning {
        /// The node.
        node: NodeId,
    },
    /// A process of the node's former life is still there.
    #[error("node {node} was started before and is not gone after {waited:?}; see who holds {log} open")]
    NotGone {
        /// The node.
        node: NodeId,
        /// How long it was waited for.
        waited: Duration,
        /// A file that each process of a node holds open.
        log: PathBuf,
    },
    /// A node ended while it was waited for.
    #[error("node {node} ended ({status}) before it was up; its log, {log}, ends:\n{tail}")]
    Died {
        /// The node.
        node: NodeId,
        /// How it ended.
        status: ExitStatus,
        /// Its log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// A node was not up in time. It has been killed.
    #[error(
        "node {node} was not up within {patience:?} and has been killed; allow more time, or see its log, {log}, which ends:\n{tail}"
    )]
    NotUp {
        /// The node.
        node: NodeId,
        /// How long it was waited for.
        patience: Duration,
        /// Its log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// Nodes run, but do not find each other.
    #[error(
        "all nodes run, but node {node} did not reach all others within {patience:?}; see its log, {log}, which ends:\n{tail}"
    )]
    NotMet {
        /// The node.
        node: NodeId,
        /// How long it was waited for.
        patience: Duration,
        /// Its log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// A node that was asked to end did not, and has been killed.
    #[error("node {node} did not end within {patience:?} when it was asked to, and has been killed; its log is {log}")]
    NotStopped {
        /// The node.
        node: NodeId,
        /// How long it was waited for.
        patience: Duration,
        /// Its log.
        log: PathBuf,
    },
    /// Cassandra's `nodetool` failed.
    #[error("nodetool failed at node {node} ({how}); it said:\n{output}")]
    NodeTool {
        /// The node that was asked.
        node: NodeId,
        /// How `nodetool` ended.
        how: String,
        /// What it said.
        output: String,
    },
    /// The operating system refused something.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// Says what was being done when the operating system refused.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| ClusterError::Io { doing, path: path.to_owned(), source })
    }
}
