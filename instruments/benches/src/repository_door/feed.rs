//! The change feed: what recording events costs writers, how fast many consumers get them, and how
//! late they come.

use std::net::TcpStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testbed::tally::times;

use super::bench::Bench;
use super::quads::fill;
use super::subject::Subject;
use super::versions::change;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::load::closed;
use crate::rig::open_loop::{Pace, open};

/// Connections that create at the same time.
const CONNECTIONS: usize = 32;
/// The order in which the three servers get new resources, in slices of time. Each has each place
/// twice, and within the rounds follows each other one twice.
const ROUNDS: [[usize; 3]; 6] = [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [0, 2, 1], [1, 0, 2]];
/// The consumers.
const CONSUMERS: usize = 100;
/// Changes per second while one consumer follows, and the greatest number of them at once.
const RATE: f64 = 1_000.0;
const AT_ONCE: usize = 5_000;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        create(bench, &mut figures)?;
        let subject = bench.penates()?;
        let rate = fill(&subject, "many", bench.settings.events)?;
        figures.hold("N-Quads: events written", "events/s", Goal::AtLeast(10_000.0), rate);
        consume(&subject, bench.settings.events, &mut figures)?;
        follow(&subject, bench.duration(), &mut figures)?;
    }
    Ok(figures)
}

/// Creates with the feed and the index of searches that follows it, with the feed alone, and without
/// both, in turn in short slices.
fn create(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let subjects =
        [bench.penates()?, bench.penates_with(&["search.index=false"])?, bench.penates_with(&["feed.keep=0s"])?];
    let (next, slice) = (AtomicU64::new(0), bench.duration() / 6);
    // Responses and seconds of each.
    let mut sums = [(0, 0.0); 3];
    for which in ROUNDS.into_iter().flatten() {
        let subject = &subjects[which];
        let request = |_| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            change(subject, &subject.path(&format!("c{number}")), number).bytes()
        };
        let load = closed(subject.address, CONNECTIONS, slice, request)?;
        sums[which].0 += load.answers;
        sums[which].1 += load.seconds;
        // What it still has to index would take time from the next one.
        subject.process.settle()?;
    }
    let [indexed, recorded, neither] = sums.map(|(answers, seconds)| answers as f64 / seconds);
    figures.report("creating with the feed and the index", "requests/s", indexed);
    figures.report("creating with the feed alone", "requests/s", recorded);
    figures.report("creating without both", "requests/s", neither);
    figures.hold("rate with the feed alone, of that without", "times", Goal::AtLeast(0.9), recorded / neither);
    figures.report("rate with the feed and the index, of that without both", "times", indexed / neither);
    Ok(())
}

/// Reads a stream of events until `take` has had enough. It gets the bytes of each event's data.
fn stream(subject: &Subject, after: &str, mut take: impl FnMut(&str) -> bool) -> Result<()> {
    let request = Request::get(&format!("/feed?after={after}")).with("accept", "text/event-stream");
    let mut rest = Vec::new();
    let mut client: Client<TcpStream> = Client::connect(subject.address)?;
    // A stream has no end: the client leaves by an error of its own.
    let mut is_done = false;
    let left = client.fetch_into(&request, |bytes| {
        rest.extend_from_slice(bytes);
        let mut begin = 0;
        while let Some(end) = rest[begin..].iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&rest[begin..begin + end])?;
            begin += end + 1;
            if line.strip_prefix("data:").is_some_and(&mut take) {
                is_done = true;
                bail!("it has all events");
            }
        }
        rest.drain(..begin);
        Ok(())
    });
    match left {
        Err(_) if is_done => Ok(()),
        left => left.map(|_| ()).context("the stream ended too early"),
    }
}

/// Many consumers read all events from the start.
fn consume(subject: &Subject, events: u64, figures: &mut Figures) -> Result<()> {
    subject.process.settle()?;
    subject.process.reset_peak()?;
    let before = subject.process.memory()?;
    let begun = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = 0;
                    stream(subject, "start", |_| {
                        seen += 1;
                        // The container is an event, too.
                        seen == events + 1
                    })
                })
            })
            .collect();
        for consumer in consumers {
            consumer.join().map_err(|_| anyhow::anyhow!("a consumer panicked"))??;
        }
        Ok(())
    })?;
    let rate = (CONSUMERS as u64 * (events + 1)) as f64 / begun.elapsed().as_secs_f64();
    let name = |figure: &str| format!("{CONSUMERS} consumers from the start: {figure}");
    figures.hold(name("rate"), "events/s", Goal::AtLeast(100_000.0), rate);
    let grown_bytes = subject.process.memory()?.peak_bytes - before.now_bytes;
    figures.report(name("memory"), "MB", grown_bytes / 1e6);
    Ok(())
}

/// One consumer follows an open loop of changes. The time counts from when a change was due.
fn follow(subject: &Subject, duration: Duration, figures: &mut Figures) -> Result<()> {
    subject.process.settle()?;
    let count = (RATE * duration.as_secs_f64()) as u64;
    let mut late_us = hdrhistogram::Histogram::<u64>::new(3)?;
    let (ready, is_ready) = std::sync::mpsc::channel();
    let begun = OnceLock::new();
    std::thread::scope(|scope| -> Result<()> {
        let (late_us, begun) = (&mut late_us, &begun);
        let consumer = scope.spawn(move || {
            let mut seen = 0;
            stream(subject, "now", |event| {
                let Some((_, number)) = event.split_once("/followed-") else {
                    // The first change says that the stream has begun.
                    return !event.contains("/begin") || ready.send(()).is_err();
                };
                let number: u64 = number.split(['"', '/']).next().and_then(|digits| digits.parse().ok()).unwrap_or(0);
                let due = Duration::from_secs_f64(number as f64 / RATE);
                let late = begun.get().map_or(Duration::MAX, |begun: &Instant| begun.elapsed().saturating_sub(due));
                let _ = late_us.record(late.as_micros() as u64);
                seen += 1;
                seen == count
            })
        });
        // The consumer has connected once it sees a change.
        let mut client = Client::connect(subject.address)?;
        for number in 0.. {
            ensure!(number < 1_000, "the stream does not begin");
            client.fetch(&change(subject, &subject.path(&format!("begin-{number}")), number))?;
            if is_ready.recv_timeout(Duration::from_millis(20)).is_ok() {
                break;
            }
        }
        let request = change(subject, &subject.path("followed-${user}"), 0);
        let _ = begun.set(Instant::now());
        let arrivals = open(subject.address, Pace { rate: RATE, duration, at_once: AT_ONCE }, &[request])?;
        ensure!(arrivals.errors == 0, "{} changes failed", arrivals.errors);
        figures.report("1,000 changes/s: p99 of the change", "ms", arrivals.loads[0].times().p99_ms);
        consumer.join().map_err(|_| anyhow::anyhow!("the consumer panicked"))?
    })?;
    let p99_ms = times(&late_us).p99_ms;
    figures.hold("1,000 changes/s: p99 from change to consumer", "ms", Goal::AtMost(200.0), p99_ms);
    Ok(())
}
