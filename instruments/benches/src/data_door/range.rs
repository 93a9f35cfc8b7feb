//! A megabyte from the middle of a selection's archive.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Result, ensure};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::bench::Bench;
use crate::report::Spread;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};

/// Bytes of a range.
const RANGE_BYTES: u64 = 1_000_000;
/// Ranges of one repetition.
const RANGES: usize = 20;
const RANGE_MS: Goal = Goal::AtMost(20.0);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let server = bench.server()?;
    let zip = bench.work.finished_zip(&server, &bench.corpus, bench.settings.volumes)?;
    let finished = File::open(zip.folder.join(&zip.name))?;
    let selection = server.select(&bench.corpus.ids(bench.settings.volumes))?;
    let mut client = Client::connect(server.http)?;
    let mut rng = ChaCha8Rng::seed_from_u64(bench.settings.seed);
    let len = RANGE_BYTES.min(zip.bytes / 4);
    for _ in 0..bench.settings.repetitions {
        let mut times = Vec::new();
        for _ in 0..RANGES {
            // Somewhere in the second or the third quarter of the archive.
            let start = zip.bytes / 4 + rng.random_range(0..=zip.bytes / 2 - len);
            times.push(once(&mut client, &selection, start, len, &finished)?);
        }
        if let Some(spread) = Spread::of(times) {
            figures.hold("1 MB, median of 20", "ms", RANGE_MS, spread.median);
            figures.hold("1 MB, slowest of 20", "ms", RANGE_MS, spread.max);
        }
    }
    Ok(figures)
}

/// The time of one range in milliseconds. Its bytes are compared with the finished archive
/// afterwards.
fn once(
    client: &mut Client<std::net::TcpStream>,
    selection: &str,
    start: u64,
    len: u64,
    finished: &File,
) -> Result<f64> {
    let range = format!("bytes={start}-{}", start + len - 1);
    let mut body = Vec::with_capacity(len as usize);
    let received = client.fetch_into(&Request::get(selection).with("range", &range), |bytes| {
        body.extend_from_slice(bytes);
        Ok(())
    })?;
    let mut expected = vec![0; len as usize];
    finished.read_exact_at(&mut expected, start)?;
    ensure!(received.head.status == 206 && body == expected, "other bytes than those of the archive at {range}");
    Ok(received.whole.as_secs_f64() * 1e3)
}
