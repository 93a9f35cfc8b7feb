//! Measures the disk alone: a few kilobytes appended and synced, repeatedly.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;

/// Bytes of each append.
const APPENDED_BYTES: usize = 4 << 10;

/// The time of each sync in microseconds, and the syncs per second.
pub struct Synced {
    /// Latencies in microseconds.
    pub latencies_us: Histogram<u64>,
    /// Syncs per second.
    pub rate: f64,
}

/// Syncs for a while.
pub fn run(folder: &Path, duration: Duration) -> Result<Synced> {
    let path = folder.join("synced");
    let mut file = File::create(&path)?;
    let mut latencies_us = Histogram::new(3)?;
    let begun = Instant::now();
    while begun.elapsed() < duration {
        let sent = Instant::now();
        file.write_all(&[7; APPENDED_BYTES])?;
        file.sync_data()?;
        latencies_us.record(sent.elapsed().as_micros() as u64)?;
    }
    let rate = latencies_us.len() as f64 / begun.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(Synced { latencies_us, rate })
}
