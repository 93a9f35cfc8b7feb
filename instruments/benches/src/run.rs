//! A whole run: corpus, stores, and every subject in turn, repeatedly.

use anyhow::{Context, Result};
use heads::LibraryOptions;
use serde::Serialize;

use crate::corpus;
use crate::doors::Door;
use crate::machine::Machine;
use crate::report::{Measured, Report, Totals};
use crate::subject::{Bench, Counts, Subject};

/// The settings of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Volumes of the corpus.
    pub volumes: u64,
    /// Pages of each volume; `None`: as many as drawn real ones.
    pub pages_per_volume: Option<u32>,
    /// The seed by which volumes are drawn.
    pub seed: u64,
    /// How often each subject is measured.
    pub repetitions: u32,
    /// How many operations make one measurement.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Runs it. The store is in a temporary folder, which is deleted afterwards.
pub async fn run(settings: Settings) -> Result<Report> {
    let machine = Machine::find();
    let level = LibraryOptions::default().frame_level;
    let (volumes, pages, seed) = (settings.volumes, settings.pages_per_volume, settings.seed);
    let volumes = tokio::task::spawn_blocking(move || corpus::make(volumes, pages, seed, level)).await??;

    let folder = tempfile::tempdir().context("making a temporary folder for the store")?;
    let door = Door::embedded(folder.path(), &volumes).await?;
    let store = door.store.clone();
    let bench = Bench::new(door, &volumes, settings.counts).await?;
    let measured = measure_in_turn(&bench, settings.repetitions).await?;
    store.close().await?;

    let totals = Totals {
        volumes: volumes.len() as u64,
        pages: volumes.iter().map(|volume| volume.pages.len() as u64).sum(),
        all: bench.all(),
        all_by_null_engine: bench.all_null(),
        page: bench.page(),
    };
    Ok(Report { machine, settings, totals, measured })
}

/// Each subject once to warm up, then all in turn, so that other work of the machine affects all
/// alike.
async fn measure_in_turn(bench: &Bench, repetitions: u32) -> Result<Vec<Measured>> {
    for subject in Subject::ALL {
        bench.measure(subject).await.with_context(|| subject.name())?;
    }
    let mut measured = Subject::ALL.map(|subject| Measured { subject, samples: Vec::new() });
    for _ in 0..repetitions {
        for Measured { subject, samples } in &mut measured {
            samples.push(bench.measure(*subject).await.with_context(|| subject.name())?);
        }
    }
    Ok(measured.into())
}
