//! The errors of a cluster. Each says what to do.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::spec::{NodeId, Shape};

/// The result of an operation on a cluster.
pub type Result<T> = std::result::Result<T, ClusterError>;

/// Why an operation failed. Each message ends with what to do.
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
    /// A home has no Java that Cassandra runs on.
    #[error("Cassandra needs Java 11 or 17, and {home} {why}; name the home of such a Java")]
    UnusableJava {
        /// The home.
        home: PathBuf,
        /// What it has instead.
        why: String,
    },
    /// Maven is needed once, to fetch the jars.
    #[error(
        "Maven (mvn) is needed to fetch Cassandra's jars; install it, or set CASSANDRA_HOME to an installation of Cassandra 5"
    )]
    NoMaven,
    /// Maven did not fetch the jars.
    #[error("Maven could not fetch jars ({reason}); the next start tries again. It said:\n{output}")]
    Fetch {
        /// Why it failed.
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
        /// How long this process waited for it.
        waited: Duration,
    },
    /// `CASSANDRA_HOME` does not name a usable installation.
    #[error("CASSANDRA_HOME is {home}, where {missing} is missing; correct it, or unset it to have the jars fetched")]
    BadInstallation {
        /// The value of the variable.
        home: PathBuf,
        /// The missing file or folder.
        missing: String,
    },
    /// There is no folder for the jars.
    #[error("there is no cache folder: set PENATES_CASSANDRA_CACHE, XDG_CACHE_HOME or HOME")]
    NoCacheFolder,
    /// An invalid specification.
    #[error("{0}")]
    BadSpec(String),
    /// Another process runs the cluster in this folder.
    #[error(
        "another process runs the cluster in {folder}; end it with `lares cluster down --folder {folder}`, or name another folder"
    )]
    FolderHeld {
        /// The cluster's folder.
        folder: PathBuf,
    },
    /// There is no cluster in this folder.
    #[error("there is no cluster in {folder}; make one with `lares cluster up --folder {folder}`")]
    NoCluster {
        /// The folder.
        folder: PathBuf,
    },
    /// No process runs the folder's cluster.
    #[error("the cluster in {folder} does not run; start it with `lares cluster up --folder {folder}`")]
    NotRun {
        /// The cluster's folder.
        folder: PathBuf,
    },
    /// The error of the process that runs the cluster.
    #[error("{0}")]
    Refused(String),
    /// The folder's cluster has another number of nodes.
    #[error("the cluster in {folder} has {made}, not {asked}; name another folder, or delete that one")]
    OtherShape {
        /// The cluster's folder.
        folder: PathBuf,
        /// The shape with which it was created.
        made: Shape,
        /// The requested shape.
        asked: Shape,
    },
    /// Something listens at a node's address.
    #[error(
        "{address} is in use, and a node of the cluster should listen there; end the program that listens there (perhaps another cluster)"
    )]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// No loopback network is free.
    #[error("none of the loopback networks 127.0.1.0 to 127.0.239.0 is free; end another cluster first")]
    NoFreeNetwork,
    /// The nodes would not fit into memory.
    #[error(
        "{nodes} node(s) need about {needed_mib} MiB of memory, and {available_mib} MiB are available; start fewer nodes, or set the heap's size to try all the same"
    )]
    NotEnoughMemory {
        /// The number of nodes to start.
        nodes: usize,
        /// The memory that they need, in MiB.
        needed_mib: u64,
        /// The available memory, in MiB.
        available_mib: u64,
    },
    /// There is no node of this number.
    #[error("there is no node {node}; the cluster has the nodes 1 to {count}")]
    NoSuchNode {
        /// The node.
        node: NodeId,
        /// The number of nodes.
        count: usize,
    },
    /// The node is running.
    #[error("node {node} is running; stop or kill it first")]
    Running {
        /// The node.
        node: NodeId,
    },
    /// The node is not running.
    #[error("node {node} is not running; start it first")]
    NotRunning {
        /// The node.
        node: NodeId,
    },
    /// A process of an earlier start of the node still runs.
    #[error("node {node} was started before and is not gone after {waited:?}; see which process holds {log} open")]
    NotGone {
        /// The node.
        node: NodeId,
        /// How long this process waited.
        waited: Duration,
        /// A file that each process of a node holds open.
        log: PathBuf,
    },
    /// A node ended before it was up.
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
        /// The time limit.
        patience: Duration,
        /// Its log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// Nodes run, but do not reach each other.
    #[error(
        "all nodes run, but node {node} did not reach all others within {patience:?}; see its log, {log}, which ends:\n{tail}"
    )]
    NotMet {
        /// The node.
        node: NodeId,
        /// The time limit.
        patience: Duration,
        /// Its log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// A node did not end when asked to, and was killed.
    #[error("node {node} did not end within {patience:?} when it was asked to, and has been killed; its log is {log}")]
    NotStopped {
        /// The node.
        node: NodeId,
        /// The time limit.
        patience: Duration,
        /// Its log.
        log: PathBuf,
    },
    /// Cassandra's `nodetool` failed.
    #[error("nodetool failed at {jmx} ({how}); it said:\n{output}")]
    NodeTool {
        /// Where the node that was asked takes JMX.
        jmx: SocketAddr,
        /// How `nodetool` ended.
        how: String,
        /// Its output.
        output: String,
    },
    /// The operating system refused an operation.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Adds the operation and the path to an error of the operating system.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| ClusterError::Io { doing, path: path.to_owned(), source })
    }
}
