//! The stored results: `study.json`, with all trials of all stages.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::ground::Totals;
use super::links::LinkKey;
use super::server_alone::ServerKey;
use super::settings::Settings;
use super::store_alone::StoreKey;
use super::together::DoorKey;
use super::trial::Point;
use super::zip_alone::{Measured, ZipKey};
use crate::machine::Machine;

/// The name of the file.
const FILE: &str = "study.json";

/// The results of all stages, each from its last run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// From the store alone.
    pub store: Option<Stage<StoreKey>>,
    /// Into ZIP alone.
    pub zip: Option<Stage<ZipKey>>,
    /// The contents of that stage's ZIPs.
    #[serde(default)]
    pub contents: Vec<Measured>,
    /// From the server alone.
    pub server: Option<Stage<ServerKey>>,
    /// All together.
    pub together: Option<Stage<DoorKey>>,
    /// All together, over longer links.
    pub links: Option<Stage<LinkKey>>,
}

/// One stage: machine, settings, input and results.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stage<K> {
    /// The machine.
    pub machine: Machine,
    /// The settings.
    pub settings: Settings,
    /// The input.
    pub totals: Totals,
    /// The measurements.
    pub points: Vec<Point<K>>,
}

impl<K: PartialEq> Stage<K> {
    /// The point of a key.
    pub fn point(&self, key: &K) -> Option<&Point<K>> {
        self.points.iter().find(|point| point.key == *key)
    }
}

impl Outcome {
    /// The results in a folder; empty if there is no file.
    pub fn load(folder: &Path) -> Result<Self> {
        let file = folder.join(FILE);
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read(&file)?;
        serde_json::from_slice(&text).with_context(|| format!("{} is of another version", file.display()))
    }

    /// Writes them into a folder.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let file = folder.join(FILE);
        std::fs::write(&file, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("writing {}", file.display()))
    }

    /// The ratio of a ZIP of the stage `zip_alone`: its bytes per byte of text.
    pub fn ratio(&self, key: ZipKey) -> Option<f64> {
        let contents = self.contents.iter().find(|measured| measured.key == key)?.contents;
        Some(contents.zip_bytes as f64 / contents.text_bytes as f64)
    }
}
