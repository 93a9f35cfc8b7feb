//! The search: first pages by address and by type among very many resources, and how soon a change
//! is found while others are made.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::Rng;
use serde_json::Value;
use testbed::tally::times;

use super::bench::Bench;
use super::quads::fill;
use super::subject::Subject;
use super::versions::change;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::load::closed;
use crate::rig::open_loop::{Pace, open};

/// Connections that search at the same time.
const CONNECTIONS: [(usize, Option<Goal>); 2] = [(1, Some(Goal::AtMost(20.0))), (8, None)];
/// Changes per second while it is measured how soon one is found.
const RATE: f64 = 1_000.0;
/// The greatest number of changes at once.
const AT_ONCE: usize = 5_000;
/// The pause between two searches for a change.
const PAUSE: Duration = Duration::from_millis(5);
/// How long the index may take for all that was stored.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// The bytes of the next request on a connection.
type Next<'a> = &'a dyn Fn(usize) -> Vec<u8>;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let (subject, members, letters) = (bench.penates()?, bench.settings.members, bench.settings.resources);
    let begun = Instant::now();
    fill(&subject, "big", members)?;
    make_letters(&subject, letters)?;
    find(&subject, &format!("letters/{}", letters - 1), begun)?;
    figures.report("stored by N-Quads and indexed", "resources/s", members as f64 / begun.elapsed().as_secs_f64());
    subject.process.settle()?;
    for _ in 0..bench.settings.repetitions {
        first_pages(&subject, bench.duration(), members, &mut figures)?;
        follow(&subject, bench.duration(), &mut figures)?;
    }
    Ok(figures)
}

/// Makes this number of resources of a type that no other has.
fn make_letters(subject: &Subject, count: u64) -> Result<()> {
    let mut client = Client::connect(subject.address)?;
    for number in 0..count {
        let path = subject.path(&format!("letters/{number}"));
        let text = b"<> a <http://example.org/Letter> .";
        client.fetch(&subject.authorized(Request::sending("PUT", &path, "text/turtle", text)))?;
    }
    Ok(())
}

/// A search by a condition.
fn search(subject: &Subject, condition: &str, more: &str) -> Request {
    let condition: String = form_urlencoded::byte_serialize(condition.as_bytes()).collect();
    subject.authorized(Request::get(&subject.path(&format!("fcr:search?condition={condition}{more}"))))
}

/// How fast first pages of a hundred results come.
fn first_pages(subject: &Subject, duration: Duration, members: u64, figures: &mut Figures) -> Result<()> {
    // The names have seven digits. Five of them begin the names of a hundred resources.
    let by_some_of_address = move |_| {
        let begin = rand::rng().random_range(0..members.div_ceil(100));
        search(subject, &format!("fedora_id=big/{begin:05}*"), "").bytes()
    };
    let kinds: [(&str, Next<'_>); 4] = [
        ("by an address that a hundred have", &by_some_of_address),
        ("by an address that all have", &|_| search(subject, "fedora_id=big/*", "").bytes()),
        ("by a type that a thousand have", &|_| search(subject, "rdf_type=http://example.org/Letter", "").bytes()),
        ("by a type that all have", &|_| search(subject, "rdf_type=ldp:RDFSource", "").bytes()),
    ];
    for (kind, request) in kinds {
        for (connections, target) in CONNECTIONS {
            let load = closed(subject.address, connections, duration, request)?;
            let name = |figure: &str| format!("{kind}, {connections} connections: {figure}");
            figures.report(name("rate"), "requests/s", load.rate());
            match target {
                Some(target) => figures.hold(name("p99"), "ms", target, load.times().p99_ms),
                None => figures.report(name("p99"), "ms", load.times().p99_ms),
            }
        }
    }
    Ok(())
}

/// How soon a change is found, during an open loop of other changes. The time counts from when the
/// change was sent.
fn follow(subject: &Subject, duration: Duration, figures: &mut Figures) -> Result<()> {
    let (mut late_us, is_over) = (hdrhistogram::Histogram::<u64>::new(3)?, AtomicBool::new(false));
    let run: u32 = rand::rng().random();
    let arrivals = std::thread::scope(|scope| -> Result<_> {
        let (late_us, is_over) = (&mut late_us, &is_over);
        let prober = scope.spawn(move || -> Result<()> {
            let mut client = Client::connect(subject.address)?;
            for number in 0.. {
                let (name, sent) = (format!("probe-{run}-{number}"), Instant::now());
                client.fetch(&change(subject, &subject.path(&name), number))?;
                find(subject, &name, sent)?;
                late_us.record(sent.elapsed().as_micros() as u64)?;
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
            Ok(())
        });
        let request = change(subject, &subject.path("searched-${seed}-${user}"), 0);
        let arrivals = open(subject.address, Pace { rate: RATE, duration, at_once: AT_ONCE }, &[request]);
        is_over.store(true, Ordering::Relaxed);
        prober.join().map_err(|_| anyhow::anyhow!("the prober panicked"))??;
        arrivals
    })?;
    ensure!(arrivals.errors == 0, "{} changes failed", arrivals.errors);
    figures.report("1,000 changes/s: p99 of the change", "ms", arrivals.loads[0].times().p99_ms);
    figures.report("1,000 changes/s: changes that were looked for", "", late_us.len() as f64);
    let p99_ms = times(&late_us).p99_ms;
    figures.hold("1,000 changes/s: p99 until a change is found", "ms", Goal::AtMost(1_000.0), p99_ms);
    Ok(())
}

/// Searches for a resource until it is found.
fn find(subject: &Subject, name: &str, since: Instant) -> Result<()> {
    let mut client: Client<TcpStream> = Client::connect(subject.address)?;
    let request = search(subject, &format!("fedora_id={name}"), "&fields=fedora_id");
    while since.elapsed() < PATIENCE {
        let (_, answer) = client.text(&request)?;
        let answer: Value = serde_json::from_str(&answer).context("the answer of a search")?;
        if answer["items"].as_array().is_some_and(|items| !items.is_empty()) {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    anyhow::bail!("{name} is not found")
}
