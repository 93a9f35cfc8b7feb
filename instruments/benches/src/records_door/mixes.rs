//! Reads and writes of single records in an open loop, beside the disk's own sync time. On Cassandra
//! they have a deadline.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;

use super::bench::Bench;
use super::fill::fill;
use super::record::Draw;
use super::subject::{Kind, Subject};
use crate::rig::figures::{Figures, Goal};
use crate::rig::open_loop::{Arrivals, PATIENCE, Pace, open_mix};
use crate::rig::steps::Steps;

/// Reads in a hundred operations.
const MIXES: [u64; 3] = [90, 70, 50];

/// The greatest number of operations at once: redis-server takes 10,000 connections.
const AT_ONCE: usize = 8_000;

/// Targets of reads in milliseconds.
const READ_P99_MS: f64 = 1.0;
const READ_P999_MS: f64 = 5.0;

/// Targets of operations on Cassandra: the mean and p99 in milliseconds, and the part of a hundred
/// that may take longer than that or fail.
const CASSANDRA_MEAN_MS: f64 = 3.0;
const CASSANDRA_P99_MS: f64 = 10.0;
const CASSANDRA_LATE: f64 = 1.0;

/// The name of the time that the disk alone takes.
pub const SYNC: &str = "p99 of a sync of the disk";

/// The deadline of operations on Cassandra.
pub const DEADLINE: &str = "records.deadline=10ms";

/// A client that has neither an answer nor a refusal ten milliseconds after that deadline gives up.
pub const GIVES_UP: Duration = Duration::from_millis(20);

/// How the generator names what a server refuses because of a deadline: before it begins
/// (`OVERLOADED`), or when there is no answer in time.
const REFUSALS: [&str; 3] = ["refused", "error DEADLINE", "error UNKNOWN"];

/// How it names operations without an answer until the client gave up, and when that is.
const TIME_OUT: &str = "time-out";
const UNANSWERED: &str = "10 ms after the deadline";

/// The first step of a search for the highest rate, as a part of the requested rate, and the growth
/// of each step.
const FIRST: f64 = 0.1;
const GROWTH: f64 = 1.1;

/// A write may take this long at p99, and this many times a sync of the disk at p99.
const WRITE_P99_MS: f64 = 1.0;
const SYNCS: f64 = 3.0;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    for kind in bench.settings.subjects.clone() {
        let Some(subject) = bench.start(kind)? else { continue };
        fill(subject.address, bench.settings.records, None)?;
        subject.process.settle()?;
        // Filling has more time than that.
        let (subject, timeout) = match kind.is_on_cassandra() {
            true => (subject.restarted_with(bench.penates(), &[DEADLINE])?, GIVES_UP),
            false => (subject, PATIENCE),
        };
        if kind.is_on_cassandra() {
            // The compiler of a young node takes time from operations. The first load is not measured.
            let first = Mix { reads: 50, draw: Draw::Uniform, records: bench.settings.records };
            first.run_within(subject.address, bench.settings.rate, bench.duration(), timeout)?;
        }
        for _ in 0..bench.settings.repetitions {
            for mix in Mix::all(bench.settings.records) {
                let sync_ms = bench.sync_p99_ms()?;
                let arrivals = mix.run_within(subject.address, bench.settings.rate, bench.duration(), timeout)?;
                mix.report(&mut figures, kind, &arrivals, sync_ms);
            }
            if kind.is_on_cassandra() && bench.settings.highest {
                find_highest(bench, &subject, &mut figures)?;
            }
        }
        figures.report(format!("{kind}: resident at the end"), "MB", subject.process.memory()?.now_bytes / 1e6);
    }
    Ok(figures)
}

/// The steps of a search for the highest rate, from a part of the requested one on.
pub fn steps(rate: f64) -> Steps {
    Steps { first: FIRST * rate, growth: GROWTH }
}

/// Finds the highest rate at which each mix meets all targets on Cassandra.
fn find_highest(bench: &Bench, subject: &Subject, figures: &mut Figures) -> Result<()> {
    let steps = steps(bench.settings.rate);
    for mix in Mix::all(bench.settings.records) {
        let measure = |rate| mix.run_within(subject.address, rate, bench.duration(), GIVES_UP);
        let held = steps.climb(measure, holds_on_cassandra)?;
        let what = |figure: &str| format!("{}: {} {figure}", subject.kind, mix.name());
        figures.report(what("highest rate that meets all targets"), "operations/s", held.rate);
        figures.report(what("rate that does not"), "operations/s", held.not);
        // A rate that meets them does so in spite of a late generator.
        held.beyond.report_lateness(figures, |figure| what(&format!("rate that does not: {figure}")));
    }
    Ok(())
}

/// A mix of operations.
#[derive(Clone, Copy)]
pub struct Mix {
    /// Reads in a hundred operations.
    pub reads: u64,
    /// How records are drawn.
    pub draw: Draw,
    /// Stored records.
    pub records: u64,
}

impl Mix {
    /// All mixes that are measured.
    fn all(records: u64) -> impl Iterator<Item = Self> {
        let of = move |draw| MIXES.map(|reads| Self { reads, draw, records });
        [Draw::Uniform, Draw::Zipf].into_iter().flat_map(of)
    }

    /// Sends operations for a while: reads of a whole record, which are the first kind of the
    /// results, and writes of a whole record.
    pub fn run(self, address: SocketAddr, rate: f64, duration: Duration) -> Result<Arrivals<2>> {
        self.run_within(address, rate, duration, PATIENCE)
    }

