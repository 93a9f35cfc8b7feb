//! Transactions: resources that are created in transactions of a hundred, beside the same without
//! one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::bench::Bench;
use super::subject::{Kind, Subject};
use super::versions::change;
use crate::rig::client::{Client, Request};
use crate::rig::figures::{Figures, Goal};

/// Resources in a transaction.
const RESOURCES: u64 = 100;
/// The most clients at the same time. Each sends one request after the other.
const CLIENTS_MAX: usize = 32;
/// The number of time slices in which resources are created in transactions and without.
const SLICES: u32 = 8;

/// Numbers for resources: no name is used twice in a run.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let counts: Vec<usize> = bench.settings.connections.iter().copied().filter(|count| *count <= CLIENTS_MAX).collect();
    for _ in 0..bench.settings.repetitions {
        let mut rates = Vec::new();
        for kind in bench.settings.subjects.clone() {
            // The others have no transactions.
            if !matches!(kind, Kind::Penates | Kind::Fedora) {
                continue;
            }
            let Some(subject) = bench.start(kind)? else { continue };
            for &clients in &counts {
                let [without, within] = compare(&subject, clients, bench.duration())?;
                let name = |what: &str| format!("{kind}, {clients} clients: {what}");
                figures.tell(name("without transactions"), "resources/s", without);
                figures.tell(name("in transactions of 100"), "resources/s", within);
                let (what, ratio) = (name("rate in transactions, of that without"), within / without);
                match kind {
                    Kind::Penates => figures.hold(what, "times", Goal::AtLeast(0.5), ratio),
                    _ => figures.tell(what, "times", ratio),
                }
                rates.push((kind, clients, within));
            }
        }
        for &clients in &counts {
            let rate = |of| rates.iter().find(|(kind, count, _)| (*kind, *count) == (of, clients)).map(|rate| rate.2);
            if let (Some(penates), Some(fedora)) = (rate(Kind::Penates), rate(Kind::Fedora)) {
                let what = format!("{clients} clients: Penates' rate in transactions beside Fedora");
                figures.hold(what, "times", Goal::AtLeast(20.0), penates / fedora);
            }
        }
    }
    Ok(figures)
}

/// Resources per second without transactions, and in them, in turn in short slices.
fn compare(subject: &Subject, clients: usize, duration: Duration) -> Result<[f64; 2]> {
    let slice = 2 * duration / SLICES;
    // Resources and seconds.
    let mut sums = [(0, 0.0); 2];
    for number in 0..SLICES {
        // Each is the first of a pair as often as the other.
        let which = usize::from(matches!(number % 4, 1 | 2));
        let begun = Instant::now();
        let made: Result<Vec<u64>> = thread::scope(|scope| {
            let users: Vec<_> =
                (0..clients).map(|_| scope.spawn(|| create(subject, which == 1, begun + slice))).collect();
            users.into_iter().map(|user| user.join().map_err(|_| anyhow::anyhow!("a client panicked"))?).collect()
        });
        sums[which].0 += made?.into_iter().sum::<u64>();
        sums[which].1 += begun.elapsed().as_secs_f64();
    }
    Ok(sums.map(|(resources, seconds)| resources as f64 / seconds))
}

/// Creates a hundred resources, in one transaction or in none, again and again until a time.
/// Returns how many.
fn create(subject: &Subject, transacts: bool, until: Instant) -> Result<u64> {
    let mut client = Client::connect(subject.address)?;
    let mut made = 0;
    while Instant::now() < until {
        let transaction = if transacts { Some(begin(subject, &mut client)?) } else { None };
        for _ in 0..RESOURCES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let request = change(subject, &subject.path(&format!("t{number}")), number);
            client.fetch(&match &transaction {
                Some(address) => request.with("atomic-id", address),
                None => request,
            })?;
        }
        if let Some(address) = transaction {
            let address: http::Uri = address.parse()?;
            client.fetch(&subject.authorized(Request::sending("PUT", address.path(), "text/plain", b"")))?;
        }
        made += RESOURCES;
    }
    Ok(made)
}

/// Begins a transaction; returns its address.
fn begin(subject: &Subject, client: &mut Client<std::net::TcpStream>) -> Result<String> {
    let request = Request::sending("POST", &subject.path("fcr:tx"), "text/plain", b"");
    let begun = client.fetch(&subject.authorized(request))?;
    Ok(begun.head.header("location").context("a transaction without an address")?.to_owned())
}
