//! The cost of door and protocol alone, and the cost that the engine adds: no listener, no TLS and no
//! socket.

use anyhow::{Context, Result};
use heads::LibraryOptions;

use super::bench::{Bench, Settings};
use crate::corpus;
use crate::doors::Door;
use crate::rig::figures::Figures;
use crate::subject::{self, Counts, Subject};

/// Pages and calls of the store in a measurement, for each second of a measurement under load.
const PAGES_PER_S: f64 = 100.0;
const CALLS_PER_S: f64 = 4_000.0;

/// Measures it with a few volumes.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    // On a worker of the runtime, where a server handles its requests too.
    bench.runtime.block_on(bench.runtime.spawn(measure(bench.settings.clone())))?
}

async fn measure(settings: Settings) -> Result<Figures> {
    let level = LibraryOptions::default().frame_level;
    let Settings { few, pages_per_volume, seed, repetitions, seconds, .. } = settings;
    let volumes = tokio::task::spawn_blocking(move || corpus::make(few, pages_per_volume, seed, level)).await??;
    let folder = tempfile::tempdir().context("making a temporary folder for the store")?;
    let door = Door::embedded(folder.path(), &volumes).await?;
    let store = door.store.clone();
    let count = |per_s: f64| (per_s * seconds).ceil() as u64;
    let counts = Counts { pages: count(PAGES_PER_S), calls: count(CALLS_PER_S) };
    let bench = subject::Bench::new(door, &volumes, counts).await?;
    let mut figures = Figures::default();
    // Once to warm up, then all in turn, so that other work of the machine affects all alike.
    for repetition in 0..=repetitions {
        for subject in Subject::ALL {
            let sample = bench.measure(subject).await.with_context(|| subject.name())?;
            if repetition > 0 {
                let each_us = sample.seconds * 1e6 / sample.operations as f64;
                figures.report(subject.name(), "µs each", each_us);
                if sample.sizes.text_bytes > 0 {
                    let text_mb = sample.sizes.text_bytes as f64 / 1e6;
                    figures.report(format!("{}: text", subject.name()), "MB/s", text_mb / sample.seconds);
                }
            }
        }
    }
    store.close().await?;
    Ok(figures)
}
