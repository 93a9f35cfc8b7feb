//! The same ingest as arrivals in an open loop, in steps, until a step no longer holds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;

use super::bench::Bench;
use super::subject::{Kind, Subject};
use crate::rig::figures::{Figures, Goal};
use crate::rig::open_loop::{Arrivals, Pace, open};

/// Steps are multiples of this number of requests per second, as in the testbed of DRAS-TIC.
const STEP: f64 = 20.0;
/// If that made too many steps, each step grows by this factor.
const GROWTH: f64 = 1.1;
/// The greatest number of connections.
const CONNECTIONS: usize = 128;
/// A response after this time is late.
const LATE: Duration = Duration::from_secs(1);
/// The allowed share of late responses.
const LATE_SHARE: f64 = 0.01;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        let mut held = Vec::new();
        for kind in bench.settings.subjects.clone() {
            let Some(subject) = bench.start(kind)? else { continue };
            let (rate, not) = held_rate(&subject, bench.duration())?;
            figures.report(format!("{kind}: held"), "requests/s", rate);
            figures.report(format!("{kind}: not held"), "requests/s", not);
            held.push((kind, rate));
        }
        let of_peers = held.iter().filter(|(kind, _)| *kind != Kind::Penates).map(|(_, rate)| *rate);
        let best = of_peers.fold(0.0, f64::max);
        if let (Some((_, penates)), true) = (held.iter().find(|(kind, _)| *kind == Kind::Penates), best > 0.0) {
            figures.hold("Penates' held rate beside the best peer's", "times", Goal::AtLeast(20.0), penates / best);
        }
    }
    Ok(figures)
}

/// The highest step that holds, and the first that does not.
fn held_rate(subject: &Subject, duration: Duration) -> Result<(f64, f64)> {
    let (mut held, mut rate) = (0.0, STEP);
    loop {
        let first = NEXT.fetch_add((rate * duration.as_secs_f64()) as u64 + 1, Ordering::Relaxed);
        let request = |number: u64| {
            let container = format!("a{}", first + number / 2);
            // The container of each pair is due before its binary. On a slow server it may be
            // missing then, and the server creates it.
            if number.is_multiple_of(2) {
                subject.make_container(&container)
            } else {
                subject.make_binary(&format!("{container}/bytes"))
            }
        };
        let arrivals = open(subject.address, Pace { connections: CONNECTIONS, rate, duration }, request)?;
        if !holds(&arrivals) {
            return Ok((held, rate));
        }
        held = rate;
        rate = ((rate * GROWTH).max(rate + STEP) / STEP).round() * STEP;
    }
}

/// No errors, few late responses, and no growing queue.
fn holds(arrivals: &Arrivals<1>) -> bool {
    let late_ms = LATE.as_secs_f64() * 1e3;
    arrivals.errors == 0 && arrivals.loads[0].quantile_ms(1.0 - LATE_SHARE) < late_ms && arrivals.last_late < LATE
}
