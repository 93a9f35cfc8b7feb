//! The auditor: how fast it reads, beside the digest that it computes, and what it costs readers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::bench::Bench;
use super::subject::Subject;
use super::{penates, versions};
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::load::closed;
use crate::rig::page_cache;

/// The binaries that are audited.
const BINARIES: usize = 64;
/// Connections that read them.
const CONNECTIONS: usize = 8;
/// How long a pass may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// The pause between two looks at the auditor.
const PAUSE: Duration = Duration::from_millis(50);
/// Turns passes of the auditor off.
const OFF: &str = "fixity.every=off";
/// Begins a pass at once.
const AT_ONCE: &str = "fixity.every=1s";
/// Lets a pass be as fast as it can.
const UNLIMITED: &str = "fixity.rate=0B";
/// The metric of what the auditor has read.
const BYTES: &str = "penates_fixity_bytes_total";
/// The metric that is infinite until a pass has ended.
const OLDEST: &str = "penates_fixity_oldest_check_seconds";
/// The metric of where the blocks of rows were found.
const BLOCKS: &str = "penates_embedded_block_reads_total{";
/// Its label for those that were in no cache of the server.
const FROM_FILES: &str = "source=\"file\"";

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        measure(bench, &mut figures)?;
    }
    Ok(figures)
}

/// Measures a store of its own: the first pass of one that was audited before is over at once.
fn measure(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("audited-").tempdir_in(bench.folder())?;
    let piece: Vec<u8> = (0..256 << 10).map(|n| (n % 251) as u8).collect();
    let pieces = (bench.settings.large_bytes as usize / BINARIES / piece.len()).max(1);
    {
        let subject = over(bench, &folder, &[OFF])?;
        let mut client = Client::connect(subject.address)?;
        for n in 0..BINARIES {
            client.upload(&subject.path(&format!("binary-{n}")), "application/x-bytes", &piece, pieces)?;
        }
        for n in 0..bench.settings.resources {
            client.fetch(&versions::change(&subject, &subject.path(&format!("r{n}")), 0))?;
        }
    }
    let digest = digest_rate(&piece, pieces * BINARIES / 4);
    let disk = disk_rate(&folder)?;
    let rate = first_pass(bench, &folder, (pieces * BINARIES * piece.len()) as f64, figures)?;
    figures.report("SHA-256 alone", "MB/s", digest / 1e6);
    figures.report("the disk alone", "MB/s", disk / 1e6);
    figures.report("the auditor without a limit", "MB/s", rate / 1e6);
    let share = rate / digest.min(disk);
    figures.hold("the auditor, of the slower of both", "times", Goal::AtLeast(0.7), share);

    let at_rest = read(bench, &over(bench, &folder, &[OFF])?)?;
    figures.report("reading at rest: p99", "ms", at_rest);
    for (what, limit) in [("at its default rate", "fixity.rate=8MiB"), ("without a limit", UNLIMITED)] {
        let subject = over(bench, &folder, &[AT_ONCE, limit])?;
        wait(&subject, |metrics| metric(metrics, BYTES) > 0.0)?;
        let audited = read(bench, &subject)?;
        figures.report(format!("reading beside the auditor {what}: p99"), "ms", audited);
        let name = format!("p99 beside the auditor {what}, of that at rest");
        match limit {
            UNLIMITED => figures.report(name, "times", audited / at_rest),
            _ => figures.hold(name, "times", Goal::AtMost(1.5), audited / at_rest),
        }
    }
    Ok(())
}

