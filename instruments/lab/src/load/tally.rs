//! Counts operations and their latencies, from the instant at which each was due. In a closed loop
//! that is when it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use crate::filed::NAMES_OF_SECONDS;
use crate::rig::{Counters, Loaded};
use crate::workload::Operation;

/// An operation above this was late.
const LATE_US: u64 = 10_000;

/// Digits of latencies that are kept.
const DIGITS: u8 = 3;

/// Seconds whose latencies are held as they are, which takes up to 130 KB each. Those of a day would
/// take gigabytes.
const OPEN_SECONDS: usize = 600;

/// An operation that has ended.
pub(super) struct Ended {
    /// What it did.
    pub operation: Operation,
    /// When it was due, since the beginning of the warm-up.
    pub due: Duration,
    /// How late it was sent.
    pub lateness: Duration,
    /// From the instant when it was due to its answer.
    pub latency: Duration,
    /// Whether it was done.
    pub is_done: bool,
}

/// Counts.
pub(super) struct Tally {
    warm_up: Duration,
    duration: Duration,
    due: u64,
    done: u64,
    /// Answered and sent, warm-up included.
    counts: BTreeMap<Operation, (u64, u64)>,
    /// Answered, of those that were due in the measured time.
    measured: BTreeMap<Operation, u64>,
    lateness: Histogram<u64>,
    all: Histogram<u64>,
    empty: Histogram<u64>,
    each: BTreeMap<Operation, Histogram<u64>>,
    quarters: [Histogram<u64>; 4],
    seconds: Seconds,
    /// Those of them that were done.
    done_in: BTreeMap<u64, u64>,
}

/// Counts a value. The histogram grows until it has a place for it.
fn record(histogram: &mut Histogram<u64>, value: u64) {
    // It would fail if it could not grow.
    let _ = histogram.record(value);
}

/// Parts of the latencies of each second, compressed to some KB.
type Packed = BTreeMap<u64, Vec<Vec<u8>>>;

/// Latencies by the second in which operations were due.
struct Seconds {
    /// How many may be open.
    open_max: usize,
    open: BTreeMap<u64, Histogram<u64>>,
    /// The seconds before, once [`Self::settle`] has waited for them. An operation that ends when its
    /// second is packed adds another part to it.
    packed: Packed,
    packer: Option<Packer>,
}

/// A thread that packs seconds. Whoever counts an operation holds up those that are sent next, and so does
/// not do it.
struct Packer {
    seconds: mpsc::Sender<(u64, Histogram<u64>)>,
    thread: JoinHandle<io::Result<Packed>>,
}

impl Packer {
    fn start() -> io::Result<Self> {
        let (seconds, received) = mpsc::channel();
        let thread = thread::Builder::new().name("latencies".to_owned()).spawn(move || pack(&received))?;
        Ok(Self { seconds, thread })
    }

