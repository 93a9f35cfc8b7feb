//! Archives that are compressed anew, beside the DEFLATE library alone on as many processors: when it only compresses the texts, and when
//! it also inflates the frames that they come from, as the door has to.

use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Result;
use objects::LibraryOptions;
use pack::{Frame, Framer};

use super::bench::Bench;
use super::deflate::{Deflate, Libdeflate};
use super::parallel::on_all_processors;
use crate::rig::client::{Client, Request};
use crate::rig::download::measure;
use crate::rig::figures::{Figures, Target};
use crate::rig::work::{Texts, text_bytes};

/// Levels that are asked for.
const LEVELS: [u8; 3] = [1, 6, 9];
const OF_LIBRARY: Target = Target::AtLeast(0.9);
/// Texts that a thread takes at once.
const BATCH: usize = 64;

/// Measures it for few volumes.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let volumes = bench.settings.few;
    let server = bench.server()?;
    let text_bytes = text_bytes(&server, &bench.corpus, volumes)?;
    let texts = bench.work.texts(&server, &bench.corpus, volumes)?;
    let ids = bench.corpus.ids(volumes);
    let frames = frames(&texts)?;
    let mut client = Client::connect(server.http)?;
    let mut requests = Vec::new();
    for level in LEVELS {
        let request = Request::post_form(
            "/volumes",
            &[("volumeIDs", &ids.trim_end().replace('\n', "|")), ("level", &level.to_string())],
        );
        // Always the same bytes; this once also warms caches up.
        let zip_bytes = client.fetch(&request)?.body_bytes;
        requests.push((level, request, zip_bytes));
    }
    for _ in 0..bench.settings.repetitions {
        for (level, request, zip_bytes) in &requests {
            let sample = measure(&mut client, slice::from_ref(request), *zip_bytes, &server.process)?;
            let by_door = sample.rate_of(text_bytes) * 1e3;
            let deflate = |library: &mut Libdeflate, text: &Vec<u8>| Ok(library.deflate(text)?.len() as u64);
            let (alone, deflated_bytes) = alone(&texts, text_bytes, *level, deflate)?;
            let recompress = |library: &mut Libdeflate, frame: &Frame| {
                Ok(library.deflate(&pack::inflate(&frame.bytes, frame.size, frame.crc32)?)?.len() as u64)
            };
            let (recompressing, _) = self::alone(&frames, text_bytes, *level, recompress)?;
            figures.tell(format!("level {level}: page text through the door"), "MB/s", by_door);
            figures.tell(format!("level {level}: page text by the library alone"), "MB/s", alone);
            figures.hold(format!("level {level}: of the library's rate"), "times", OF_LIBRARY, by_door / alone);
            figures.tell(format!("level {level}: page text by the library, inflating too"), "MB/s", recompressing);
            figures.tell(format!("level {level}: of that rate"), "times", by_door / recompressing);
            let busy = sample.server_cpu_seconds / sample.seconds;
            figures.tell(format!("level {level}: processors that the server keeps busy"), "", busy);
            let ratio = *zip_bytes as f64 / text_bytes as f64;
            figures.tell(format!("level {level}: ZIP over text"), "times", ratio);
            let ratio = deflated_bytes as f64 / text_bytes as f64;
            figures.tell(format!("level {level}: the library's streams over text"), "times", ratio);
        }
    }
    Ok(figures)
}

/// Texts as frames.
fn frames(texts: &Texts) -> Result<Vec<Frame>> {
    let mut framer = Framer::new(LibraryOptions::default().frame_level);
    texts.iter().map(|text| Ok(framer.frame(text)?)).collect()
}

/// Deflates everything on all processors, each item by itself; MB/s of text, and bytes that come out.
fn alone<T: Sync>(
    items: &[T],
    text_bytes: u64,
    level: u8,
    deflate: impl Fn(&mut Libdeflate, &T) -> Result<u64> + Sync,
) -> Result<(f64, u64)> {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let worker = || {
        let (mut library, mut bytes) = (Libdeflate::new(level)?, 0_u64);
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(batch) = items.get(from..items.len().min(from + BATCH)).filter(|batch| !batch.is_empty()) else {
                return anyhow::Ok(bytes);
            };
            for item in batch {
                bytes += deflate(&mut library, item)?;
            }
        }
    };
    let bytes: u64 = on_all_processors(worker)?.into_iter().sum();
    Ok((text_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64(), bytes))
}
