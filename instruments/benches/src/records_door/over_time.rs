//! How many answers are late in each second, beside what is read from disks, with the flushes and
//! compactions of the store: as figures, and as a chart for each server.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use cluster::ControlGroup;
use testbed::export::late::LateChart;
use testbed::results::Second;
use testbed::samples::Marked;

use super::bench::Bench;
use super::fill::fill;
use super::marks::{COMPACTION, FLUSH, Marks};
use super::mixes::{Mix, SYNC};
use super::record::Draw;
use super::subject::{Kind, Subject};
use crate::rig::figures::Figures;
use crate::rig::open_loop::LATE;
use crate::rig::page_cache;
use crate::rig::penates::Penates;
use crate::rig::work::disk_bytes;

/// Reads and writes in equal parts.
const READS: u64 = 50;

/// The records take so many times the memory.
const TIMES: u64 = 4;

/// What keeps the store has at least so much memory, in bytes, however few the records are: a
/// server with the embedded engine, and a node of Cassandra, beside what it had before.
const SERVER_BYTES_MIN: u64 = 128 << 20;
const NODE_BYTES_MIN: u64 = 256 << 20;

/// The pause between two looks for marks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The time between two measurements of what was read from disks.
const READS_EVERY: Duration = Duration::from_secs(1);

/// Measures it once for each server of Penates, and draws `over-time-SERVER.svg`.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let mut figures = Figures::default();
    let kinds: Vec<_> = bench.settings.subjects.iter().copied().filter(|kind| kind.is_penates()).collect();
    for kind in kinds {
        let Some(subject) = bench.start(kind)? else { continue };
        fill(subject.address, bench.settings.records, None)?;
        subject.process.settle()?;
        if let Some(node) = &subject.node {
            node.nodetool(&["flush", "records"])?;
        }
        let mut limited = Limited::new(bench, subject)?;
        figures.report(format!("{kind}: on disk"), "MB", limited.stored_bytes as f64 / 1e6);
        if let Some(bytes) = limited.memory_bytes {
            figures.report(format!("{kind}: memory"), "MB", bytes as f64 / 1e6);
        }
        figures.report(format!("{kind}: {SYNC}"), "ms", bench.sync_p99_ms()?);
        let course = Course::of(bench, &limited.subject)?;
        limited.subject.process.check_runs()?;
        course.report(&mut figures, kind);
        course.draw(bench, kind)?;
    }
    Ok(figures)
}

/// A filled server whose store has a quarter of the memory that it takes on disk.
struct Limited {
    // It ends before its group is removed.
    subject: Subject,
    _group: Option<ControlGroup>,
    /// What the store takes on disk.
    stored_bytes: u64,
    /// `None`: no group could be made, so nothing limits it.
    memory_bytes: Option<u64>,
}

impl Limited {
    /// A server with the embedded engine is started again in a control group. A node of Cassandra
    /// is moved into one as it runs: its heap, which it has already, does not count.
    fn new(bench: &mut Bench, subject: Subject) -> Result<Self> {
        let stored_bytes = disk_bytes(&subject.data()?)?;
        let least = if subject.node.is_some() { NODE_BYTES_MIN } else { SERVER_BYTES_MIN };
        let memory_bytes = least.max(stored_bytes / TIMES);
        let group = match Penates::group(memory_bytes) {
            Ok(group) => Some(group),
            Err(error) => {
                bench.leave_out(format!("a limit for the memory of {}: {error:#}", subject.kind));
                None
            }
        };
        // What Linux has of these files counts for nobody.
        page_cache::forget(&subject.data()?)?;
        let memory_bytes = group.is_some().then_some(memory_bytes);
        let subject = match &group {
            None => subject,
            Some(group) => match subject.node.as_ref().map(|node| node.pid()).transpose()? {
                Some(node) => {
                    group.take_in(node)?;
                    subject
                }
                None => subject.restarted(&bench.penates().within(group))?,
            },
        };
        Ok(Self { subject, _group: group, stored_bytes, memory_bytes })
    }
}

