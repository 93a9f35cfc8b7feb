//! The auditor: how fast it reads, beside the digest that it computes, and what it costs readers.

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
use crate::rig::work::{Corpus, Work, segment};

/// The binaries that are audited.
const BINARIES: usize = 64;
/// Connections that read them.
const CONNECTIONS: usize = 8;
/// The share of what clients read that has to be in memory after a pass, of that before.
const KEPT: Goal = Goal::AtLeast(0.9);
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
/// Its label for those that were in one.
const FROM_MEMORY: &str = "source=\"cache\"";
/// The cache of a server with volumes. Most of it is for them.
const SMALL_CACHE: &str = "store.cache=16MiB";
/// Volumes whose rows take several times as many bytes.
const VOLUMES: u64 = 500;
/// Pages that clients read again and again, each of another volume. What they need fits in the
/// cache.
const HOT: u64 = 40;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        measure(bench, &mut figures)?;
        measure_volumes(bench, &mut figures)?;
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
    let resources: Vec<Request> = (0..bench.settings.resources).map(|n| Request::get(&format!("/rest/r{n}"))).collect();
    let rate = first_pass(bench, &folder, &resources, (pieces * BINARIES * piece.len()) as f64, figures)?;
    figures.report("SHA-256 alone", "MB/s", digest / 1e6);
    figures.report("the disk alone", "MB/s", disk / 1e6);
    figures.report("the auditor without a limit", "MB/s", rate / 1e6);
    let share = rate / digest.min(disk);
    figures.hold("the auditor, of the slower of both", "times", Goal::AtLeast(0.7), share);

    beside(bench, &folder, &resources, ["reading", "p99"], &[], figures)
}

/// Pages of volumes whose rows take several times the cache of their server.
fn measure_volumes(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("audited-").tempdir_in(bench.folder())?;
    drop(over(bench, &folder, &[OFF])?);
    let corpus = Corpus { volumes: VOLUMES, pages_per_volume: None, seed: 1 };
    let store = folder.path().join("data");
    Work::new(bench.folder(), bench.penates.clone())?.fill(&corpus, &store.to_string_lossy())?;
    let page = |n| Request::get(&format!("/volumes/{}/pages/1", segment(&corpus.id(n * (VOLUMES / HOT)))));
    let pages: Vec<Request> = (0..HOT).map(page).collect();
    pages_after_a_pass(bench, &folder, &pages, figures)?;
    beside(bench, &folder, &pages, ["pages", "p99 of pages"], &[SMALL_CACHE], figures)
}

/// The first pass of a store. Nobody reads pages meanwhile. So what clients read before is in
/// memory afterwards only if the auditor leaves it there.
fn pages_after_a_pass(bench: &Bench, folder: &TempDir, pages: &[Request], figures: &mut Figures) -> Result<()> {
    let subject = over(bench, folder, &[before_a_pass(bench).as_str(), UNLIMITED, SMALL_CACHE])?;
    read(bench, &subject, pages)?;
    let p99_before = read(bench, &subject, pages)?;
    let [memory_before, files_before] = once(&subject, pages)?;
    wait(&subject, |metrics| metric(metrics, OLDEST).is_finite())?;
    let [memory, files] = once(&subject, pages)?;
    let p99 = read(bench, &subject, pages)?;
    figures.report("pages before a pass: p99", "ms", p99_before);
    figures.report("pages after a pass: p99", "ms", p99);
    figures.report("pages before a pass: blocks of rows from files", "blocks", files_before);
    figures.report("pages after a pass: blocks of rows from files", "blocks", files);
    let share = |memory: f64, files: f64| memory / (memory + files);
    let kept = share(memory, files) / share(memory_before, files_before);
    figures.hold("share of the blocks of pages from memory after a pass, of that before", "times", KEPT, kept);
    Ok(())
}

/// Fetches each page once. Returns how many blocks of rows came from memory, and from files.
fn once(subject: &Subject, pages: &[Request]) -> Result<[f64; 2]> {
    let found = || -> Result<[f64; 2]> {
        let metrics = wait(subject, |_| true)?;
        Ok([FROM_MEMORY, FROM_FILES].map(|source| blocks(&metrics, source)))
    };
    let [memory, files] = found()?;
    let mut client = Client::connect(subject.address)?;
    for page in pages {
        client.fetch(page)?;
    }
    let [memory_after, files_after] = found()?;
    Ok([memory_after - memory, files_after - files])
}

/// The p99 of requests at rest, and beside the auditor. `reading` and `p99` name them in the
/// figures.
fn beside(
    bench: &Bench,
    folder: &TempDir,
    requests: &[Request],
    [reading, p99]: [&str; 2],
    more: &[&str],
    figures: &mut Figures,
) -> Result<()> {
    let at_rest = read(bench, &over(bench, folder, &[more, &[OFF]].concat())?, requests)?;
    figures.report(format!("{reading} at rest: p99"), "ms", at_rest);
    for (what, limit) in [("at its default rate", "fixity.rate=8MiB"), ("without a limit", UNLIMITED)] {
        let subject = over(bench, folder, &[more, &[AT_ONCE, limit]].concat())?;
        wait(&subject, |metrics| metric(metrics, BYTES) > 0.0)?;
        let audited = read(bench, &subject, requests)?;
        figures.report(format!("{reading} beside the auditor {what}: p99"), "ms", audited);
        let name = format!("{p99} beside the auditor {what}, of that at rest");
        match limit {
            UNLIMITED => figures.report(name, "times", audited / at_rest),
            _ => figures.hold(name, "times", Goal::AtMost(1.5), audited / at_rest),
        }
    }
    Ok(())
}

/// A server begins its first pass so long after its start, which is after it was read twice.
fn before_a_pass(bench: &Bench) -> String {
    format!("fixity.every={}s", 3 * bench.duration().as_secs() + 2)
}

/// The first pass of a store. One server reads small resources before it and after it: their rows
/// may not be in its caches any more, because the auditor has read everything. Returns the rate of
/// the pass.
fn first_pass(
    bench: &Bench,
    folder: &TempDir,
    resources: &[Request],
    large_bytes: f64,
    figures: &mut Figures,
) -> Result<f64> {
    let subject = over(bench, folder, &[before_a_pass(bench).as_str(), UNLIMITED])?;
    // The first time it fills the caches.
    read(bench, &subject, resources)?;
    let before = read(bench, &subject, resources)?;
    let rate = pass_rate(&subject, large_bytes)?;
    let ended = wait(&subject, |metrics| metric(metrics, OLDEST).is_finite())?;
    let after = read(bench, &subject, resources)?;
    let from_files = blocks(&wait(&subject, |_| true)?, FROM_FILES) - blocks(&ended, FROM_FILES);
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

/// Blocks of rows that the server found in a source, in all lanes.
fn blocks(metrics: &str, source: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(BLOCKS) && line.contains(source));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// The value of a metric; not a number if there is none.
fn metric(metrics: &str, name: &str) -> f64 {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    value.unwrap_or(f64::NAN)
}

/// Sends requests in turn. Returns the p99 in milliseconds.
fn read(bench: &Bench, subject: &Subject, requests: &[Request]) -> Result<f64> {
    let requests: Vec<Vec<u8>> = requests.iter().map(Request::bytes).collect();
    let mut next = requests.iter().cycle();
    let request = |_| next.next().map_or(&[][..], Vec::as_slice);
    let load = closed(subject.address, CONNECTIONS, bench.duration(), request).context("reading")?;
    Ok(load.times().p99_ms)
}
