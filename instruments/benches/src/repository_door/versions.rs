//! Versions: updates that keep them, beside updates that do not; and finding the version of a time
//! among very many.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use rand::Rng;

use super::bench::Bench;
use super::subject::Subject;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};
use crate::rig::load::closed;

/// Connections that update at the same time.
const CONNECTIONS: usize = 32;
/// The number of time slices in which the two servers get updates.
const SLICES: u32 = 24;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        update(bench, &mut figures)?;
        find(bench, &mut figures)?;
    }
    Ok(figures)
}

/// Makes or changes an RDF source.
pub fn change(subject: &Subject, path: &str, number: u64) -> Request {
    let text = format!("<> <http://purl.org/dc/terms/title> \"{number}\" .");
    subject.authorized(Request::sending("PUT", path, "text/turtle", text.as_bytes()))
}

/// Updates with and without versions, in turn in short slices.
fn update(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let kept = bench.penates()?;
    let not_kept = bench.penates_with(&["history.resources=none"])?;
    let resources = bench.settings.resources;
    for subject in [&kept, &not_kept] {
        let mut client = Client::connect(subject.address)?;
        for n in 0..resources {
            client.fetch(&change(subject, &subject.path(&format!("r{n}")), 0))?;
        }
    }
    let (next, slice) = (AtomicU64::new(1), 2 * bench.duration() / SLICES);
    // Responses and seconds, with versions and without.
    let mut sums = [(0, 0.0); 2];
    for number in 0..SLICES {
        // Each is the first of a pair as often as the other.
        let which = usize::from(matches!(number % 4, 1 | 2));
        let subject = [&kept, &not_kept][which];
        let request = |_| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            change(subject, &subject.path(&format!("r{}", number % resources)), number).bytes()
        };
        let load = closed(subject.address, CONNECTIONS, slice, request)?;
        sums[which].0 += load.answers;
        sums[which].1 += load.seconds;
    }
    let [with, without] = sums.map(|(answers, seconds)| answers as f64 / seconds);
    figures.report("updates that keep versions", "requests/s", with);
    figures.report("updates that keep none", "requests/s", without);
    figures.hold("rate with versions, of that without", "times", Goal::AtLeast(0.9), with / without);
    Ok(())
}

/// What is asked for, the goal of its p99 in milliseconds over one connection, and its requests.
type Asked<'a> = (&'static str, Option<Goal>, &'a dyn Fn() -> Vec<u8>);

/// Asks for versions of random times, and for random ones by their names. There are thousands in a
/// second, and the version of a time is the last one of its second.
fn find(bench: &Bench, figures: &mut Figures) -> Result<()> {
    let subject = bench.penates()?;
    let path = subject.path("changed");
    let mut client = Client::connect(subject.address)?;
    let (begun, at) = (Instant::now(), SystemTime::now());
    for number in 0..bench.settings.versions {
        client.fetch(&change(&subject, &path, number))?;
    }
    let (versions, seconds) = (bench.settings.versions, begun.elapsed().as_secs().max(1));
    subject.process.settle()?;
    let mementos = mementos(&mut client, &subject, &path)?;
    let by_time = || {
        let at = at + Duration::from_secs(1 + rand::rng().random_range(0..seconds));
        subject.authorized(Request::get(&path).with("accept-datetime", &httpdate::fmt_http_date(at))).bytes()
    };
    let by_name = || {
        let memento = &mementos[rand::rng().random_range(0..mementos.len())];
        subject.authorized(Request::get(memento)).bytes()
    };
    let asked: [Asked; 2] = [("TimeGate", Some(Goal::AtMost(2.0)), &by_time), ("memento", None, &by_name)];
    for (what, goal, request) in asked {
        for (connections, target) in [(1, goal), (CONNECTIONS, None)] {
            let load = closed(subject.address, connections, bench.duration(), |_| request())?;
            let name = |figure: &str| format!("{what} of {versions} versions, {connections} connections: {figure}");
            figures.report(name("rate"), "requests/s", load.rate());
            match target {
                Some(target) => figures.hold(name("p99"), "ms", target, load.times().p99_ms),
                None => figures.report(name("p99"), "ms", load.times().p99_ms),
            }
        }
    }
    Ok(())
}

/// The paths of all versions, as the TimeMap lists them.
fn mementos(client: &mut Client<TcpStream>, subject: &Subject, path: &str) -> Result<Vec<String>> {
    let (mut mementos, mut next) = (Vec::new(), Some(format!("{path}/fcr:versions?limit=10000")));
    while let Some(page) = next.take() {
        let request = Request::get(&page).with("accept", "application/link-format");
        let (_, links) = client.text(&subject.authorized(request))?;
        for link in links.lines() {
            let target = link.trim_start_matches('<').split('>').next().unwrap_or_default();
            let target: http::Uri = target.parse()?;
            if link.contains("memento\"") {
                mementos.push(target.path().to_owned());
            } else if link.contains("rel=\"timemap\"") {
                next = target.path_and_query().map(ToString::to_string);
            }
        }
    }
    ensure!(!mementos.is_empty(), "the TimeMap of {path} lists no version");
    Ok(mementos)
}
