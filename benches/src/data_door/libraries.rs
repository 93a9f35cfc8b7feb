//! DEFLATE libraries beside each other: how small they make pages, and how fast, on one processor.

use std::time::Instant;

use anyhow::Result;

use super::bench::Bench;
use super::deflate::{Deflate, Flate2, Libdeflate, ZlibRs};
use crate::rig::figures::Figures;
use crate::rig::work::Texts;

/// Levels that are compared.
const LEVELS: [u8; 4] = [1, 3, 6, 9];
/// Bytes of text that each is given.
const TEXT_BYTES: usize = 16_000_000;
/// What flate2 uses in this build.
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
    }
    Ok(figures)
}

fn once(name: &str, library: &mut dyn Deflate, texts: &Texts, figures: &mut Figures) -> Result<()> {
    let (begun, mut deflated_bytes, mut text_bytes) = (Instant::now(), 0, 0);
    for text in texts {
        deflated_bytes += library.deflate(text)?.len();
        text_bytes += text.len();
    }
    figures.tell(format!("{name}: page text"), "MB/s", text_bytes as f64 / 1e6 / begun.elapsed().as_secs_f64());
    figures.tell(format!("{name}: streams over text"), "times", deflated_bytes as f64 / text_bytes as f64);
    Ok(())
}
