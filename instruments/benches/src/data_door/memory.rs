//! Memory of the server while slow clients download everything.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use testbed::monitor::Resident;

use super::bench::Bench;
use crate::report::Spread;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::penates::Server;

/// The bytes per second that each client reads.
const CLIENT_RATE: f64 = 300_000.0;
/// The number of clients in the measurement with many.
const MANY: usize = 50;
/// The pause between two polls of the server's memory.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The time limit until every client has received something.
const PATIENCE: Duration = Duration::from_secs(120);
const PEAK_MB: Goal = Goal::AtMost(150.0);

/// The requests of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    OneSelection,
    SameList,
    ListsOfTheirOwn,
}

/// Measures it with one client and with many, each with a fresh server.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let all = [
        (1, Asking::OneSelection),
        (1, Asking::ListsOfTheirOwn),
        (MANY, Asking::OneSelection),
        (MANY, Asking::SameList),
        (MANY, Asking::ListsOfTheirOwn),
    ];
    for _ in 0..bench.settings.repetitions {
        for (clients, asking) in all {
            once(bench, clients, asking, &mut figures)?;
        }
    }
    Ok(figures)
}

fn once(bench: &Bench, clients: usize, asking: Asking, figures: &mut Figures) -> Result<()> {
    let server = bench.server_with_small_cache()?;
    let volumes = bench.settings.volumes;
    let ids = bench.corpus.ids(volumes);
    let (each, requests) = match asking {
        Asking::OneSelection => ("one selection", vec![Request::get(&server.select(&ids)?); clients]),
        Asking::SameList => ("a POST each of the same list", vec![Request::post("/volumes", &ids); clients]),
        Asking::ListsOfTheirOwn => {
            let own = |client| Request::post("/volumes", &bench.corpus.ids_from(client as u64, volumes));
            ("a POST each of another order", (0..clients).map(own).collect())
        }
    };
    let memory = under_load(&server, &requests, Duration::from_secs_f64(bench.settings.seconds))?;
    let what = |what: &str| format!("slow clients: {clients}, {each}: {what}");
    let resident = |part: &[Resident]| Spread::of(part.iter().map(|memory| memory.now_bytes / 1e6));
    let quarter = memory.len().div_ceil(4);
    if let (Some(all), Some(first), Some(last), Some(end)) =
        (resident(&memory), resident(&memory[..quarter]), resident(&memory[memory.len() - quarter..]), memory.last())
    {
        figures.hold(what("peak from its start on"), "MB", PEAK_MB, end.peak_bytes / 1e6);
        figures.report(what("resident while streaming"), "MB", all.median);
        figures.report(what("growth from first to last quarter"), "MB", last.median - first.median);
    }
    Ok(())
}

/// The server's memory, polled from the time when every client has received something, while they
/// continue to read.
fn under_load(server: &Server, requests: &[Request], duration: Duration) -> Result<Vec<Resident>> {
    let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    let download = |request: &Request| {
        let (mut bytes, mut start) = (0, None);
        let fetched = Client::connect(server.http)?.fetch_into(request, |piece| {
            let start = *start.get_or_insert_with(|| {
                begun.fetch_add(1, Ordering::Relaxed);
                Instant::now()
            });
            bytes += piece.len();
            let due = start + Duration::from_secs_f64(bytes as f64 / CLIENT_RATE);
            while Instant::now() < due && !stop.load(Ordering::Relaxed) {
                thread::sleep(LOOK_AGAIN.min(due.saturating_duration_since(Instant::now())));
            }
            if stop.load(Ordering::Relaxed) { bail!("that is enough") } else { Ok(()) }
        });
        if stop.load(Ordering::Relaxed) { Ok(()) } else { fetched.map(drop) }
    };
    thread::scope(|scope| {
        let downloads: Vec<_> = requests.iter().map(|request| scope.spawn(move || download(request))).collect();
        let looked = look(server, || begun.load(Ordering::Relaxed) == requests.len(), duration);
        stop.store(true, Ordering::Relaxed);
        for download in downloads {
            download.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        looked
    })
}

fn look(server: &Server, all_have_begun: impl Fn() -> bool, duration: Duration) -> Result<Vec<Resident>> {
    let waiting = Instant::now();
    while !all_have_begun() {
        ensure!(waiting.elapsed() < PATIENCE, "some clients get nothing");
        thread::sleep(LOOK_AGAIN);
    }
    let (mut memory, begun) = (vec![server.process.memory()?], Instant::now());
    while begun.elapsed() < duration {
        thread::sleep(LOOK_AGAIN);
        memory.push(server.process.memory()?);
    }
    Ok(memory)
}
