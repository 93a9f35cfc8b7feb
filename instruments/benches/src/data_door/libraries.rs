//! Compares DEFLATE libraries: the size of compressed pages, and the speed of compressing and
//! inflating, on one processor.

use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use heads::LibraryOptions;

use super::bench::Bench;
use super::deflate::{Deflate, Flate2, Libdeflate, ZlibRs};
use crate::rig::figures::Figures;
use crate::rig::work::Texts;

/// The compared levels.
const LEVELS: [u8; 4] = [1, 3, 6, 9];
/// Bytes of text for each.
const TEXT_BYTES: usize = 16_000_000;
/// The backend of flate2 in this build.
const FLATE2: &str = if cfg!(feature = "zlib-ng") { "zlib-ng" } else { "zlib-rs, by flate2" };

/// Measures it, in turn.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let texts = {
        let server = bench.server()?;
        bench.work.texts(&server, &bench.corpus, bench.settings.few)?
    };
    let mut taken = 0;
    let texts: Texts = texts
        .into_iter()
        .take_while(|text| {
            taken += text.len();
            taken <= TEXT_BYTES
        })
        .collect();
    let mut library = Libdeflate::new(LibraryOptions::default().frame_level)?;
    let streams = texts.iter().filter(|text| !text.is_empty());
    let streams: Vec<(Vec<u8>, usize)> =
        streams.map(|text| Ok((library.deflate(text)?.to_vec(), text.len()))).collect::<Result<_>>()?;
    for repetition in 0..=bench.settings.repetitions {
        // The first round warms up.
        let mut ignored = Figures::default();
        let figures = if repetition == 0 { &mut ignored } else { &mut figures };
        for level in LEVELS {
            let libraries: [(&str, Box<dyn Deflate>); 3] = [
                (FLATE2, Box::new(Flate2::new(level))),
                ("zlib-rs", Box::new(ZlibRs::new(level))),
                ("libdeflate", Box::new(Libdeflate::new(level)?)),
            ];
            for (name, mut library) in libraries {
                once(&format!("{name}, level {level}"), library.as_mut(), &texts, figures)?;
            }
        }
        for (name, mut inflate) in inflaters() {
            let mut text = Vec::new();
            let begun = Instant::now();
            for (stream, size) in &streams {
                text.resize(*size, 0);
                inflate(stream, &mut text)?;
            }
            let text_bytes: usize = streams.iter().map(|(_, size)| size).sum();
            let rate = text_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64();
            figures.report(format!("{name}, inflating: page text"), "MB/s", rate);
        }
    }
    Ok(figures)
}

/// Inflates a stream into a buffer of exactly the text's length.
type Inflate = Box<dyn FnMut(&[u8], &mut [u8]) -> Result<()>>;

fn inflaters() -> [(&'static str, Inflate); 3] {
    let mut libdeflate = libdeflater::Decompressor::new();
    let mut zlib_rs = zlib_rs::Inflate::new(false, 15);
    let mut flate2 = flate2::Decompress::new(false);
    [
        (
            "libdeflate",
            Box::new(move |stream, text| {
                ensure!(libdeflate.deflate_decompress(stream, text)? == text.len(), "libdeflate made less");
                Ok(())
            }),
        ),
        (
            "zlib-rs",
            Box::new(move |stream, text| {
                zlib_rs.reset(false);
                let status = zlib_rs.decompress(stream, text, zlib_rs::InflateFlush::Finish);
                let status = status.map_err(|error| anyhow!("zlib-rs: {}", error.as_str()))?;
                ensure!(status == zlib_rs::Status::StreamEnd, "zlib-rs made less");
                Ok(())
            }),
        ),
        (
            FLATE2,
            Box::new(move |stream, text| {
                flate2.reset(false);
                let status = flate2.decompress(stream, text, flate2::FlushDecompress::Finish)?;
                ensure!(status == flate2::Status::StreamEnd, "flate2 made less");
                Ok(())
            }),
        ),
    ]
}

fn once(name: &str, library: &mut dyn Deflate, texts: &Texts, figures: &mut Figures) -> Result<()> {
    let (begun, mut deflated_bytes, mut text_bytes) = (Instant::now(), 0, 0);
    for text in texts {
        deflated_bytes += library.deflate(text)?.len();
        text_bytes += text.len();
    }
    figures.report(format!("{name}: page text"), "MB/s", text_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64());
    figures.report(format!("{name}: streams over text"), "times", deflated_bytes as f64 / text_bytes as f64);
    Ok(())
}
