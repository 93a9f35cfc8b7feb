//! Shared by the benchmarks here: settings, the corpus, the folder, servers.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::rig::penates::{Penates, Server};
use crate::rig::tls::Identity;
use crate::rig::work::{Corpus, Work};

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
    /// The folder of all files.
    pub work: Work,
    /// The key and certificate of all HTTPS servers.
    pub identity: Identity,
    left_out: Vec<String>,
}

impl Bench {
    /// Prepares a run in a folder.
    pub fn new(settings: Settings, folder: &Path, penates: Penates) -> Result<Self> {
        let corpus =
            Corpus { volumes: settings.volumes, pages_per_volume: settings.pages_per_volume, seed: settings.seed };
        let work = Work::new(folder, penates)?;
        let identity = Identity::make(work.running())?;
        Ok(Self { settings, corpus, work, identity, left_out: Vec::new() })
    }

    /// A server of the store, with HTTP and HTTPS.
    pub fn server(&self) -> Result<Server> {
        self.serve(&[])
    }

    /// The same with a small cache, so that its memory is what requests take.
    pub fn server_with_small_cache(&self) -> Result<Server> {
        self.serve(&["store.cache=16MiB"])
    }

    fn serve(&self, settings: &[&str]) -> Result<Server> {
        let store = self.work.store(&self.corpus)?;
        let (log, identity) = (store.with_extension("log"), Some(&self.identity));
        self.work.penates().serve(store.as_os_str(), &log, identity, settings).context(
            "serving a copy of a kept store; if what is stored has another format by now, empty the folder of --work",
        )
    }

    /// Records why a measurement was left out.
    pub fn leave_out<T>(&mut self, why: &str) -> Option<T> {
        if !self.left_out.iter().any(|known| known == why) {
            self.left_out.push(why.to_owned());
        }
        None
    }

    /// The measurements left out, with the reasons.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}
