//! Shared by the benchmarks here: settings, a folder, and servers to measure.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tempfile::TempDir;
use testbed::tally::times;

use super::centers::Profile;
use super::subject::{Kind, Subject};
use crate::repository_door::sync;
use crate::rig::penates::Penates;

/// How long the disk alone is measured, unless a measurement under load is shorter.
const SYNC_FOR: Duration = Duration::from_secs(1);

/// The settings of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The servers to measure.
    pub subjects: Vec<Kind>,
    /// Stored records.
    pub records: u64,
    /// Operations per second of open loops.
    pub rate: f64,
    /// Connections of closed loops.
    pub connections: Vec<usize>,
    /// How often each is measured.
    pub repetitions: u32,
    /// How long a measurement under load lasts, in seconds.
    pub seconds: f64,
    /// Whether `mixes` and `centers` look for the highest rate at which targets on Cassandra are met.
    pub highest: bool,
    /// The data centers of `centers`.
    pub centers: Profile,
}

impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, rate, repetitions, seconds, .. } = self;
        write!(out, "{records} records; {rate} operations/s; {repetitions} repetitions of {seconds} s")
    }
}

/// A run of some benchmarks.
pub struct Bench {
    /// The settings.
    pub settings: Settings,
    penates: Penates,
    /// The folder of stores, one after the other.
    folder: PathBuf,
    /// Where charts are written.
    charts: PathBuf,
    left_out: Vec<String>,
}

impl Bench {
    /// Prepares a run in a folder, with another one for charts, which is made when there is one.
    pub fn new(settings: Settings, folder: &Path, charts: PathBuf, penates: Penates) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { settings, penates, folder: folder.to_path_buf(), charts, left_out: Vec::new() })
    }

    /// How long a measurement under load lasts.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.settings.seconds)
    }

    /// How long the disk with the stores takes now to sync 4 KB, at p99 in milliseconds.
    pub fn sync_p99_ms(&self) -> Result<f64> {
        Ok(times(&sync::run(self.folder(), SYNC_FOR.min(self.duration()))?.latencies_us).p99_ms)
    }

    /// Penates itself.
    pub fn penates(&self) -> &Penates {
        &self.penates
    }

    /// The folder of stores.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of charts. It may not be there yet.
    pub fn charts(&self) -> &Path {
        &self.charts
    }

    /// A fresh server of a kind; `None`: it is not available, and the reason was recorded.
    pub fn start(&mut self, kind: Kind) -> Result<Option<Subject>> {
        self.start_with(kind, &[])
    }

    /// The same with more settings, if it is a server of Penates.
    pub fn start_with(&mut self, kind: Kind, more: &[&str]) -> Result<Option<Subject>> {
        let folder: TempDir = tempfile::Builder::new().prefix("store-").tempdir_in(&self.folder)?;
        match Subject::start(kind, &self.penates, folder, more) {
            Ok(subject) => Ok(Some(subject)),
            Err(error) if kind.is_penates() => Err(error),
            Err(error) => {
                self.left_out.push(format!("{kind}: {error:#}"));
                self.settings.subjects.retain(|known| *known != kind);
                Ok(None)
            }
        }
    }

    /// Notes what is left out, and why.
    pub fn leave_out(&mut self, what: String) {
        self.left_out.push(what);
    }

    /// The measurements left out, with the reasons.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}
