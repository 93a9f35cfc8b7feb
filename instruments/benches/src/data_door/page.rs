//! Single warm pages over many connections.

use std::time::Duration;

use anyhow::Result;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use testbed::monitor::Counters;

use super::bench::Bench;
use crate::rig::client::Request;
use crate::rig::figures::{Figures, Goal};
use crate::rig::load::closed;
use crate::rig::penates::Server;
use crate::rig::work::{Corpus, Volume, segment, volumes};

/// The number of connections.
const CONNECTIONS: usize = 32;
/// Different requests to draw from.
const REQUESTS: usize = 20_000;
const RATE: Goal = Goal::AtLeast(20_000.0);
const P99_MS: Goal = Goal::AtMost(5.0);

/// Measures it with one page and with pages of all volumes.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let server = bench.server()?;
    let random = random_pages(&server, &bench.corpus, bench.settings.seed)?;
    let one = &random[..1];
    let duration = Duration::from_secs_f64(bench.settings.seconds);
    let all = [("one page", one), ("random pages", random.as_slice())];
    for (name, requests) in all {
        once(&server, name, requests, duration / 2, &mut Figures::default())?; // warms caches up
    }
    for _ in 0..bench.settings.repetitions {
        for (name, requests) in all {
            once(&server, name, requests, duration, &mut figures)?;
        }
    }
    Ok(figures)
}

fn once(server: &Server, name: &str, requests: &[Vec<u8>], duration: Duration, figures: &mut Figures) -> Result<()> {
    let (server_before, own_before) = (server.process.usage()?, Counters::own()?);
    let mut next = requests.iter().cycle();
    let load = closed(server.http, CONNECTIONS, duration, |_| next.next().map_or(&[][..], Vec::as_slice))?;
    let what = |what: &str| format!("{name}: {what}");
    figures.hold(what("rate"), "requests/s", RATE, load.rate());
    figures.report(what("median"), "ms", load.times().p50_ms);
    figures.hold(what("p99"), "ms", P99_MS, load.times().p99_ms);
    figures.report(what("slowest"), "ms", load.times().max_ms);
    let of_server = server.process.usage()?.since(server_before);
    let own = Counters::own()?.since(own_before);
    figures.report(what("CPU of the server"), "µs per request", of_server.cpu_s * 1e6 / load.answers as f64);
    figures.report(what("CPU of the client"), "µs per request", own.cpu_s * 1e6 / load.answers as f64);
    Ok(())
}

/// Requests for pages drawn from all volumes of a corpus.
pub fn random_pages(server: &Server, corpus: &Corpus, seed: u64) -> Result<Vec<Vec<u8>>> {
    let known: Vec<Volume> = volumes(server, corpus, corpus.volumes)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let request = |_| {
        let index = rng.random_range(0..known.len());
        // Synthetic volumes have all sequences from 1 to the number of their pages.
        let page = rng.random_range(1..=known[index].pages);
        Request::get(&format!("/volumes/{}/pages/{page}", segment(&corpus.id(index as u64)))).bytes()
    };
    Ok((0..REQUESTS).map(request).collect())
}
