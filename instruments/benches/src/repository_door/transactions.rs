//! Transactions: resources that are created in transactions of a hundred, beside the same without
//! one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::StatusCode;

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
                let Compared { rates: [without, within], refused } = compare(&subject, clients, bench.duration())?;
                let name = |what: &str| format!("{kind}, {clients} clients: {what}");
                figures.report(name("commits refused"), "%", 100.0 * refused);
                figures.report(name("without transactions"), "resources/s", without);
                figures.report(name("in transactions of 100"), "resources/s", within);
                let (what, ratio) = (name("rate in transactions, of that without"), within / without);
                match kind {
                    Kind::Penates => figures.hold(what, "times", Goal::AtLeast(0.5), ratio),
                    _ => figures.report(what, "times", ratio),
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

/// What clients that run side by side reached.
struct Compared {
    /// Resources per second without transactions, and in them.
    rates: [f64; 2],
    /// The share of transactions whose commit was refused. Their resources do not count.
    refused: f64,
}

/// Creates resources without transactions and in them, in turn in short slices.
fn compare(subject: &Subject, clients: usize, duration: Duration) -> Result<Compared> {
    let slice = 2 * duration / SLICES;
    // Resources and seconds.
    let mut sums = [(0, 0.0); 2];
    let mut transactions = Made::default();
    for number in 0..SLICES {
        // Each is the first of a pair as often as the other.
        let which = usize::from(matches!(number % 4, 1 | 2));
        let begun = Instant::now();
        let made: Result<Vec<Made>> = thread::scope(|scope| {
            let users: Vec<_> =
                (0..clients).map(|_| scope.spawn(|| create(subject, which == 1, begun + slice))).collect();
            users.into_iter().map(|user| user.join().map_err(|_| anyhow::anyhow!("a client panicked"))?).collect()
        });
        for made in made? {
            sums[which].0 += made.hundreds * RESOURCES;
            if which == 1 {
                transactions.hundreds += made.hundreds;
                transactions.refused += made.refused;
            }
        }
        sums[which].1 += begun.elapsed().as_secs_f64();
    }
    let begun = (transactions.hundreds + transactions.refused).max(1);
    Ok(Compared {
        rates: sums.map(|(resources, seconds)| resources as f64 / seconds),
        refused: transactions.refused as f64 / begun as f64,
    })
}

/// How often a client created a hundred resources.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    hundreds: u64,
    /// Transactions that the server refused to commit.
    refused: u64,
}

/// Creates a hundred resources, in one transaction or in none, again and again until a time.
fn create(subject: &Subject, transacts: bool, until: Instant) -> Result<Made> {
    let mut client = Client::connect(subject.address)?;
    let mut made = Made::default();
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
            let commit = subject.authorized(Request::sending("PUT", address.path(), "text/plain", b""));
            let status = client.fetch_any(&commit)?.head.status;
            if status == StatusCode::CONFLICT.as_u16() {
                made.refused += 1;
                continue;
            }
            ensure!((200..300).contains(&status), "a commit was answered with {status}");
        }
        made.hundreds += 1;
    }
    Ok(made)
}

/// Begins a transaction; returns its address.
fn begin(subject: &Subject, client: &mut Client<std::net::TcpStream>) -> Result<String> {
    let request = Request::sending("POST", &subject.path("fcr:tx"), "text/plain", b"");
    let begun = client.fetch(&subject.authorized(request))?;
    Ok(begun.head.header("location").context("a transaction without an address")?.to_owned())
}