/// The first pass of a store. One server reads small resources before it and after it: their rows
/// may not be in its caches any more, because the auditor has read everything. Returns the rate of
/// the pass.
fn first_pass(bench: &Bench, folder: &TempDir, large_bytes: f64, figures: &mut Figures) -> Result<f64> {
    // A server begins its first pass so long after its start, which is after it was read twice.
    let every = format!("fixity.every={}s", 3 * bench.duration().as_secs() + 2);
    let subject = over(bench, folder, &[every.as_str(), UNLIMITED])?;
    // The first time it fills the caches.
    read(bench, &subject)?;
    let before = read(bench, &subject)?;
    let rate = pass_rate(&subject, large_bytes)?;
    let ended = wait(&subject, |metrics| metric(metrics, OLDEST).is_finite())?;
    let after = read(bench, &subject)?;
    let from_files = blocks_from_files(&wait(&subject, |_| true)?) - blocks_from_files(&ended);
    figures.report("reading before a pass: p99", "ms", before);
    figures.report("reading after a pass: p99", "ms", after);
    figures.report("reading after a pass: blocks of rows from files", "blocks", from_files);
    figures.hold("p99 after a pass, of that before", "times", Goal::AtMost(1.5), after / before);
    Ok(rate)
}

/// A server over the store that was filled, with an empty page cache.
fn over(bench: &Bench, folder: &TempDir, more: &[&str]) -> Result<Subject> {
    let store = folder.path().join("data");
    if store.exists() {
        page_cache::forget(&store)?;
    }
    let log = tempfile::Builder::new().prefix("log-").tempdir_in(bench.folder())?;
    penates::over(&bench.penates, store.as_os_str(), log, more)
}

/// Bytes per second of the digest over data in memory.
fn digest_rate(piece: &[u8], pieces: usize) -> f64 {
    let begun = Instant::now();
    let mut digest = Sha256::new();
    (0..pieces).for_each(|_| digest.update(piece));
    std::hint::black_box(digest.finalize());
    (pieces * piece.len()) as f64 / begun.elapsed().as_secs_f64()
}

/// Bytes per second of reading the files that the auditor reads, in order, with an empty page
/// cache. (The file that reserves space is none of them: the system knows without the disk that it
/// is zeros.)
fn disk_rate(folder: &TempDir) -> Result<f64> {
    let store = folder.path().join("data");
    page_cache::forget(&store)?;
    let begun = Instant::now();
    let mut bytes = 0;
    for file in page_cache::files(&store.join("contents")) {
        bytes += std::io::copy(&mut file?, &mut std::io::sink())?;
    }
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}

/// Bytes per second that the auditor reads of the large binaries, in the first pass of a store.
/// They come before all small resources, whose time is that of rows.
fn pass_rate(subject: &Subject, large_bytes: f64) -> Result<f64> {
    let first = wait(subject, |metrics| metric(metrics, BYTES) > 0.0)?;
    let begun = Instant::now();
    let last = wait(subject, |metrics| metric(metrics, BYTES) >= large_bytes)?;
    Ok((metric(&last, BYTES) - metric(&first, BYTES)) / begun.elapsed().as_secs_f64())
}

/// Waits until the metrics are so, and returns them.
fn wait(subject: &Subject, is_so: impl Fn(&str) -> bool) -> Result<String> {
    let begun = Instant::now();
    let mut client = Client::connect(subject.address)?;
    loop {
        let (_, metrics) = client.text(&Request::get("/metrics"))?;
        if is_so(&metrics) {
            return Ok(metrics);
        }
        ensure!(begun.elapsed() < PATIENCE, "the auditor does not get on");
        std::thread::sleep(PAUSE);
    }
}

/// Blocks of rows that the server has read from files, in all lanes.
fn blocks_from_files(metrics: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(BLOCKS) && line.contains(FROM_FILES));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// The value of a metric; not a number if there is none.
fn metric(metrics: &str, name: &str) -> f64 {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or(f64::NAN)
}

/// Reads small resources. Returns the p99 in milliseconds.
fn read(bench: &Bench, subject: &Subject) -> Result<f64> {
    let next = AtomicU64::new(0);
    let request = |_| {
        let n = next.fetch_add(1, Ordering::Relaxed) % bench.settings.resources;
        Request::get(&subject.path(&format!("r{n}"))).bytes()
    };
    let load = closed(subject.address, CONNECTIONS, bench.duration(), request).context("reading")?;
    Ok(load.times().p99_ms)
}
