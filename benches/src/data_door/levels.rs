//! Archives that are compressed anew, beside the DEFLATE library alone on as many processors.

use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::Result;

use super::bench::{Bench, text_bytes};
use super::client::{Client, Request};
use super::deflate::{Deflate, Libdeflate};
use super::download::measure;
use super::figures::{Figures, Target};
use super::parallel::on_all_processors;
use super::work::Texts;

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
            let (alone, deflated_bytes) = alone(&texts, *level)?;
            figures.tell(format!("level {level}: page text through the door"), "MB/s", by_door);
            figures.tell(format!("level {level}: page text by the library alone"), "MB/s", alone);
            figures.hold(format!("level {level}: of the library's rate"), "times", OF_LIBRARY, by_door / alone);
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

/// Deflates all texts on all processors, each by itself; MB/s of text, and bytes that come out.
fn alone(texts: &Texts, level: u8) -> Result<(f64, u64)> {
    let next = AtomicUsize::new(0);
    let begun = Instant::now();
    let worker = || {
        let (mut library, mut bytes) = (Libdeflate::new(level)?, 0_u64);
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(batch) = texts.get(from..texts.len().min(from + BATCH)).filter(|batch| !batch.is_empty()) else {
                return anyhow::Ok(bytes);
            };
            for text in batch {
                bytes += library.deflate(text)?.len() as u64;
            }
        }
    };
    let bytes: u64 = on_all_processors(worker)?.into_iter().sum();
    let text_bytes: usize = texts.iter().map(Vec::len).sum();
    Ok((text_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64(), bytes))
}
