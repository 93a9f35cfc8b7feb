//! Many bulk clients at the same time, and the service for a client of single pages meanwhile.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::bench::Bench;
use super::page::random_pages;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::load::closed;

/// Bulk clients at the same time.
const MANY: usize = 16;
const OF_ONE: Goal = Goal::AtLeast(0.9);
const PAGE_P99_MS: Goal = Goal::AtMost(20.0);

/// How long the first bytes may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let server = bench.server()?;
    let selection = server.select(&bench.corpus.ids(bench.settings.few))?;
    let pages = random_pages(&server, &bench.corpus, bench.settings.seed)?;
    let duration = Duration::from_secs_f64(bench.settings.seconds);
    let wait = || {
        thread::sleep(duration);
        Ok(())
    };
    for _ in 0..bench.settings.repetitions {
        let (one, ()) = beside_bulk(server.http, &selection, 1, wait)?;
        let (many, ()) = beside_bulk(server.http, &selection, MANY, wait)?;
        figures.report("1 bulk client: ZIP", "GB/s", one);
        figures.report("16 bulk clients: ZIP, total", "GB/s", many);
        figures.hold("16 bulk clients: of the rate of 1", "times", OF_ONE, many / one);

        let mut next = pages.iter().cycle();
        let mut ask = || closed(server.http, 1, duration, |_| next.next().map_or(&[][..], Vec::as_slice));
        let alone = ask()?;
        figures.report("1 page client alone: p99", "ms", alone.times().p99_ms);
        let (beside, load) = beside_bulk(server.http, &selection, MANY, ask)?;
        figures.report("16 bulk clients beside 1 page client: ZIP, total", "GB/s", beside);
        figures.report("1 page client beside 16 bulk clients: rate", "requests/s", load.rate());
        figures.report("1 page client beside 16 bulk clients: median", "ms", load.times().p50_ms);
        figures.hold("1 page client beside 16 bulk clients: p99", "ms", PAGE_P99_MS, load.times().p99_ms);
    }
    Ok(figures)
}

/// Does some work while a number of clients download an archive repeatedly. Also returns their rate
/// in GB/s.
fn beside_bulk<T>(
    address: SocketAddr,
    selection: &str,
    clients: usize,
    work: impl FnOnce() -> Result<T>,
) -> Result<(f64, T)> {
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let download = || {
        let request = Request::get(selection);
        let mut client = Client::connect(address)?;
        while !stop.load(Ordering::Relaxed) {
            let fetched = client.fetch_into(&request, |bytes| {
                received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) { bail!("that is enough") } else { Ok(()) }
            });
            if !stop.load(Ordering::Relaxed) {
                fetched?;
            }
        }
        anyhow::Ok(())
    };
    thread::scope(|scope| {
        let downloads: Vec<_> = (0..clients).map(|_| scope.spawn(download)).collect();
        let (begun, before) = (Instant::now(), received.load(Ordering::Relaxed));
        let worked = work();
        let bytes = || received.load(Ordering::Relaxed) - before;
        // Short work may be over before anything has arrived, which is no rate.
        while bytes() == 0 && begun.elapsed() < PATIENCE && downloads.iter().any(|download| !download.is_finished()) {
            thread::sleep(Duration::from_millis(1));
        }
        let bytes = bytes();
        let rate = bytes as f64 / 1e9 / begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        for download in downloads {
            download.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        Ok((rate, worked?))
    })
}