/// What happened during a load.
struct Course {
    /// The operations that ended in each second.
    seconds: Vec<Second>,
    /// Bytes per second read from disks: at which second, and how many.
    reads: Vec<(f64, f64)>,
    marks: Vec<Marked>,
}

impl Course {
    /// Loads a server, and watches it meanwhile.
    fn of(bench: &Bench, subject: &Subject) -> Result<Self> {
        let (rate, duration) = (bench.settings.rate, bench.duration());
        let mix = Mix { reads: READS, draw: Draw::Uniform, records: bench.settings.records };
        let mut marks = Marks::of(subject)?;
        std::thread::scope(|scope| {
            let load = scope.spawn(|| mix.run(subject.address, rate, duration));
            let seen = watch(subject, &mut marks, || load.is_finished());
            let arrivals = load.join().map_err(|_| anyhow!("the load panicked"))??;
            let (reads, marks) = seen?;
            Ok(Self { seconds: arrivals.seconds, reads, marks })
        })
    }

    fn report(&self, figures: &mut Figures, kind: Kind) {
        let what = |figure: &str| format!("{kind}: {figure}");
        for share in self.seconds.iter().filter_map(Second::late_share) {
            figures.report(what("later than 10 ms in each second"), "%", 100.0 * share);
        }
        for (_, bytes) in &self.reads {
            figures.report(what("read from disks in each second"), "MB", bytes / 1e6);
        }
        let sum = |of: fn(&Second) -> u64| self.seconds.iter().map(of).sum::<u64>() as f64;
        let done = sum(|second| second.done);
        let failed = sum(|second| second.failed + second.refused + second.timed_out);
        let late = 100.0 * sum(|second| second.too_late) / (done + failed).max(1.0);
        figures.report(what("later than 10 ms in all"), "%", late);
        figures.report(what("operations"), "operations/s", done / self.seconds.len().max(1) as f64);
        figures.report(what("failed"), "operations", failed);
        for (name, unit) in [(FLUSH, "flushes"), (COMPACTION, "compactions")] {
            let count = self.marks.iter().filter(|mark| mark.what.contains(name)).count();
            figures.report(what(&format!("{unit} that were seen")), unit, count as f64);
        }
    }

    fn draw(&self, bench: &Bench, kind: Kind) -> Result<()> {
        let chart = LateChart { late_from: LATE, seconds: &self.seconds, reads: &self.reads, marks: &self.marks };
        let settings = &bench.settings;
        let title = format!("{kind}: {} records, {} operations/s, half reads", settings.records, settings.rate);
        let name = kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let file = bench.charts().join(format!("over-time-{name}.svg"));
        fs::create_dir_all(bench.charts())?;
        fs::write(&file, chart.draw(&title)?).with_context(|| format!("writing {}", file.display()))
    }
}

/// The bytes per second that a process read from disks, at some seconds.
type DiskReads = Vec<(f64, f64)>;

/// Watches a server until `is_over` is true: what is read from disks in each second, and marks.
fn watch(subject: &Subject, marks: &mut Marks, is_over: impl Fn() -> bool) -> Result<(DiskReads, Vec<Marked>)> {
    let begun = Instant::now();
    let (mut reads, mut seen) = (Vec::new(), Vec::new());
    let (mut before, mut before_at) = (disk_read_bytes(subject)?, Duration::ZERO);
    while !is_over() {
        std::thread::sleep(LOOK_EVERY);
        let found = marks.look()?;
        let at = begun.elapsed();
        seen.extend(found.into_iter().map(|what| Marked { at_s: at.as_secs_f64(), what }));
        if at - before_at >= READS_EVERY {
            let now = disk_read_bytes(subject)?;
            reads.push((at.as_secs_f64(), (now - before) / (at - before_at).as_secs_f64()));
            (before, before_at) = (now, at);
        }
    }
    Ok((reads, seen))
}

/// What the process that keeps the store has read from disks so far, in bytes.
fn disk_read_bytes(subject: &Subject) -> Result<f64> {
    let usage = match &subject.node {
        Some(node) => node.usage()?,
        None => subject.process.usage()?,
    };
    Ok(usage.read_bytes())
}
