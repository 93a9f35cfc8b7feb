//! The inputs of all stages: the volumes, and a store that holds them.

use std::path::Path;

use anyhow::{Context, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::settings::Settings;
use crate::corpus::{self, CorpusVolume, Sizes};
use crate::doors::Door;

/// The volumes, and a store that holds them after it was filled.
pub struct Ground {
    volumes: Vec<CorpusVolume>,
    store: Option<TempDir>,
}

/// The size of the input of a measurement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Totals {
    /// Volumes.
    pub volumes: u64,
    /// Their pages.
    pub pages: u64,
    /// Bytes of their text and of its frames.
    #[serde(flatten)]
    pub sizes: Sizes,
}

impl Totals {
    /// The totals of some volumes.
    pub fn of(volumes: &[CorpusVolume]) -> Self {
        Self {
            volumes: volumes.len() as u64,
            pages: volumes.iter().map(|volume| volume.pages.len() as u64).sum(),
            sizes: volumes.iter().map(CorpusVolume::sizes).fold(Sizes::default(), Sizes::plus),
        }
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { volumes, pages, sizes } = self;
        let (text, frames) = (sizes.text_bytes as f64 / 1e6, sizes.frame_bytes as f64 / 1e6);
        let page_bytes = sizes.text_bytes as f64 / (*pages).max(1) as f64;
        write!(out, "{volumes} volumes, {pages} pages of {page_bytes:.0} bytes on average, ")?;
        write!(out, "{text:.1} MB of text, {frames:.1} MB of frames")
    }
}

impl Ground {
    /// Draws a number of volumes.
    pub fn new(settings: &Settings, count: usize) -> Result<Self> {
        let level = heads::LibraryOptions::default().frame_level;
        let volumes = corpus::make(count as u64, settings.pages_per_volume, settings.seed, level)?;
        Ok(Self { volumes, store: None })
    }

    /// The first volumes.
    pub fn volumes(&self, count: usize) -> &[CorpusVolume] {
        &self.volumes[..count.min(self.volumes.len())]
    }

    /// The ids of the first volumes, one per line: plain text for the data door.
    pub fn ids(&self, count: usize) -> Bytes {
        let ids: Vec<&str> = self.volumes(count).iter().map(|volume| volume.id().as_str()).collect();
        ids.join("\n").into()
    }

    /// Makes a store with all volumes, if there is none yet, and closes it.
    pub async fn fill_store(&mut self) -> Result<()> {
        if self.store.is_none() {
            let folder = tempfile::tempdir()?;
            let door = Door::embedded(folder.path(), &self.volumes).await?;
            door.store.close().await?;
            self.store = Some(folder);
        }
        Ok(())
    }

    /// The data folder of that store, which nobody holds open.
    pub fn store(&self) -> Result<&Path> {
        Ok(self.store.as_ref().context("the store was not filled")?.path())
    }
}