    /// The same, with clients that give up after a time.
    pub fn run_within(
        self,
        address: SocketAddr,
        rate: f64,
        duration: Duration,
        timeout: Duration,
    ) -> Result<Arrivals<2>> {
        let Self { reads, draw, records } = self;
        let kinds = [(reads as f64, draw.reading(records)), ((100 - reads) as f64, draw.writing(records))];
        open_mix(&format!("redis://{address}"), Pace { rate, duration, at_once: AT_ONCE }, timeout, kinds)
    }

    /// Its name, such as `90/10 uniform:`.
    pub fn name(self) -> String {
        let draw = if self.draw == Draw::Uniform { "uniform" } else { "Zipf" };
        format!("{}/{} {draw}:", self.reads, 100 - self.reads)
    }

    fn report(self, figures: &mut Figures, kind: Kind, arrivals: &Arrivals<2>, sync_ms: f64) {
        let what = |figure: &str| format!("{kind}: {} {figure}", self.name());
        figures.report(what(SYNC), "ms", sync_ms);
        if kind.is_on_cassandra() {
            report_on_cassandra(figures, arrivals, what);
            return;
        }
        let [of_reads, of_writes] = &arrivals.loads;
        let mut bound = |name: &str, value: f64, most: f64| match kind.is_penates() {
            true => figures.hold(what(name), "ms", Goal::AtMost(most), value),
            false => figures.report(what(name), "ms", value),
        };
        bound("reads p99", of_reads.times().p99_ms, READ_P99_MS);
        bound("reads p99.9", of_reads.times().p999_ms, READ_P999_MS);
        // The bound of each run is its own, so the ratio is what has a target.
        let (write_ms, most_ms) = (of_writes.times().p99_ms, WRITE_P99_MS + SYNCS * sync_ms);
        figures.report(what("writes p99"), "ms", write_ms);
        if kind.is_penates() {
            let share = write_ms / most_ms;
            figures.hold(what("writes p99 over 1 ms + 3 syncs"), "times", Goal::AtMost(1.0), share);
        }
        report_all(figures, arrivals, what);
    }
}

/// The figures of operations on Cassandra, named by `what`.
pub fn report_on_cassandra(figures: &mut Figures, arrivals: &Arrivals<2>, what: impl Fn(&str) -> String) {
    for (name, unit, goal, value) in of_cassandra(arrivals) {
        figures.hold(what(&name), unit, goal, value);
    }
    figures.report(what("refused by the deadline"), "operations", arrivals.failed_by(&REFUSALS) as f64);
    report_all(figures, arrivals, what);
}

/// Whether operations on Cassandra meet all targets.
pub fn holds_on_cassandra(arrivals: &Arrivals<2>) -> bool {
    of_cassandra(arrivals).iter().all(|(_, _, goal, value)| goal.is_met_by(*value))
}

/// Those of its figures that have targets.
fn of_cassandra(arrivals: &Arrivals<2>) -> Vec<(String, &'static str, Goal, f64)> {
    let of = |(kind, name): (usize, &str)| {
        let (times, late) = (arrivals.loads[kind].times(), 100.0 * arrivals.late_share(kind, CASSANDRA_P99_MS));
        [
            (format!("{name} mean"), "ms", Goal::AtMost(CASSANDRA_MEAN_MS), times.mean_ms),
            (format!("{name} p99"), "ms", Goal::AtMost(CASSANDRA_P99_MS), times.p99_ms),
            (format!("{name} later than 10 ms"), "%", Goal::AtMost(CASSANDRA_LATE), late),
        ]
    };
    let unanswered = arrivals.failed_by(&[TIME_OUT]) as f64;
    let unanswered = (format!("without an answer {UNANSWERED}"), "operations", Goal::AtMost(0.0), unanswered);
    ["reads", "writes"].into_iter().enumerate().flat_map(of).chain([unanswered]).collect()
}

/// The figures of all operations, named by `what`, and how late the generator was.
pub fn report_all(figures: &mut Figures, arrivals: &Arrivals<2>, what: impl Fn(&str) -> String) {
    figures.report(what("operations"), "operations/s", arrivals.done_per_s);
    figures.report(what("failed"), "operations", arrivals.errors as f64);
    arrivals.report_lateness(figures, what);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// What is measured beside a server that refuses each command because of its deadline.
    fn refused() -> Arrivals<2> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    while let Ok(1..) = stream.read(&mut [0; 4_096]) {
                        stream.write_all(b"-DEADLINE late\r\n").unwrap();
                    }
                });
            }
        });
        measured(address, PATIENCE)
    }

    /// The same beside one that is silent: connections wait there to be accepted.
    fn silent() -> Arrivals<2> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        measured(listener.local_addr().unwrap(), GIVES_UP)
    }

    fn measured(address: SocketAddr, timeout: Duration) -> Arrivals<2> {
        let mix = Mix { reads: 50, draw: Draw::Uniform, records: 10 };
        mix.run_within(address, 1_000.0, Duration::from_millis(20), timeout).unwrap()
    }

    #[test]
    fn a_target_on_cassandra_is_that_no_operation_is_without_an_answer_or_a_refusal() {
        for (arrivals, unanswered, is_met) in [(refused(), 0.0, true), (silent(), 20.0, false)] {
            assert_eq!(arrivals.errors, 20);
            let figures = of_cassandra(&arrivals);
            let found = figures.iter().find(|(name, ..)| name == "without an answer 10 ms after the deadline");
            let (_, _, goal, value) = found.unwrap();
            assert_eq!((*value, goal.is_met_by(*value)), (unanswered, is_met));
            assert!(!holds_on_cassandra(&arrivals), "what is refused is late");
        }
    }
}
