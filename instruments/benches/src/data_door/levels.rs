//! Archives at other levels than the stored frames', compared with the library doing the same with
//! frames in memory, on as many processors: it inflates them, and compresses the texts if the level
//! says so. It reads no store, writes no ZIP and sends nothing.

use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use heads::LibraryOptions;
use libdeflater::Decompressor;
use pack::{FRAME_END, Frame, Framer};
use testbed::monitor::Counters;

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
            let library = by_library(&frames, text_bytes, *level, *layout != "pages")?;
            let what = format!("{layout}, level {level}");
            figures.report(format!("{what}: page text through the door"), "MB/s", by_door);
            figures.report(format!("{what}: page text by the library"), "MB/s", library.rate);
            figures.hold(format!("{what}: of the library's rate"), "times", OF_LIBRARY, by_door / library.rate);
            let busy = sample.server_cpu_seconds / sample.seconds;
            figures.report(format!("{what}: processors that the server keeps busy"), "", busy);
            // Processor time is counted in hundredths of seconds: a small archive may take none.
            if sample.server_cpu_seconds > 0.0 {
                let of_processor = library.cpu_seconds / sample.server_cpu_seconds;
                figures.report(format!("{what}: of the library's rate per busy processor"), "times", of_processor);
            }
            figures.report(format!("{what}: ZIP over text"), "times", *zip_bytes as f64 / text_bytes as f64);
            let ratio = library.bytes as f64 / text_bytes as f64;
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

/// What the library did.
struct ByLibrary {
    /// MB of text per second.
    rate: f64,
    /// Bytes of its output.
    bytes: u64,
    /// Its processor time.
    cpu_seconds: f64,
}

/// Inflates frames as a program does that knows of libdeflate only its functions: page by page, each
/// as a stream with the end that a ZIP has, into a buffer of the text's length. `pack` is faster.
/// What it is compared with must not change with it.
struct Inflate {
    library: Decompressor,
    stream: Vec<u8>,
    text: Vec<u8>,
}

impl Inflate {
    fn new() -> Self {
        Self { library: Decompressor::new(), stream: Vec::new(), text: Vec::new() }
    }

    /// The text of a frame. Its length and its CRC-32 are checked, as the door does.
    fn inflate(&mut self, frame: &Frame) -> Result<&[u8]> {
        self.stream.clear();
        self.stream.extend_from_slice(&frame.bytes);
        self.stream.extend_from_slice(&FRAME_END);
        self.text.resize(frame.size as usize, 0);
        let len = self.library.deflate_decompress(&self.stream, &mut self.text)?;
        ensure!(len == self.text.len(), "a frame inflates to {len} bytes instead of {}", self.text.len());
        ensure!(crc32fast::hash(&self.text) == frame.crc32, "a frame inflates to another text");
        Ok(&self.text)
    }
}

/// Inflates everything, and compresses it unless the level is 0, on all processors. Pages become
/// separate streams with libdeflate. Joined pages become parts of a stream with flate2, because
/// libdeflate makes whole streams only.
fn by_library(frames: &[Frame], text_bytes: u64, level: u8, joined: bool) -> Result<ByLibrary> {
    let next = AtomicUsize::new(0);
    let (cpu_before, begun) = (Counters::own()?, Instant::now());
    let worker = || {
        let mut inflate = Inflate::new();
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
                let page = inflate.inflate(frame)?;
                match (level, joined) {
                    (0, _) => bytes += page.len() as u64,
                    (_, false) => bytes += apart.deflate(page)?.len() as u64,
                    (_, true) => text.extend_from_slice(page),
                }
            }
            if !text.is_empty() {
                bytes += together.deflate(&text)?.len() as u64;
            }
        }
    };
    let bytes: u64 = on_all_processors(worker)?.into_iter().sum();
    let rate = text_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64();
    Ok(ByLibrary { rate, bytes, cpu_seconds: Counters::own()?.since(cpu_before).cpu_s })
}
