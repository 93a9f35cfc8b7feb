//! From the store alone: readers of whole volumes, as the data door reads them, without ZIP and
//! without HTTP.
//!
//! A reader takes the next volume, reads its head, its directory and the packs with its frames,
//! checks the checksums of the rows, and cuts the frames out. Nothing is inflated.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hathi::VolumeId;
use heads::{Entry, LibraryOptions};
use library::Library;
use serde::{Deserialize, Serialize};
use store::{Store, SystemClock};
use testbed::monitor::Counters;
use tokio::task::JoinSet;

use super::settings::Settings;
use super::trial::{Point, Trial, in_turn};
use crate::corpus::{CorpusVolume, Sizes};
use crate::doors::open_embedded;
use crate::rig::page_cache;

/// Bytes of frames per read, as in the data door.
const RUN_BYTES: u64 = 256 << 10;

/// The operating system's page cache of the store's files at the start of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Empty: the files were dropped (`posix_fadvise`, `POSIX_FADV_DONTNEED`).
    Cold,
    /// Full: everything was read just before.
    Warm,
}

/// A point of this stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreKey {
    /// Readers at the same time, of the whole service.
    pub readers: usize,
    /// The state of the page cache.
    pub cache: Cache,
}

/// Measures every number of readers, cold and warm. The folder is that of a closed store with these
/// volumes.
pub async fn measure(folder: &Path, volumes: &[CorpusVolume], settings: &Settings) -> Result<Vec<Point<StoreKey>>> {
    let ids: Arc<[VolumeId]> = volumes.iter().map(|volume| volume.id().clone()).collect();
    let expected = volumes.iter().map(CorpusVolume::sizes).fold(Sizes::default(), Sizes::plus);
    let keys = settings
        .readers
        .iter()
        .flat_map(|&readers| [Cache::Cold, Cache::Warm].map(|cache| StoreKey { readers, cache }));
    let trial = async |key: StoreKey| {
        // Data that was read once is not cold any more.
        let passes = if key.cache == Cache::Cold { 1 } else { settings.passes };
        trial(folder, &ids, expected, key, passes).await
    };
    in_turn("store alone", settings.trials, keys, trial).await
}

/// One trial. The store is opened for it, so that its own cache is empty. Opening does not count.
async fn trial(folder: &Path, ids: &Arc<[VolumeId]>, expected: Sizes, key: StoreKey, passes: u32) -> Result<Trial> {
    if key.cache == Cache::Cold {
        page_cache::forget(folder).context("dropping the page cache of the store's files")?;
    }
    let store = open_embedded(folder).await?;
    let library = open_library(&store).await?;
    if key.cache == Cache::Warm {
        read_all(&library, ids, key.readers).await?;
    }
    let (before, begun) = (Counters::own()?, Instant::now());
    let mut sizes = Sizes::default();
    for _ in 0..passes {
        sizes = sizes.plus(read_all(&library, ids, key.readers).await?);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let device_bytes = Counters::own()?.since(before).disks.map(|disks| disks.read as u64);
    let expected = expected.times(passes.into());
    ensure!(sizes == expected, "the store holds {sizes:?}, not {expected:?}");
    drop(library);
    store.close().await?;
    Ok(Trial { seconds, text_bytes: sizes.text_bytes, coded_bytes: sizes.frame_bytes, device_bytes })
}

/// The volumes of a store, with default settings.
pub async fn open_library(store: &Arc<dyn Store>) -> Result<Library> {
    Ok(Library::open(store.clone(), Arc::new(SystemClock), LibraryOptions::default()).await?)
}

/// Reads every volume once, with a number of readers.
pub async fn read_all(library: &Library, ids: &Arc<[VolumeId]>, readers: usize) -> Result<Sizes> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut reading = JoinSet::new();
    for _ in 0..readers {
        let (library, ids, next) = (library.clone(), ids.clone(), next.clone());
        reading.spawn(async move {
            let mut sizes = Sizes::default();
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                sizes = sizes.plus(read_volume(&library, id).await?);
            }
            anyhow::Ok(sizes)
        });
    }
    let read = reading.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(read.into_iter().fold(Sizes::default(), Sizes::plus))
}

async fn read_volume(library: &Library, id: &VolumeId) -> Result<Sizes> {
    let body = library.volumes.volume(id).await?.body;
    let entries = library.volumes.entries(id, body.generation, 0..u32::try_from(body.pages.count)?).await?;
    let mut sizes = Sizes::default();
    let mut rest = &entries[..];
    while !rest.is_empty() {
        let (run, later) = rest.split_at(run_len(rest));
        let frames = library.volumes.frames(id, body.generation, run).await?;
        sizes.frame_bytes += frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
        sizes.text_bytes += run.iter().map(|entry| u64::from(entry.member.size)).sum::<u64>();
        rest = later;
    }
    Ok(sizes)
}

/// How many entries are read at once: at least one.
fn run_len(entries: &[Entry]) -> usize {
    let mut bytes = 0;
    let fits = |entry: &&Entry| {
        bytes += u64::from(entry.member.frame_len);
        bytes <= RUN_BYTES
    };
    entries.iter().take_while(fits).count().max(1)
}
