//! Downloads of the same bytes from several servers, measured in the same way.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::client::{Client, Request};
use super::penates::Server;
use super::process::Process;
use super::work::Corpus;

/// The least number of bytes in one measurement, by repeated downloads, because CPU time is counted
/// in hundredths of seconds.
const SAMPLE_BYTES: u64 = 1_000_000_000;
/// The greatest number of downloads in one measurement.
const DOWNLOADS_MAX: u64 = 20;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Its duration.
    pub seconds: f64,
    /// The number of downloads.
    pub downloads: u64,
    /// CPU time of the server.
    pub server_cpu_seconds: f64,
}

impl Sample {
    /// Gigabytes per second of something of which each download had `bytes`.
    pub fn rate_of(&self, bytes: u64) -> f64 {
        (bytes * self.downloads) as f64 / 1e9 / self.seconds
    }
}

/// The number of downloads of an archive in one measurement.
pub fn downloads(bytes: u64) -> usize {
    SAMPLE_BYTES.div_ceil(bytes.max(1)).clamp(1, DOWNLOADS_MAX) as usize
}

/// The request for the archive of the first `volumes` volumes.
pub enum Asking {
    /// A `GET` of a fixed address.
    Get(String),
    /// A `POST` of the ids, each time beginning with another one, so that the server has not seen
    /// the list before.
    Post {
        /// The corpus.
        corpus: Corpus,
        /// The number of volumes.
        volumes: u64,
        /// The volume with which the next list begins.
        next: u64,
    },
}

impl Asking {
    /// The next request.
    pub fn request(&mut self) -> Request {
        match self {
            Self::Get(path) => Request::get(path),
            Self::Post { corpus, volumes, next } => {
                let ids = corpus.ids_from(*next, *volumes);
                *next = (*next + 1) % *volumes;
                Request::post("/volumes", &ids)
            }
        }
    }

    /// The next requests.
    pub fn requests(&mut self, count: usize) -> Vec<Request> {
        (0..count).map(|_| self.request()).collect()
    }
}

/// The two kinds of requests to Penates: for a selection, whose plan is stored, as for a file; and
/// with a list of ids, which is read, planned and pinned before the response.
pub fn ways_of_asking(server: &Server, corpus: &Corpus, volumes: u64) -> Result<[(&'static str, Asking); 2]> {
    let selection = Asking::Get(server.select(&corpus.ids(volumes))?);
    Ok([("selection", selection), ("POST of ids", Asking::Post { corpus: corpus.clone(), volumes, next: 0 })])
}

/// Downloads the responses to some requests, one after the other over one connection, and checks
/// the lengths.
pub fn measure(client: &mut Client, requests: &[Request], bytes: u64, server: &Process) -> Result<Sample> {
    let downloads = requests.len() as u64;
    let (before, begun) = (server.usage()?, Instant::now());
    for request in requests {
        let received = client.fetch(request)?;
        ensure!(received.body_bytes == bytes, "{} bytes instead of {bytes}", received.body_bytes);
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Sample { seconds, downloads, server_cpu_seconds: server.usage()?.since(before).cpu_s })
}

/// Downloads once and checks the bytes. This also warms caches up.
pub fn check(client: &mut Client, request: &Request, crc32: u32) -> Result<()> {
    let mut hasher = crc32fast::Hasher::new();
    client.fetch_into(request, |bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    ensure!(hasher.finalize() == crc32, "a server sends other bytes than expected to {request:?}");
    Ok(())
}
