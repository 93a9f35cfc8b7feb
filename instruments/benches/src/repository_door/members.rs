//! A container with very many members: creating in it, compared with an empty one, listing it,
//! listing it as of a time before the latest changes, and looking at it in a browser.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};

use super::bench::Bench;
use super::quads::fill;
use super::subject::Subject;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::load::closed;

/// Connections that create at the same time.
const CONNECTIONS: usize = 32;
/// The number of time slices in which the two containers get new members.
const SLICES: u32 = 24;
/// The additional memory that a listing may take.
const MEMORY_MB: Goal = Goal::AtMost(16.0);

/// Pages for people that are looked at, one after the other, or all that a smaller container has.
const PAGES: usize = 200;

/// The predicate of a member.
const CONTAINS: &[u8] = b" <http://www.w3.org/ns/ldp#contains> ";

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let subject = bench.penates()?;
    let rate = fill(&subject, "big", bench.settings.members)?;
    figures.report("filling it by N-Quads", "resources/s", rate);
    Client::connect(subject.address)?.fetch(&subject.make_container("empty"))?;
    // The next second begins after the container is full. Everything that follows is later.
    let full = SystemTime::now() + Duration::from_secs(1);
    std::thread::sleep(Duration::from_secs(2));
    let next = AtomicU64::new(0);
    for _ in 0..bench.settings.repetitions {
        create_in_both(&subject, &next, bench.duration(), &mut figures)?;
        // What a listing brings into the engine's cache (`store.cache`) is not its own memory.
        read(&subject)?;
        let rate = list(&subject, bench.settings.members, &mut figures)?;
        figures.hold("listing as N-Triples", "members/s", Goal::AtLeast(500_000.0), rate);
        list_then(&subject, bench.settings.members, full, &mut figures)?;
        pages(&subject, &mut figures)?;
    }
    Ok(figures)
}

/// Creates in the containers `big` and `empty`, in turn in short slices, so that background work of
/// the server affects both alike.
pub fn create_in_both(subject: &Subject, next: &AtomicU64, duration: Duration, figures: &mut Figures) -> Result<()> {
    subject.process.settle()?;
    let slice = 2 * duration / SLICES;
    let (mut big, mut empty) = (Created::default(), Created::default());
    for number in 0..SLICES {
        // Each is the first of a pair as often as the other.
        let is_big = matches!(number % 4, 0 | 3);
        let (container, created) = if is_big { ("big", &mut big) } else { ("empty", &mut empty) };
        let request = |_| {
            let name = format!("{container}/new-{}", next.fetch_add(1, Ordering::Relaxed));
            subject.make_binary(&name).bytes()
        };
        let load = closed(subject.address, CONNECTIONS, slice, request)?;
        created.answers += load.answers;
        created.seconds += load.seconds;
    }
    figures.report("creating in it", "requests/s", big.rate());
    figures.report("creating in an empty one", "requests/s", empty.rate());
    let times = empty.rate() / big.rate();
    figures.hold("time of creating, of that in an empty one", "times", Goal::AtMost(1.2), times);
    Ok(())
}

/// The results of creating in one of them.
#[derive(Default)]
struct Created {
    answers: u64,
    seconds: f64,
}

impl Created {
    fn rate(&self) -> f64 {
        self.answers as f64 / self.seconds
    }
}

/// Lists the container `big`, which has at least this number of members. Returns members per
/// second.
pub fn list(subject: &Subject, members: u64, figures: &mut Figures) -> Result<f64> {
    subject.process.settle()?;
    subject.process.reset_peak()?;
    let before = subject.process.memory()?;
    let (listed, seconds) = read(subject)?;
    ensure!(listed >= members, "only {listed} statements were listed");
    let grown_bytes = subject.process.memory()?.peak_bytes - before.now_bytes;
    figures.hold("memory of listing", "MB", MEMORY_MB, grown_bytes / 1e6);
    Ok(listed as f64 / seconds)
}

/// Lists the container `big` once. Returns the number of statements, and seconds.
fn read(subject: &Subject) -> Result<(u64, f64)> {
    let request = Request::get(&subject.container("big")).with("accept", "application/n-triples");
    let mut listed = 0;
    let received = Client::connect(subject.address)?.fetch_into(&request, |bytes| {
        listed += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(())
    })?;
    Ok((listed, received.whole.as_secs_f64()))
}

/// Looks at the container's pages for people, from the first one on, by the link to the next one.
fn pages(subject: &Subject, figures: &mut Figures) -> Result<()> {
    subject.process.settle()?;
    subject.process.reset_peak()?;
    let before = subject.process.memory()?;
    let mut client = Client::connect(subject.address)?;
    let (mut next, mut times_ms) = (Some(subject.container("big")), Vec::with_capacity(PAGES));
    while let Some(address) = next.take_if(|_| times_ms.len() < PAGES) {
        let mut page = Vec::new();
        let received = client.fetch_into(&Request::get(&address).with("accept", "text/html"), |bytes| {
            page.extend_from_slice(bytes);
            Ok(())
        })?;
        times_ms.push(received.whole.as_secs_f64() * 1e3);
        let page = String::from_utf8(page)?;
        let link = page.split_once("rel=\"next\" href=\"").and_then(|(_, rest)| rest.split_once('"'));
        next = link.map(|(address, _)| address.replace("&amp;", "&"));
    }
    ensure!(times_ms.len() > 1, "a page of very many members links to the next one");
    figures.hold("first page for people", "ms", Goal::AtMost(50.0), times_ms[0]);
    times_ms.sort_by(f64::total_cmp);
    figures.report("page for people, median", "ms", times_ms[times_ms.len() / 2]);
    figures.hold("page for people, slowest of 200", "ms", Goal::AtMost(50.0), times_ms[times_ms.len() - 1]);
    let grown_bytes = subject.process.memory()?.peak_bytes - before.now_bytes;
    figures.hold("memory of pages for people", "MB", MEMORY_MB, grown_bytes / 1e6);
    Ok(())
}

/// Lists the container as of a time at which it had this number of members.
fn list_then(subject: &Subject, members: u64, then: SystemTime, figures: &mut Figures) -> Result<()> {
    subject.process.settle()?;
    subject.process.reset_peak()?;
    let before = subject.process.memory()?;
    let mut client = Client::connect(subject.address)?;
    let then = Request::get(&subject.container("big")).with("accept-datetime", &httpdate::fmt_http_date(then));
    let memento = client.redirected(&then)?;
    let (mut listed, mut line) = (0, Vec::new());
    let received = client.fetch_into(&Request::get(&memento).with("accept", "application/n-triples"), |bytes| {
        for byte in bytes {
            line.push(*byte);
            if *byte == b'\n' {
                let subject = line.iter().position(|byte| *byte == b' ').unwrap_or(0);
                listed += u64::from(line[subject..].starts_with(CONTAINS));
                line.clear();
            }
        }
        Ok(())
    })?;
    ensure!(listed == members, "{listed} of {members} members were listed");
    let rate = members as f64 / received.whole.as_secs_f64();
    figures.hold("listing as of an earlier time", "members/s", Goal::AtLeast(300_000.0), rate);
    let grown_bytes = subject.process.memory()?.peak_bytes - before.now_bytes;
    figures.hold("memory of listing as of an earlier time", "MB", MEMORY_MB, grown_bytes / 1e6);
    Ok(())
}