    /// All that it has packed.
    fn ended(self) -> io::Result<Packed> {
        drop(self.seconds);
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

fn pack(seconds: &mpsc::Receiver<(u64, Histogram<u64>)>) -> io::Result<Packed> {
    let (mut packed, mut packing) = (Packed::new(), V2DeflateSerializer::new());
    for (second, histogram) in seconds {
        let mut part = Vec::new();
        packing.serialize(&histogram, &mut part).map_err(io::Error::other)?;
        packed.entry(second).or_default().push(part);
    }
    Ok(packed)
}

impl Seconds {
    /// Without any latency.
    fn new(open_max: usize) -> io::Result<Self> {
        let packer = Some(Packer::start()?);
        Ok(Self { open_max, open: BTreeMap::new(), packed: Packed::new(), packer })
    }

    /// Counts a latency. A second that is new begins with a copy of `empty`.
    fn record(&mut self, second: u64, us: u64, empty: &Histogram<u64>) {
        record(self.open.entry(second).or_insert_with(|| empty.clone()), us);
        if self.open.len() > self.open_max {
            self.pack_first();
        }
    }

    /// Gives the earliest second that is open away to be packed.
    fn pack_first(&mut self) {
        let Some(packer) = &self.packer else { return };
        if let Some(first) = self.open.pop_first() {
            // The thread ends early only with an error, which `settle` returns.
            let _ = packer.seconds.send(first);
        }
    }

    /// Waits until all is packed that was given away. Seconds that are counted afterwards stay open.
    fn settle(&mut self) -> io::Result<()> {
        if let Some(packer) = self.packer.take() {
            self.packed = packer.ended()?;
        }
        Ok(())
    }

    /// All seconds in their order, with their latencies, when it is settled.
    fn all(&self) -> impl Iterator<Item = io::Result<(u64, Histogram<u64>)>> {
        let seconds: BTreeSet<u64> = self.packed.keys().chain(self.open.keys()).copied().collect();
        let of = move |second| Some(self.of(second).transpose()?.map(|histogram| (second, histogram)));
        seconds.into_iter().filter_map(of)
    }

    /// The latencies of a second; `None`: nothing was due in it.
    fn of(&self, second: u64) -> io::Result<Option<Histogram<u64>>> {
        let mut unpacking = Deserializer::new();
        let packed = self.packed.get(&second).into_iter().flatten();
        let packed = packed.map(|part| unpacking.deserialize(&mut part.as_slice()).map_err(io::Error::other));
        let mut parts = packed.chain(self.open.get(&second).cloned().map(Ok));
        let Some(first) = parts.next() else { return Ok(None) };
        let mut all: Histogram<u64> = first?;
        all.auto(true);
        for part in parts {
            all.add(part?).map_err(io::Error::other)?;
        }
        Ok(Some(all))
    }
}

impl Tally {
    /// A tally of nothing.
    pub fn new(warm_up: Duration, duration: Duration) -> io::Result<Self> {
        // It grows by itself.
        let empty: Histogram<u64> = Histogram::new(DIGITS).map_err(io::Error::other)?;
        Ok(Self {
            warm_up,
            duration,
            due: 0,
            done: 0,
            counts: BTreeMap::new(),
            measured: BTreeMap::new(),
            lateness: empty.clone(),
            each: BTreeMap::new(),
            quarters: std::array::from_fn(|_| empty.clone()),
            seconds: Seconds::new(OPEN_SECONDS)?,
            done_in: BTreeMap::new(),
            all: empty.clone(),
            empty,
        })
    }

    /// Counts an operation.
    pub fn add(&mut self, ended: &Ended) {
        let (answered, sent) = self.counts.entry(ended.operation).or_default();
        (*answered, *sent) = (*answered + u64::from(ended.is_done), *sent + 1);
        let Some(at) = ended.due.checked_sub(self.warm_up) else { return };
        self.due += 1;
        self.done += u64::from(ended.is_done);
        *self.measured.entry(ended.operation).or_default() += u64::from(ended.is_done);
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let empty = || self.empty.clone();
        record(&mut self.lateness, us(ended.lateness));
        let quarter = (at.as_secs_f64() / self.duration.as_secs_f64() * 4.0) as usize;
        let of_operation = self.each.entry(ended.operation).or_insert_with(empty);
        record(of_operation, us(ended.latency));
        self.seconds.record(at.as_secs(), us(ended.latency), &self.empty);
        *self.done_in.entry(at.as_secs()).or_default() += u64::from(ended.is_done);
        record(&mut self.quarters[quarter.min(3)], us(ended.latency));
        record(&mut self.all, us(ended.latency));
    }

    /// Writes the latencies of each second, as a log of HdrHistogram (V2).
    pub fn write_log(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.seconds.settle()?;
        let mut serializer = V2DeflateSerializer::new();
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment("latencies in microseconds, from when an operation was due (in a closed loop: was sent)")
            .with_start_time(UNIX_EPOCH)
            .begin_log_with(out, &mut serializer)?;
        for second in self.seconds.all() {
            let (second, histogram) = second?;
            let written = log.write_histogram(&histogram, Duration::from_secs(second), Duration::from_secs(1), None);
            written.map_err(|error| io::Error::other(format!("{error:?}")))?;
        }
        Ok(())
    }

    /// Writes a line of CSV for each second, with all that the testbed has of one. Latencies are those of
    /// all operations; nothing counts users, bytes or refusals.
    pub fn write_seconds(&mut self, out: impl Write) -> Result<(), csv::Error> {
        self.seconds.settle()?;
        let mut table = csv::Writer::from_writer(out);
        table.write_record(NAMES_OF_SECONDS)?;
        for second in self.seconds.all() {
            let (second, histogram) = second?;
            let times = [
                histogram.mean(),
                histogram.value_at_quantile(0.5) as f64,
                histogram.value_at_quantile(0.9) as f64,
                histogram.value_at_quantile(0.99) as f64,
                histogram.max() as f64,
            ];
            let (due, done) = (histogram.len(), self.done_in.get(&second).copied().unwrap_or_default());
            let counts = [second, due, due, done, 0, due - done, 0, 0, 0, 0].map(|count| count.to_string());
            let times = times.map(|us| format!("{:.3}", us / 1e3));
            table.write_record(counts.iter().chain(&times))?;
        }
        Ok(table.flush()?)
    }

    /// What the load did.
    pub fn loaded(&self) -> Loaded {
        let ms = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let mut metrics = BTreeMap::new();
        let mut times = |prefix: &str, histogram: &Histogram<u64>| {
            let all = [
                ("mean_ms", histogram.mean() / 1e3),
                ("min_ms", histogram.min() as f64 / 1e3),
                ("p50_ms", ms(histogram, 0.5)),
                ("p90_ms", ms(histogram, 0.9)),
                ("p95_ms", ms(histogram, 0.95)),
                ("p99_ms", ms(histogram, 0.99)),
                ("p999_ms", ms(histogram, 0.999)),
                ("max_ms", histogram.max() as f64 / 1e3),
            ];
            metrics.extend(all.map(|(name, value)| (format!("{prefix}{name}"), value)));
        };
        if !self.all.is_empty() {
            times("", &self.all);
        }
        self.each.iter().for_each(|(operation, histogram)| times(&format!("{}_", operation.name()), histogram));
        let late = self.all.len() - self.all.count_between(0, LATE_US);
        metrics.insert("late_share".to_owned(), late as f64 / self.due.max(1) as f64);
        metrics.insert("rate_per_s".to_owned(), self.done as f64 / self.duration.as_secs_f64());
        let count = |operation| self.counts.get(&operation).copied().unwrap_or_default();
        let (writes, deletes) = (count(Operation::Write), count(Operation::Delete));
        let measured = |operation| self.measured.get(&operation).copied().unwrap_or_default();
        Loaded {
            due: self.due,
            done: self.done,
            lateness_p99_ms: ms(&self.lateness, 0.99),
            writes: (writes.0 + deletes.0, writes.1 + deletes.1),
            reads: count(Operation::Read),
            measured: (measured(Operation::Write) + measured(Operation::Delete), measured(Operation::Read)),
            counted_by: None,
            begun: Counters::default(),
            quarters_ms: self.quarters.each_ref().map(|quarter| (!quarter.is_empty()).then(|| ms(quarter, 0.5))),
            metrics,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_long_load_holds_the_latencies_of_few_seconds_as_they_are_and_reports_the_same() {
        let tally = || Tally::new(Duration::ZERO, Duration::from_secs(660)).unwrap();
        let (mut packing, mut plain) = (tally(), tally());
        plain.seconds.open_max = usize::MAX;
        for second in 0..660 {
            // An operation of each of the first seconds ends when its second is packed.
            let late = u64::checked_sub(second, 650).map(|late| (late, 0));
            for (second, number) in [(second, 1), (second, 2)].into_iter().chain(late) {
                let (operation, due, lateness) = (Operation::Read, Duration::from_secs(second), Duration::ZERO);
                let latency = Duration::from_micros(1 + second * 37 + number * 1_000);
                let ended = Ended { operation, due, lateness, latency, is_done: number < 2 };
                packing.add(&ended);
                plain.add(&ended);
            }
        }
        let written = |tally: &mut Tally| {
            let (mut log, mut seconds) = (Vec::new(), Vec::new());
            tally.write_log(&mut log).unwrap();
            tally.write_seconds(&mut seconds).unwrap();
            [log, seconds].map(|file| String::from_utf8(file).unwrap())
        };
        assert!(packing.seconds.packed.is_empty(), "whoever counts does not pack");
        let (packed_files, plain_files) = (written(&mut packing), written(&mut plain));
        assert_eq!((packing.seconds.open.len(), packing.seconds.packed.len()), (OPEN_SECONDS, 660 - OPEN_SECONDS));
        assert_eq!(packing.seconds.packed[&0].len(), 2, "the late operation is a part of its own");
        assert_eq!(plain.seconds.open.len(), 660);
        assert!(packed_files == plain_files, "the files differ");
    }

    #[test]
    fn the_warm_up_is_sent_and_does_not_count() {
        let (warm_up, duration) = (Duration::from_secs(1), Duration::from_secs(4));
        let mut tally = Tally::new(warm_up, duration).unwrap();
        for second in 0..5 {
            let (operation, is_done) = if second == 4 { (Operation::Read, false) } else { (Operation::Write, true) };
            let latency = Duration::from_millis(if is_done { second + 1 } else { 10_000 });
            let due = Duration::from_secs(second);
            tally.add(&Ended { operation, due, lateness: Duration::ZERO, latency, is_done });
        }
        let loaded = tally.loaded();
        assert_eq!((loaded.due, loaded.done, loaded.writes, loaded.reads), (4, 3, (4, 4), (0, 1)));
        assert_eq!((loaded.metrics["late_share"], loaded.metrics["rate_per_s"]), (0.25, 0.75));
        assert_eq!(loaded.measured, (3, 0), "the write of the warm-up is none of them");
        // What was not done took as long as it was waited for.
        assert!(loaded.metrics["max_ms"] >= 10_000.0 && loaded.metrics["read_p50_ms"] >= 10_000.0);
        assert!((loaded.metrics["p50_ms"] - 3.0).abs() < 0.01 && (loaded.quarters_ms[0].unwrap() - 2.0).abs() < 0.01);
        let mut seconds = Vec::new();
        tally.write_seconds(&mut seconds).unwrap();
        // The testbed reads them as its own.
        let seconds = csv::Reader::from_reader(&seconds[..]).into_deserialize::<testbed::results::Second>();
        let seconds: Vec<_> = seconds.map(Result::unwrap).collect();
        let counts: Vec<_> =
            seconds.iter().map(|second| (second.at_s, second.due, second.done, second.failed)).collect();
        assert_eq!(counts, [(0, 1, 1, 0), (1, 1, 1, 0), (2, 1, 1, 0), (3, 1, 0, 1)]);
        let mut log = Vec::new();
        tally.write_log(&mut log).unwrap();
        assert!(String::from_utf8(log).unwrap().contains("HIST"));
    }
}
