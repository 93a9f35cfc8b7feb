//! Shared by the benchmarks here: settings, the corpus, the folder, servers, and a node of Cassandra.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use cluster::CommitlogSync;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::node::Node;
use crate::rig::penates::{Penates, Server};
use crate::rig::work::{Corpus, Work};

/// The keyspace with the volumes.
const VOLUMES: &str = "volumes";

/// The settings of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Volumes of the store.
    pub volumes: u64,
    /// Volumes for measurements for which fewer are enough.
    pub few: u64,
    /// Pages of each volume; `None`: as many as drawn real ones.
    pub pages_per_volume: Option<u32>,
    /// The seed by which volumes are drawn.
    pub seed: u64,
    /// How often each is measured.
    pub repetitions: u32,
    /// How long a measurement under load lasts, in seconds.
    pub seconds: f64,
    /// How long requests run before they count, in seconds: until a node of Cassandra has compiled its code.
    pub warm_up_seconds: f64,
    /// The heap of the node in MiB; `None`: a size that fits the machine.
    pub heap_mib: Option<u32>,
    /// When the node acknowledges a write.
    pub commitlog_sync: CommitlogSync,
}

impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volumes, few, seed, repetitions, .. } = self;
        write!(out, "{volumes} volumes (few: {few}), seed {seed}; {repetitions} repetitions")
    }
}

/// A run of some benchmarks.
pub struct Bench {
    /// The settings.
    pub settings: Settings,
    /// The volumes of the store.
    pub corpus: Corpus,
    /// A few of them.
    pub few: Corpus,
    /// The runtime for calls in this process.
    pub runtime: Runtime,
    /// The node, started at the first call. It ends before its folder is deleted.
    node: Option<Node>,
    has_volumes: bool,
    stores_made: u32,
    /// The folder of all files.
    pub work: Work,
}

impl Bench {
    /// Prepares a run in a folder.
    pub fn new(settings: Settings, folder: &Path, penates: Penates) -> Result<Self> {
        let Settings { volumes, few, pages_per_volume, seed, .. } = settings;
        let corpus = Corpus { volumes, pages_per_volume, seed };
        let few = Corpus { volumes: few, ..corpus.clone() };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let work = Work::new(folder, penates)?;
        Ok(Self { settings, corpus, few, runtime, node: None, has_volumes: false, stores_made: 0, work })
    }

    /// A server of the store.
    pub fn server(&self) -> Result<Server> {
        self.serve(&[])
    }

    /// The same with a small cache, so that its memory is what requests take.
    pub fn server_with_small_cache(&self) -> Result<Server> {
        self.serve(&["store.cache=16MiB"])
    }

    fn serve(&self, settings: &[&str]) -> Result<Server> {
        let store = self.work.store(&self.corpus)?;
        self.work.penates().serve(&store.to_string_lossy(), settings).context(
            "serving a copy of a kept store; if what is stored has another format by now, empty the folder of --work",
        )
    }

    /// How long requests run before they count.
    pub fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.settings.warm_up_seconds)
    }

    /// The node.
    pub fn node(&mut self) -> Result<&Node> {
        if self.node.is_none() {
            let Settings { heap_mib, commitlog_sync, .. } = self.settings;
            self.node = Some(Node::start(&self.work.running().join("node"), heap_mib, commitlog_sync)?);
        }
        self.node.as_ref().context("no node")
    }

    /// The keyspace of a store with a few volumes, created at the first call. Its data is flushed to
    /// files.
    pub fn volumes(&mut self) -> Result<&'static str> {
        if !self.has_volumes {
            let store = self.make(VOLUMES)?;
            self.work.fill(&self.few, &store)?;
            self.node()?.nodetool(&["flush", VOLUMES])?;
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

    fn make(&mut self, keyspace: &str) -> Result<String> {
        let store = self.node()?.store(keyspace)?;
        self.work.penates().run(["init", "--store", &store])?;
        Ok(store)
    }

    /// A server over a store on the node. A node that hangs for a while makes a request slow, but does
    /// not end the benchmark.
    pub fn server_on_node(&mut self, keyspace: &str) -> Result<Server> {
        let store = self.node()?.store(keyspace)?;
        self.work.penates().serve(&store, &["store.call_timeout=60s"])
    }
}
