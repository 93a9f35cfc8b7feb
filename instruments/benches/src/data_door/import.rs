//! An import, compared with a bare program that does only the obligatory work of any import.

use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use heads::LibraryOptions;
use md5::{Digest, Md5};
use pack::Framer;
use sha2::Sha256;
use testbed::monitor::Counters;
use walkdir::WalkDir;
use zip::ZipArchive;

use super::bench::Bench;
use super::parallel::on_all_processors;
use crate::rig::figures::{Figures, Goal};
use crate::rig::work::disk_bytes;

const OF_BARE: Goal = Goal::AtLeast(0.8);

/// Measures it with few volumes, from a pairtree in the page cache.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let pairtree = bench.work.pairtree(&bench.few)?;
    let zips = zips(&pairtree)?;
    let expected = bare(&zips)?; // warms the page cache up
    for repetition in 0..bench.settings.repetitions {
        let begun = Instant::now();
        let done = bare(&zips)?;
        let bare_seconds = begun.elapsed().as_secs_f64();
        ensure!(done == expected, "the bare program did something else");

        let store = bench.work.running().join(format!("import-{repetition}"));
        let (before, begun) = (Counters::own()?, Instant::now());
        let import =
            ["import".as_ref(), "--init".as_ref(), "--store".as_ref(), store.as_os_str(), pairtree.as_os_str()];
        bench.work.penates().run(import)?;
        let seconds = begun.elapsed().as_secs_f64();
        let used = Counters::own()?.since(before);
        let disk = disk_bytes(&store)?;
        fs::remove_dir_all(&store)?;

        figures.report("bare program: page text", "MB/s", done.text_bytes as f64 / 1e6 / bare_seconds);
        figures.report("import: page text", "MB/s", done.text_bytes as f64 / 1e6 / seconds);
        figures.report("import: CPU", "s", used.reaped_cpu_s);
        figures.hold("import: of the bare program's rate", "times", OF_BARE, bare_seconds / seconds);
        figures.report("written to the disk over frames", "times", used.written_bytes() / done.frame_bytes as f64);
        figures.report("disk use over frames", "times", disk as f64 / done.frame_bytes as f64);
    }
    Ok(figures)
}

/// The volume ZIPs of a pairtree.
fn zips(pairtree: &Path) -> Result<Vec<PathBuf>> {
    let mut zips = Vec::new();
    for entry in WalkDir::new(pairtree).sort_by_file_name() {
        let path = entry?.into_path();
        if path.extension().is_some_and(|extension| extension == "zip") {
            zips.push(path);
        }
    }
    Ok(zips)
}

/// The work of the bare program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Done {
    text_bytes: u64,
    frame_bytes: u64,
}

/// Does the obligatory work on all processors.
fn bare(zips: &[PathBuf]) -> Result<Done> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let (mut framer, mut sum) = (Framer::new(LibraryOptions::default().frame_level), Done::default());
        while let Some(zip) = zips.get(next.fetch_add(1, Ordering::Relaxed)) {
            let done = obligatory(zip, &mut framer).with_context(|| zip.display().to_string())?;
            sum.text_bytes += done.text_bytes;
            sum.frame_bytes += done.frame_bytes;
        }
        anyhow::Ok(sum)
    };
    let done = on_all_processors(worker)?;
    Ok(Done {
        text_bytes: done.iter().map(|done| done.text_bytes).sum(),
        frame_bytes: done.iter().map(|done| done.frame_bytes).sum(),
    })
}

/// Inflates each page of a ZIP, digests it, deflates it, inflates that again and compares (both by
/// the framer), digests it once more.
fn obligatory(zip: &Path, framer: &mut Framer) -> Result<Done> {
    let mut archive = ZipArchive::new(Cursor::new(fs::read(zip)?))?;
    let (mut done, mut text) = (Done::default(), Vec::new());
    for index in 0..archive.len() {
        text.clear();
        archive.by_index(index)?.read_to_end(&mut text)?;
        std::hint::black_box(Md5::digest(&text));
        let frame = framer.frame(&text)?;
        std::hint::black_box(Sha256::digest(&text));
        done.text_bytes += text.len() as u64;
        done.frame_bytes += frame.bytes.len() as u64;
    }
    Ok(done)
}
