//! The same ingest as arrivals in an open loop, in steps, until a step no longer holds.

use std::time::Duration;

use anyhow::Result;

use super::bench::Bench;
use super::subject::{Kind, Subject};
use crate::rig::figures::{Figures, Goal};
use crate::rig::open_loop::{Arrivals, Pace, open};
use crate::rig::steps::{Held, Steps};

/// Steps are multiples of 20 requests per second, as in the testbed of DRAS-TIC. If that made too
/// many steps, each step grows by a tenth.
const STEPS: Steps = Steps { first: 20.0, growth: 1.1 };
/// The greatest number of users at once.
const USERS_MAX: usize = 2_000;
/// Each user makes a container, and a binary in it.
const REQUESTS_PER_USER: f64 = 2.0;
/// One response in a hundred may come after this time, in milliseconds.
const LATE_MS: f64 = 1_000.0;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..bench.settings.repetitions {
        let mut held = Vec::new();
        for kind in bench.settings.subjects.clone() {
            let Some(subject) = bench.start(kind)? else { continue };
            let Held { rate, not, beyond } = held_rate(&subject, bench.duration())?;
            figures.report(format!("{kind}: held"), "requests/s", rate);
            figures.report(format!("{kind}: not held"), "requests/s", not);
            // A step that holds does so in spite of a late generator.
            beyond.report_lateness(&mut figures, |figure| format!("{kind}: not held: {figure}"));
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
fn held_rate(subject: &Subject, duration: Duration) -> Result<Held<Arrivals<1>>> {
    let container = "a${seed}-${user}";
    let requests = [subject.make_container(container), subject.make_binary(&format!("{container}/bytes"))];
    let measure = |rate: f64| {
        let pace = Pace { rate: rate / REQUESTS_PER_USER, duration, at_once: USERS_MAX };
        open(subject.address, pace, &requests)
    };
    STEPS.climb(measure, holds)
}

/// No errors, and few late responses. A queue that grows makes them late: nothing that is due is
/// left out.
fn holds(arrivals: &Arrivals<1>) -> bool {
    arrivals.errors == 0 && arrivals.loads[0].times().p99_ms < LATE_MS
}
