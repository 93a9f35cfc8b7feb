//! Archives at other levels than the stored frames', compared with the library doing the same with
//! frames in memory, on as many processors: it inflates them, and compresses the texts if the level
//! says so.

use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Result;
use heads::LibraryOptions;
use pack::{Frame, Framer};

use super::bench::Bench;
use super::deflate::{Deflate, Flate2, Libdeflate};
use super::parallel::on_all_processors;
use crate::rig::client::{Client, Request};
use crate::rig::download::measure;
use crate::rig::figures::{Figures, Goal};
use crate::rig::work::{Texts, text_bytes};

/// The measured levels.
const LEVELS: [u8; 4] = [0, 1, 6, 9];
/// The measured layouts. `wordseq` joins pages like `volumes`.
const LAYOUTS: [&str; 3] = ["pages", "volumes", "wordseq"];
const OF_LIBRARY: Goal = Goal::AtLeast(0.9);
/// Pages that a thread takes at once. Joined pages make one stream, as a volume does. A volume has
/// 234 pages on average.
const BATCH: usize = 234;

/// Measures it with few volumes.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let volumes = bench.settings.few;
    let server = bench.server()?;
    let text_bytes = text_bytes(&server, &bench.corpus, volumes)?;
    let frames = frames(&bench.work.texts(&server, &bench.corpus, volumes)?)?;
    let ids = bench.corpus.ids(volumes).trim_end().replace('\n', "|");
    let mut client = Client::connect(server.http)?;
    let mut requests = Vec::new();
    for (layout, level) in LAYOUTS.iter().flat_map(|layout| LEVELS.map(|level| (*layout, level))) {
        let fields = [("volumeIDs", &*ids), ("layout", layout), ("level", &level.to_string())];
        let request = Request::post_form("/volumes", &fields);
        // The bytes are always the same; this download also warms caches up.
        let zip_bytes = client.fetch(&request)?.body_bytes;
        requests.push((layout, level, request, zip_bytes));
    }
    for _ in 0..bench.settings.repetitions {
        for (layout, level, request, zip_bytes) in &requests {
            let sample = measure(&mut client, slice::from_ref(request), *zip_bytes, &server.process)?;
            let by_door = sample.rate_of(text_bytes) * 1e3;
            let (by_library, library_bytes) = by_library(&frames, text_bytes, *level, *layout != "pages")?;
            let what = format!("{layout}, level {level}");
            figures.report(format!("{what}: page text through the door"), "MB/s", by_door);
            figures.report(format!("{what}: page text by the library"), "MB/s", by_library);
            figures.hold(format!("{what}: of the library's rate"), "times", OF_LIBRARY, by_door / by_library);
            let busy = sample.server_cpu_seconds / sample.seconds;
            figures.report(format!("{what}: processors that the server keeps busy"), "", busy);
            figures.report(format!("{what}: ZIP over text"), "times", *zip_bytes as f64 / text_bytes as f64);
            let ratio = library_bytes as f64 / text_bytes as f64;
            figures.report(format!("{what}: the library's streams over text"), "times", ratio);
        }
    }
    Ok(figures)
}

/// Makes frames of texts.
fn frames(texts: &Texts) -> Result<Vec<Frame>> {
    let mut framer = Framer::new(LibraryOptions::default().frame_level);
    texts.iter().map(|text| Ok(framer.frame(text)?)).collect()
}

/// Inflates everything, and compresses it unless the level is 0, on all processors. Returns MB/s of
/// text, and the bytes of the output. Pages become separate streams with libdeflate. Joined pages
/// become parts of a stream with flate2, because libdeflate makes whole streams only.
fn by_library(frames: &[Frame], text_bytes: u64, level: u8, joined: bool) -> Result<(f64, u64)> {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let worker = || {
        let (mut apart, mut together) = (Libdeflate::new(level)?, Flate2::new(level));
        let (mut bytes, mut text) = (0_u64, Vec::new());
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            let to = frames.len().min(from.saturating_add(BATCH));
            let Some(batch) = frames.get(from..to).filter(|batch| !batch.is_empty()) else {
                return anyhow::Ok(bytes);
            };
            text.clear();
            for frame in batch {
                let page = pack::inflate(&frame.bytes, frame.size, frame.crc32)?;
                match (level, joined) {
                    (0, _) => bytes += page.len() as u64,
                    (_, false) => bytes += apart.deflate(&page)?.len() as u64,
                    (_, true) => text.extend_from_slice(&page),
                }
            }
            if !text.is_empty() {
                bytes += together.deflate(&text)?.len() as u64;
            }
        }
    };
    let bytes: u64 = on_all_processors(worker)?.into_iter().sum();
    Ok((text_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64(), bytes))
}
