//! Reads and writes of single records in an open loop, beside the disk's own sync time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use testbed::tally::times;

use super::bench::Bench;
use super::fill::fill;
use super::record::Draw;
use super::subject::Kind;
use crate::repository_door::sync;
use crate::rig::figures::{Figures, Goal};
use crate::rig::open_loop::{Arrivals, Pace, open_mix};

/// Reads in a hundred operations.
const MIXES: [u64; 3] = [90, 70, 50];

/// The greatest number of operations at once: redis-server takes 10,000 connections.
const AT_ONCE: usize = 8_000;

/// Targets of reads in milliseconds.
const READ_P99_MS: f64 = 1.0;
const READ_P999_MS: f64 = 5.0;

/// Targets of operations on Cassandra: the mean and p99 in milliseconds, and the part of a hundred
/// that may take longer than that.
const CASSANDRA_MEAN_MS: f64 = 3.0;
const CASSANDRA_P99_MS: f64 = 10.0;
const CASSANDRA_LATE: f64 = 1.0;

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
        for _ in 0..bench.settings.repetitions {
            for draw in [Draw::Uniform, Draw::Zipf] {
                for reads in MIXES {
                    let synced = sync::run(bench.folder(), Duration::from_secs(1))?;
                    let sync_ms = times(&synced.latencies_us).p99_ms;
                    let mix = Mix { reads, draw, records: bench.settings.records };
                    let arrivals = mix.run(subject.address, bench.settings.rate, bench.duration())?;
                    mix.report(&mut figures, kind, &arrivals, sync_ms);
                }
            }
        }
        figures.report(format!("{kind}: resident at the end"), "MB", subject.process.memory()?.resident_mb);
    }
    Ok(figures)
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
    /// Sends operations for a while: reads of a whole record, and writes of a whole record.
    pub fn run(self, address: SocketAddr, rate: f64, duration: Duration) -> Result<Arrivals<2>> {
        let Self { reads, draw, records } = self;
        let kinds = [(reads as f64, draw.reading(records)), ((100 - reads) as f64, draw.writing(records))];
        open_mix(&format!("redis://{address}"), Pace { rate, duration, at_once: AT_ONCE }, kinds)
    }

    /// Its name, such as `90/10 uniform:`.
    pub fn name(self) -> String {
        let draw = if self.draw == Draw::Uniform { "uniform" } else { "Zipf" };
        format!("{}/{} {draw}:", self.reads, 100 - self.reads)
    }

    fn report(self, figures: &mut Figures, kind: Kind, arrivals: &Arrivals<2>, sync_ms: f64) {
        let what = |figure: &str| format!("{kind}: {} {figure}", self.name());
        let [of_reads, of_writes] = &arrivals.loads;
        if kind.is_on_cassandra() {
            report_on_cassandra(figures, arrivals, what);
            return;
        }
        let mut bound = |name: &str, value: f64, most: f64| match kind.is_penates() {
            true => figures.hold(what(name), "ms", Goal::AtMost(most), value),
            false => figures.report(what(name), "ms", value),
        };
        bound("reads p99", of_reads.times().p99_ms, READ_P99_MS);
        bound("reads p99.9", of_reads.times().p999_ms, READ_P999_MS);
        // The bound of each run is its own, so the ratio is what has a target.
        let (write_ms, most_ms) = (of_writes.times().p99_ms, WRITE_P99_MS + SYNCS * sync_ms);
        figures.report(what("p99 of a sync of the disk"), "ms", sync_ms);
        figures.report(what("writes p99"), "ms", write_ms);
        if kind.is_penates() {
            let share = write_ms / most_ms;
            figures.hold(what("writes p99 over 1 ms + 3 syncs"), "times", Goal::AtMost(1.0), share);
        }
        figures.report(what("operations"), "operations/s", of_reads.rate() + of_writes.rate());
        figures.report(what("failed"), "operations", arrivals.errors as f64);
    }
}

/// The figures of operations on Cassandra, named by `what`.
pub fn report_on_cassandra(figures: &mut Figures, arrivals: &Arrivals<2>, what: impl Fn(&str) -> String) {
    let [of_reads, of_writes] = &arrivals.loads;
    for (name, load) in [("reads", of_reads), ("writes", of_writes)] {
        let what = |figure: &str| what(&format!("{name} {figure}"));
        figures.hold(what("mean"), "ms", Goal::AtMost(CASSANDRA_MEAN_MS), load.times().mean_ms);
        figures.hold(what("p99"), "ms", Goal::AtMost(CASSANDRA_P99_MS), load.times().p99_ms);
        // What failed is late too; which kind failed is not known, so it counts for both.
        let late = load.share_above_ms(CASSANDRA_P99_MS) * load.answers as f64 + arrivals.errors as f64;
        let late = 100.0 * late / (load.answers + arrivals.errors).max(1) as f64;
        figures.hold(what("later than 10 ms"), "%", Goal::AtMost(CASSANDRA_LATE), late);
    }
    figures.report(what("operations"), "operations/s", of_reads.rate() + of_writes.rate());
    figures.report(what("failed"), "operations", arrivals.errors as f64);
}
