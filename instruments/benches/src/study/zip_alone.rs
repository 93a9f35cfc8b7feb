//! Into ZIP alone: pages from memory, three layouts, unchanged frames and all levels.
//!
//! The memory holds frames, like the store: levels 0 to 9 first inflate each page.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use futures::{Stream, TryStreamExt};
use pack::memory::MemorySource;
use pack::{Archive, Layout, Level};
use serde::{Deserialize, Serialize};

use super::trial::{Point, Trial, in_turn};
use super::unpack::{Contents, Unpacker};
use crate::corpus::{self, CorpusVolume, Sizes};

/// The layouts, in the order of the tables.
pub const LAYOUTS: [Layout; Layout::ALL.len()] = Layout::ALL;

/// A point of this stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZipKey {
    /// How pages become entries.
    pub layout: Layout,
    /// How they are compressed.
    pub level: Level,
}

/// The contents of one of the ZIPs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Its key.
    #[serde(flatten)]
    pub key: ZipKey,
    /// Its contents.
    #[serde(flatten)]
    pub contents: Contents,
}

/// Frames and levels 0 to 9.
pub fn levels() -> impl Iterator<Item = Level> + Clone {
    std::iter::once(Level::Frames).chain((0..=9).filter_map(Level::of_number))
}

/// Makes every ZIP once and checks its contents, then measures how fast each is made.
pub async fn measure(volumes: &[CorpusVolume], trials: u32) -> Result<(Vec<Point<ZipKey>>, Vec<Measured>)> {
    let sizes = volumes.iter().map(CorpusVolume::sizes).fold(Sizes::default(), Sizes::plus);
    let source = Arc::new(corpus::in_memory(volumes, None));
    let keys = LAYOUTS.into_iter().flat_map(|layout| levels().map(move |level| ZipKey { layout, level }));
    let mut contents = Vec::new();
    for key in keys.clone() {
        contents.push(Measured { key, contents: unpacked(zip(&source, key)).await? });
        let text_bytes = contents.last().map_or(0, |last| last.contents.text_bytes);
        ensure!(text_bytes == sizes.text_bytes, "{key:?} holds {text_bytes} bytes of text");
    }
    let points = in_turn("ZIP alone", trials, keys, async |key| {
        let begun = Instant::now();
        let coded_bytes = zip(&source, key).try_fold(0, async |bytes, piece| Ok(bytes + piece.len() as u64)).await?;
        let seconds = begun.elapsed().as_secs_f64();
        let expected = contents.iter().find(|measured| measured.key == key).map(|measured| measured.contents.zip_bytes);
        ensure!(Some(coded_bytes) == expected, "{key:?} has {coded_bytes} bytes this time, and had {expected:?}");
        Ok(Trial { seconds, text_bytes: sizes.text_bytes, coded_bytes, device_bytes: None })
    });
    let points = points.await?;
    Ok((points, contents))
}

/// The ZIP of all volumes of a source.
pub fn zip(
    source: &Arc<MemorySource>,
    ZipKey { layout, level }: ZipKey,
) -> impl Stream<Item = Result<bytes::Bytes>> + use<> {
    let archive = Archive { layout, level, groups: source.groups(), errors: None, descriptors: false };
    Box::pin(pack::stream(Arc::new(archive), source.clone(), pack::WHOLE).map_err(anyhow::Error::from))
}

async fn unpacked(zip: impl Stream<Item = Result<bytes::Bytes>>) -> Result<Contents> {
    let unpacker = zip.try_fold(Unpacker::default(), async |mut unpacker, piece| {
        unpacker.take(&piece)?;
        Ok(unpacker)
    });
    unpacker.await?.end()
}
