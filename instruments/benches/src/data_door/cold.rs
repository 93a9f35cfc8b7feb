//! Archives from a store without anything in memory, compared with the disk alone.

use std::io::Read;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use super::bench::Bench;
use crate::rig::client::{Client, Request};
use crate::rig::figures::Figures;
use crate::rig::page_cache::{files, forget};

/// Bytes per read when files are read one after the other.
const READ_BYTES: usize = 1 << 20;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let store = bench.work.store(&bench.corpus)?;
    let selection = bench.server()?.select(&bench.corpus.ids(bench.settings.volumes))?;
    for _ in 0..bench.settings.repetitions {
        forget(&store)?;
        let disk = read_all(&store)?;
        let cached = read_all(&store)?;
        forget(&store)?;
        let server = bench.server()?;
        let received = Client::connect(server.http)?.fetch(&Request::get(&selection))?;
        let cold = received.body_bytes as f64 / 1e9 / received.whole.as_secs_f64();
        figures.report("files of the store one after the other, from the disk", "GB/s", disk);
        figures.report("the same again, out of the page cache", "GB/s", cached);
        figures.report("ZIP of a selection of all volumes, from the disk", "GB/s", cold);
        figures.report("ZIP over files", "times", cold / disk);
        figures.report("first byte, from the disk", "ms", received.first_byte.as_secs_f64() * 1e3);
    }
    Ok(figures)
}

/// Reads all files. Returns GB/s.
fn read_all(folder: &Path) -> Result<f64> {
    let (mut sum, mut buffer, begun) = (0, vec![0; READ_BYTES], Instant::now());
    for file in files(folder) {
        let mut file = file?;
        loop {
            let bytes = file.read(&mut buffer)?;
            if bytes == 0 {
                break;
            }
            sum += bytes;
        }
    }
    Ok(sum as f64 / 1e9 / begun.elapsed().as_secs_f64())
}
