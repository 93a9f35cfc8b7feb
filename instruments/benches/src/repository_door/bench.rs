//! Shared by the benchmarks here: settings, a folder, and servers to measure.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tempfile::TempDir;

use super::subject::{Kind, Subject};
use super::{fedora, penates, solid};
use crate::rig::penates::Penates;

/// The settings of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The servers to measure.
    pub subjects: Vec<Kind>,
    /// Connections of each closed loop.
    pub connections: Vec<usize>,
    /// How often each is measured.
    pub repetitions: u32,
    /// How long a measurement under load lasts, in seconds.
    pub seconds: f64,
    /// Small resources to read, update or search for.
    pub resources: u64,
    /// Members of the big container.
    pub members: u64,
    /// Bytes of the large binary.
    pub large_bytes: u64,
    /// Resources in one request.
    pub many: u64,
    /// Versions of the resource in which one is looked for.
    pub versions: u64,
    /// Events that many consumers read.
    pub events: u64,
}

impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { repetitions, seconds, members, large_bytes, many, .. } = self;
        write!(
            out,
            "{repetitions} repetitions of {seconds} s; {members} members; a binary of {large_bytes} bytes; {many} resources in one \
             request"
        )
    }
}

/// A run of some benchmarks.
pub struct Bench {
    /// The settings.
    pub settings: Settings,
    /// The program.
    pub penates: Penates,
    /// The folder of stores, one after the other.
    folder: PathBuf,
    /// The folder of peers' programs.
    peers: PathBuf,
    left_out: Vec<String>,
}

impl Bench {
    /// Prepares a run in a folder.
    pub fn new(settings: Settings, folder: &Path, peers: &Path, penates: Penates) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        std::fs::create_dir_all(peers)?;
        let (folder, peers) = (folder.to_path_buf(), peers.to_path_buf());
        Ok(Self { settings, penates, folder, peers, left_out: Vec::new() })
    }

    /// How long a measurement under load lasts.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.settings.seconds)
    }

    /// The folder of stores.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A fresh server of Penates.
    pub fn penates(&self) -> Result<Subject> {
        let folder = self.fresh_folder()?;
        penates::start(&self.penates, folder)
    }

    /// The same with more settings, such as `feed.keep=0s`.
    pub fn penates_with(&self, more: &[&str]) -> Result<Subject> {
        let folder = self.fresh_folder()?;
        let store = folder.path().join("data");
        penates::over(&self.penates, store.as_os_str(), folder, more)
    }

    /// A fresh server of a kind; `None`: it is not available, and the reason was recorded.
    pub fn start(&mut self, kind: Kind) -> Result<Option<Subject>> {
        let folder = self.fresh_folder()?;
        let started = match kind {
            Kind::Penates => return penates::start(&self.penates, folder).map(Some),
            Kind::Fedora => fedora::start(&self.peers, folder),
            Kind::SolidFile => solid::start(&self.peers, folder, solid::Backend::File),
            Kind::SolidMemory => solid::start(&self.peers, folder, solid::Backend::Memory),
        };
        match started {
            Ok(subject) => Ok(Some(subject)),
            Err(error) => {
                self.left_out.push(format!("{kind}: {error:#}"));
                self.settings.subjects.retain(|known| *known != kind);
                Ok(None)
            }
        }
    }

    fn fresh_folder(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("store-").tempdir_in(&self.folder)?)
    }

    /// The measurements left out, with the reasons.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}
