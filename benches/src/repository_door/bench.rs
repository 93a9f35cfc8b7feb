//! What every benchmark here gets: settings, a folder, and servers to measure.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tempfile::TempDir;

use super::subject::{Kind, Subject};
use super::{fedora, penates, solid};
use crate::rig::penates::Penates;

/// What is asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Which servers are measured.
    pub subjects: Vec<Kind>,
    /// Connections of each closed loop.
    pub connections: Vec<usize>,
    /// How often each is measured.
    pub repetitions: u32,
    /// How long a measurement under load lasts, in seconds.
    pub seconds: f64,
    /// Members of the big container.
    pub members: u64,
    /// Bytes of the large binary.
    pub large_bytes: u64,
    /// Resources that are sent in one request.
    pub many: u64,
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
    /// What was asked for.
    pub settings: Settings,
    /// The program.
    pub penates: Penates,
    /// Where stores are, one after the other.
    folder: PathBuf,
    /// Where programs of peers are kept.
    peers: PathBuf,
    left_out: Vec<String>,
}

impl Bench {
    /// Makes ready, in a folder.
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

    /// The folder in which stores lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A fresh server of Penates.
    pub fn penates(&self) -> Result<Subject> {
        let folder = self.fresh_folder()?;
        penates::start(&self.penates, folder)
    }

    /// A fresh server of a kind; `None`: it cannot be had, and why was noted.
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

    /// What could not be measured, and why.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}
