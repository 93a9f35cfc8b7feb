//! Archives out of a store of which nothing is in memory, beside what the disk does by itself.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use rustix::fs::{Advice, fadvise};
use walkdir::WalkDir;

use super::bench::Bench;
use crate::rig::client::{Client, Request};
use crate::rig::figures::Figures;

/// Bytes that are read at once when files are read one after the other.
const READ_BYTES: usize = 1 << 20;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let store = bench.work.store(&bench.corpus)?;
    let selection = bench.server()?.select(&bench.corpus.ids(bench.settings.volumes))?;
    for _ in 0..bench.settings.repetitions {
        drop_from_cache(&store)?;
        let disk = read_all(&store)?;
        let cached = read_all(&store)?;
        drop_from_cache(&store)?;
        let server = bench.server()?;
        let received = Client::connect(server.http)?.fetch(&Request::get(&selection))?;
        let cold = received.body_bytes as f64 / 1e9 / received.whole.as_secs_f64();
        figures.tell("files of the store one after the other, from the disk", "GB/s", disk);
        figures.tell("the same again, out of the page cache", "GB/s", cached);
        figures.tell("ZIP of a selection of all volumes, from the disk", "GB/s", cold);
        figures.tell("ZIP over files", "times", cold / disk);
        figures.tell("first byte, from the disk", "ms", received.first_byte.as_secs_f64() * 1e3);
    }
    Ok(figures)
}

fn files(folder: &Path) -> impl Iterator<Item = Result<File>> {
    let entries = WalkDir::new(folder).sort_by_file_name().into_iter();
    let files = entries.filter(|entry| entry.as_ref().map_or(true, |entry| entry.file_type().is_file()));
    files.map(|entry| Ok(File::open(entry?.path())?))
}

/// Asks Linux to forget what it holds of files (posix_fadvise(2)); what is not on the disk yet gets there first.
fn drop_from_cache(folder: &Path) -> Result<()> {
    for file in files(folder) {
        let file = file?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Reads all files; GB/s.
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
