//! Shared by the benchmarks here: settings, a node, stores in it, and servers over them.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use cluster::CommitlogSync;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::node::Node;
use crate::repository_door::penates;
use crate::repository_door::subject::Subject;
use crate::rig::penates::{Penates, Server};
use crate::rig::work::{Corpus, Work};

/// The keyspace with the volumes.
const VOLUMES: &str = "volumes";

/// A node that hangs for a while makes a request slow, but does not end the benchmark.
const PATIENT: &[&str] = &["store.call_timeout=60s"];

/// The settings of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Volumes of the store.
    pub volumes: u64,
    /// Pages of each volume; `None`: as many as drawn real ones.
    pub pages_per_volume: Option<u32>,
    /// The seed by which volumes are drawn.
    pub seed: u64,
    /// How often each is measured.
    pub repetitions: u32,
    /// How long a measurement under load lasts, in seconds.
    pub seconds: f64,
    /// How long requests run before they count, in seconds: until the node has compiled its code.
    pub warm_up_seconds: f64,
    /// Connections of closed loops.
    pub connections: Vec<usize>,
    /// Point reads per second; as many point writes.
    pub rate: f64,
    /// Readers of the whole service.
    pub readers: Vec<usize>,
    /// Members of the big container.
    pub members: u64,
    /// The heap of the node in MiB; `None`: a size that fits the machine.
    pub heap_mib: Option<u32>,
    /// When the node acknowledges a write.
    pub commitlog_sync: CommitlogSync,
}

impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volumes, seed, repetitions, seconds, rate, members, commitlog_sync, .. } = self;
        write!(
            out,
            "{volumes} volumes, seed {seed}; {repetitions} repetitions of {seconds} s; {rate} point reads and as many writes a second; \
             {members} members; {commitlog_sync:?}"
        )
    }
}

/// A run of some benchmarks.
pub struct Bench {
    /// The settings.
    pub settings: Settings,
    /// The node. It ends before its folder is deleted.
    pub node: Node,
    /// The volumes of the store.
    pub corpus: Corpus,
    /// The folder of all files.
    pub work: Work,
    /// Where charts are written.
    pub charts: PathBuf,
    /// The runtime for calls in this process.
    pub runtime: Runtime,
    has_volumes: bool,
    stores_made: u32,
}

impl Bench {
    /// Starts a node with its data in a folder.
    pub fn new(settings: Settings, folder: &Path, charts: PathBuf, penates: Penates) -> Result<Self> {
        let corpus =
            Corpus { volumes: settings.volumes, pages_per_volume: settings.pages_per_volume, seed: settings.seed };
        let work = Work::new(folder, penates)?;
        let node = Node::start(&work.running().join("node"), settings.heap_mib, settings.commitlog_sync)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        Ok(Self { settings, node, corpus, work, charts, runtime, has_volumes: false, stores_made: 0 })
    }

    /// How long a measurement under load lasts.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.settings.seconds)
    }

    /// How long requests run before they count.
    pub fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.settings.warm_up_seconds)
    }

    /// The keyspace of the store with the volumes, created at the first call. Its data is flushed
    /// to files.
    pub fn volumes(&mut self) -> Result<&'static str> {
        if !self.has_volumes {
            self.make(VOLUMES)?;
            self.work.fill(&self.corpus, &self.node.store(VOLUMES)?)?;
            self.node.nodetool(&["flush", VOLUMES])?;
            self.has_volumes = true;
        }
        Ok(VOLUMES)
    }

    /// The keyspace of an empty store.
    pub fn empty(&mut self) -> Result<String> {
        self.stores_made += 1;
        let keyspace = format!("bench_{}", self.stores_made);
        self.make(&keyspace)?;
        Ok(keyspace)
    }

    fn make(&self, keyspace: &str) -> Result<()> {
        self.work.penates().run(["init", "--store", &self.node.store(keyspace)?]).map(drop)
    }

    /// A server over a store.
    pub fn server(&self, keyspace: &str) -> Result<Server> {
        let (store, log) = (self.node.store(keyspace)?, self.work.running().join(format!("{keyspace}.log")));
        self.work.penates().serve(OsStr::new(&store), &log, None, PATIENT)
    }

    /// A server over a store, for benchmarks of the repository door.
    pub fn repository(&self, keyspace: &str) -> Result<Subject> {
        let store = self.node.store(keyspace)?;
        penates::over(self.work.penates(), OsStr::new(&store), tempfile::tempdir_in(self.work.running())?, PATIENT)
    }
}
