//! Counts what workers have measured: reads their events once, in the order in which they ended, in
//! flat memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use jiff::Timestamp;
use thiserror::Error;

use crate::event::{Event, EventError, EventReader, OF_GENERATOR, Outcome, StepNames};
use crate::plan::Plan;
use crate::replay::ReplayRecord;
use crate::results::{ErrorTally, Second, StepTally, Summary, Tally, Times};

/// A request that was sent later than this after it was due was late.
pub const LATE_US: i64 = 100_000;
/// The most kinds of errors. A server may name each error in its own way.
const KINDS_MAX: usize = 100;
/// The kind of all others.
const OTHER_KINDS: &str = "other kinds";
/// A median of fewer requests is chance: a step that is rare has none.
const OF_MEDIAN_MIN: u64 = 10;

/// What was measured.
pub struct Measured {
    /// The results.
    pub summary: Summary,
    /// The results of each second.
    pub seconds: Vec<Second>,
    /// The quarters of the measured time.
    pub quarters: [Quarter; 4],
    /// Each step, as `scenario/step`, with the median response times in milliseconds of its requests that
    /// were due in each quarter; `None` where hardly any were done.
    pub step_medians_ms: Vec<(String, [Option<f64>; 4])>,
    /// The response times of each step's requests that were done, in microseconds, in the order of
    /// the summary's steps.
    pub step_response_us: Vec<Histogram<u64>>,
    /// The response times of all requests that were done, in microseconds.
    pub response_us: Histogram<u64>,
    /// The same without the lateness of the generator.
    pub punctual: Punctual,
    /// Their other times in microseconds, and the lateness of all requests, by names of these kinds; then all
    /// times of each step, as `scenario/step:kind`.
    pub further_us: Vec<(String, Histogram<u64>)>,
    /// When the first request ended that was not done, in microseconds since the start instant.
    pub first_error_us: Option<i64>,
}

/// What would have been measured if the generator had taken up each request when it was due.
pub struct Punctual {
    /// From when requests were taken up until they were done, in microseconds: waiting for a
    /// connection is a part of it.
    pub response_us: Histogram<u64>,
    /// Requests that were done per second while users arrived.
    pub done_per_s: f64,
    /// Requests that were sent more than 100 ms after they were taken up.
    pub late: u64,
}

/// A quarter of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quarter {
    /// Requests that were due in it.
    pub due: u64,
    /// Requests that were due by its end and had not ended then, those of the warm-up among them.
    pub backlog: u64,
}

/// Why events cannot be counted.
#[derive(Debug, Error)]
pub enum TallyError {
    /// A file of events is damaged or missing.
    #[error("{}: {error}", path.display())]
    Events {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: EventError,
    },
    /// The log of histograms cannot be written.
    #[error("histograms: {0}")]
    Histograms(String),
}

/// The time that counts. Events before the start instant are the warm-up.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The start instant.
    pub started_at: Timestamp,
    /// How long the warm-up is.
    pub warm_up: Duration,
    /// How long users arrive from then on.
    pub duration: Duration,
    /// The response time from which on a request counts as too late.
    pub late_from: Option<Duration>,
}

impl Window {
    /// The time that counts of a run of a plan. A replay may end before the time of the plan.
    pub fn of(plan: &Plan, started_at: Timestamp, replay: Option<&ReplayRecord>) -> Self {
        let of_log = replay.and_then(|replay| Duration::try_from_secs_f64(replay.duration_s).ok());
        let load = of_log.unwrap_or_else(|| plan.load.duration());
        let duration = load.saturating_sub(plan.warm_up);
        Self { started_at, warm_up: plan.warm_up, duration, late_from: plan.late_from() }
    }

    fn quarter(&self, due_us: i64) -> Option<usize> {
        let quarter = usize::try_from(due_us * 4 / micros(self.duration).max(1)).ok()?;
        (due_us >= 0 && quarter < 4).then_some(quarter)
    }

    /// When the quarters end, in microseconds since the start instant.
    fn quarter_ends_us(&self) -> [i64; 4] {
        [1, 2, 3, 4].map(|quarters| micros(self.duration) / 4 * quarters)
    }

    /// Whether a request ended too late, or without success.
    fn is_too_late(&self, event: &Event) -> bool {
        let is_late = |from| !event.outcome.is_done() || event.done_us - event.due_us > micros(from);
        self.late_from.is_some_and(is_late)
    }

    fn has(&self, at_us: i64) -> bool {
        (0..micros(self.duration)).contains(&at_us)
    }

    /// So many requests per second of the measured time.
    fn per_s(&self, requests: u64) -> f64 {
        requests as f64 / self.duration.as_secs_f64()
    }

    /// The warm-up in whole seconds: instants of the log count from its beginning, since none is
    /// negative there.
    fn whole_warm_up(&self) -> Duration {
        Duration::from_secs(self.warm_up.as_secs() + u64::from(self.warm_up.subsec_nanos() > 0))
    }

    fn since_1970(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.started_at.as_microsecond()).unwrap_or_default())
    }
}

fn second_of(at_us: i64) -> i64 {
    at_us.div_euclid(1_000_000)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn histogram() -> Histogram<u64> {
    // Three digits, and as long as times come.
    let Ok(histogram) = Histogram::new(3) else { unreachable!("three digits are fewer than six") };
    histogram
}

/// Times that become a [`Tally`].
struct Counts {
    tally: Tally,
    response: Histogram<u64>,
    service: Histogram<u64>,
    first_byte: Histogram<u64>,
    lateness: Histogram<u64>,
}

impl Counts {
    fn new() -> Self {
        let [response, service, first_byte, lateness] = std::array::from_fn(|_| histogram());
        Self { tally: Tally::default(), response, service, first_byte, lateness }
    }

    fn add(&mut self, event: &Event) {
        let tally = &mut self.tally;
        tally.due += 1;
        tally.sent += u64::from(event.sent_us.is_some());
        tally.late += u64::from(event.sent_us.is_some_and(|sent_us| sent_us - event.due_us > LATE_US));
        tally.sent_bytes += event.sent_bytes;
        tally.received_bytes += event.received_bytes;
        record(&mut self.lateness, event.begun_us - event.due_us);
        match event.outcome {
            Outcome::Done => tally.done += 1,
            Outcome::Conflict => (tally.done, tally.conflicts) = (tally.done + 1, tally.conflicts + 1),
            Outcome::Refused => tally.refused += 1,
            Outcome::Dropped => tally.dropped += 1,
            Outcome::TimeOut | Outcome::Failed(_) => tally.failed += 1,
        }
        if event.outcome.is_done() {
            record(&mut self.response, event.done_us - event.due_us);
            if let Some(sent_us) = event.sent_us {
                record(&mut self.service, event.done_us - sent_us);
                event.first_byte_us.iter().for_each(|at_us| record(&mut self.first_byte, at_us - sent_us));
            }
        }
    }

    /// The times by their kinds, the response times first.
    fn kinds(&self) -> [(&'static str, &Histogram<u64>); 4] {
        let Self { response, service, first_byte, lateness, .. } = self;
        [("response", response), ("service", service), ("first-byte", first_byte), ("lateness", lateness)]
    }

    fn finish(self) -> Tally {
        Tally {
            response: times(&self.response),
            service: times(&self.service),
            first_byte: times(&self.first_byte),
            lateness: times(&self.lateness),
            ..self.tally
        }
    }
}

fn record(histogram: &mut Histogram<u64>, us: i64) {
    // A resizing histogram records everything.
    let _ = histogram.record(us.max(0).unsigned_abs());
}

/// Times in milliseconds of a histogram in microseconds.
pub fn times(us: &Histogram<u64>) -> Times {
    let at = |quantile| us.value_at_quantile(quantile) as f64 / 1e3;
    match us.is_empty() {
        true => Times::default(),
        false => Times {
            count: us.len(),
            mean_ms: us.mean() / 1e3,
            min_ms: us.min() as f64 / 1e3,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: us.max() as f64 / 1e3,
        },
    }
}

/// Counts the events of a run.
///
/// `log` gets the response times of each second and step as an HdrHistogram log (V2), without those of
/// the warm-up that ended after it: they count for nothing. `users` is how many users were active at the
/// end of seconds: the second since the start instant, users.
///
/// # Errors
/// [`TallyError`] names the file.
pub fn count(
    files: &[PathBuf],
    names: &StepNames,
    window: Window,
    users: &[(i64, u64)],
    log: &mut impl Write,
) -> Result<Measured, TallyError> {
    let mut readers = files.iter().map(|path| Reader::open(path, names)).collect::<Result<Vec<_>, _>>()?;
    let failed = |error: &dyn std::fmt::Display| TallyError::Histograms(error.to_string());
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("response times in microseconds by step, from the instant when a request was due")
        .with_start_time(UNIX_EPOCH + window.since_1970())
        .with_base_time(UNIX_EPOCH + window.since_1970() - window.whole_warm_up())
        .begin_log_with(log, &mut serializer)
        .map_err(|error| failed(&error))?;
    let mut counting = Counting::new(names, window);
    while let Some(now) = readers.iter_mut().filter_map(Reader::second).min() {
        for reader in &mut readers {
            while reader.second().is_some_and(|second| second <= now) {
                if let Some(event) = reader.next()? {
                    counting.add(&event);
                }
            }
        }
        for (tag, histogram) in counting.end_second(now) {
            let Some(tag) = Tag::new(&tag) else { continue };
            let at_s = now + window.whole_warm_up().as_secs() as i64;
            let at = Duration::from_secs(u64::try_from(at_s).unwrap_or_default());
            let written = log.write_histogram(&histogram, at, Duration::from_secs(1), Some(tag));
            written.map_err(|error| failed(&format!("{error:?}")))?;
        }
        // A damaged or missing line shows as soon as it is next.
        readers.iter_mut().try_for_each(Reader::check)?;
    }
    Ok(counting.finish(users))
}

struct Reader {
    path: PathBuf,
    events: Peekable<EventReader<File>>,
}

impl Reader {
    fn open(path: &Path, names: &StepNames) -> Result<Self, TallyError> {
        let failed = |error: std::io::Error| TallyError::Events { path: path.to_owned(), error: error.into() };
        let file = File::open(path).map_err(failed)?;
        let mut reader = Self { path: path.to_owned(), events: EventReader::new(file, names.clone()).peekable() };
        reader.check()?;
        Ok(reader)
    }

    fn second(&mut self) -> Option<i64> {
        let Some(Ok(event)) = self.events.peek() else { return None };
        Some(second_of(event.done_us))
    }

    fn next(&mut self) -> Result<Option<Event>, TallyError> {
        self.events.next().transpose().map_err(|error| TallyError::Events { path: self.path.clone(), error })
    }

    fn check(&mut self) -> Result<(), TallyError> {
        match self.events.peek() {
            Some(Err(_)) => self.next().map(drop),
            _ => Ok(()),
        }
    }
}

struct Counting<'a> {
    names: &'a StepNames,
    window: Window,
    all: Counts,
    steps: BTreeMap<(usize, usize), Counts>,
    /// By kind.
    errors: BTreeMap<String, ErrorTally>,
    /// When the first of them ended.
    first_error_us: Option<i64>,
    seconds: BTreeMap<i64, Second>,
    /// The response times of this second, by step.
    second: BTreeMap<(usize, usize), Histogram<u64>>,
    /// Those of this second that were due in the warm-up and ended after it.
    left_over: Histogram<u64>,
    quarters: [Quarter; 4],
    /// The response times of what was due in each quarter, by step.
    quarter_times: BTreeMap<(usize, usize), [Histogram<u64>; 4]>,
    /// Requests that were done while users still arrived, those of the warm-up among them.
    done_in_time: u64,
    /// Those that would have been if the generator had never been late.
    punctually_done: u64,
    /// From when requests were taken up until they were done, in microseconds.
    punctual_us: Histogram<u64>,
    /// Requests that were sent late after they were taken up.
    punctually_late: u64,
}

impl<'a> Counting<'a> {
    fn new(names: &'a StepNames, window: Window) -> Self {
        Self {
            names,
            window,
            all: Counts::new(),
            steps: BTreeMap::new(),
            errors: BTreeMap::new(),
            first_error_us: None,
            seconds: BTreeMap::new(),
            second: BTreeMap::new(),
            left_over: histogram(),
            quarters: [Quarter::default(); 4],
            quarter_times: BTreeMap::new(),
            done_in_time: 0,
            punctually_done: 0,
            punctual_us: histogram(),
            punctually_late: 0,
        }
    }

    fn second_of(&mut self, at_us: i64) -> &mut Second {
        let at_s = second_of(at_us);
        self.seconds.entry(at_s).or_insert_with(|| Second { at_s, ..Second::default() })
    }

    fn add(&mut self, event: &Event) {
        self.second_of(event.due_us).due += 1;
        if let Some(sent_us) = event.sent_us {
            self.second_of(sent_us).sent += 1;
        }
        let is_too_late = self.window.is_too_late(event);
        let ended = self.second_of(event.done_us);
        ended.too_late += u64::from(is_too_late);
        ended.received_bytes += event.received_bytes;
        match event.outcome {
            Outcome::Done | Outcome::Conflict => ended.done += 1,
            Outcome::Refused => ended.refused += 1,
            Outcome::TimeOut => ended.timed_out += 1,
            Outcome::Dropped | Outcome::Failed(_) => ended.failed += 1,
        }
        let (step, is_done) = ((event.scenario, event.step), event.outcome.is_done());
        if is_done {
            let is_left_over = event.due_us < 0 && event.done_us >= 0;
            let second = match is_left_over {
                true => &mut self.left_over,
                false => self.second.entry(step).or_insert_with(histogram),
            };
            record(second, event.done_us - event.due_us);
        }
        for (quarter, end_us) in self.quarters.iter_mut().zip(self.window.quarter_ends_us()) {
            quarter.backlog += u64::from(event.due_us < end_us && event.done_us >= end_us);
        }
        // What was due before it and ends in it counts too: as much is due in it and ends later.
        self.done_in_time += u64::from(is_done && self.window.has(event.done_us));
        let lateness_us = event.begun_us - event.due_us;
        self.punctually_done += u64::from(is_done && self.window.has(event.done_us - lateness_us));
        if event.due_us < 0 {
            return;
        }
        if is_done {
            record(&mut self.punctual_us, event.done_us - event.begun_us);
        }
        self.punctually_late += u64::from(event.sent_us.is_some_and(|sent_us| sent_us - event.begun_us > LATE_US));
        self.all.add(event);
        self.steps.entry(step).or_insert_with(Counts::new).add(event);
        if !is_done {
            self.add_error(event);
        }
        if let Some(quarter) = self.window.quarter(event.due_us) {
            self.quarters[quarter].due += 1;
            if is_done {
                let times = self.quarter_times.entry(step).or_insert_with(|| std::array::from_fn(|_| histogram()));
                record(&mut times[quarter], event.done_us - event.due_us);
            }
        }
    }

    fn add_error(&mut self, event: &Event) {
        self.first_error_us = Some(self.first_error_us.map_or(event.done_us, |known| known.min(event.done_us)));
        let (kind, step) = (event.outcome.text(), (event.scenario, event.step));
        let first_at_us = u64::try_from(event.due_us).unwrap_or_default();
        // Those of the generator decide about the verdict, and are few.
        let has_place = self.errors.len() < KINDS_MAX || kind.starts_with(OF_GENERATOR);
        let kind = if has_place || self.errors.contains_key(kind) { kind } else { OTHER_KINDS };
        match self.errors.get_mut(kind) {
            Some(known) => {
                known.count += 1;
                // Events come in the order in which they ended, and those of a second worker by worker.
                if first_at_us < known.first_at_us {
                    (known.step, known.first_at_us) = (name_of(self.names, step), first_at_us);
                }
            }
            None => {
                let (kind, step) = (kind.to_owned(), name_of(self.names, step));
                self.errors.insert(kind.clone(), ErrorTally { kind, step, count: 1, first_at_us });
            }
        }
    }

    /// Ends a second. Returns its response times by step.
    fn end_second(&mut self, now: i64) -> Vec<(String, Histogram<u64>)> {
        let mut all = std::mem::replace(&mut self.left_over, histogram());
        let steps = std::mem::take(&mut self.second);
        steps.values().for_each(|step| {
            // Both grow as they need.
            let _ = all.add(step);
        });
        let of_all = times(&all);
        let second = self.seconds.entry(now).or_insert_with(|| Second { at_s: now, ..Second::default() });
        (second.p50_ms, second.p90_ms) = (of_all.p50_ms, of_all.p90_ms);
        (second.p99_ms, second.max_ms) = (of_all.p99_ms, of_all.max_ms);
        steps.into_iter().map(|(step, histogram)| (tag_of(self.names, step), histogram)).collect()
    }

    fn finish(mut self, users: &[(i64, u64)]) -> Measured {
        self.add_users(users);
        let mut errors: Vec<_> = std::mem::take(&mut self.errors).into_values().collect();
        errors.sort_by_key(|error| error.first_at_us);
        let of_all = self.all.kinds().into_iter().skip(1).map(|(kind, times)| (kind.to_owned(), times.clone()));
        let of_step = |(step, counts): (&(usize, usize), &Counts)| {
            let tag = tag_of(self.names, *step);
            counts.kinds().map(|(kind, times)| (format!("{tag}:{kind}"), times.clone()))
        };
        let further_us = of_all.chain(self.steps.iter().flat_map(of_step)).collect();
        let steps = std::mem::take(&mut self.steps).into_iter().map(|((scenario, step), counts)| {
            let (name, steps) = &self.names[scenario];
            let response_us = counts.response.clone();
            (StepTally { scenario: name.clone(), step: steps[step].clone(), tally: counts.finish() }, response_us)
        });
        let (steps, step_response_us) = steps.unzip();
        let median = |quarter: &Histogram<u64>| (quarter.len() >= OF_MEDIAN_MIN).then(|| times(quarter).p50_ms);
        let medians = self.quarter_times.iter();
        let medians = medians.map(|(step, quarters)| (name_of(self.names, *step), quarters.each_ref().map(median)));
        let step_medians_ms = medians.collect();
        let response_us = self.all.response.clone();
        Measured {
            summary: Summary {
                duration_s: self.window.duration.as_secs_f64(),
                done_per_s: self.window.per_s(self.done_in_time),
                steps,
                all: self.all.finish(),
                punctual: times(&self.punctual_us),
                errors,
                worker_cpu_shares: Vec::new(),
                costs: None,
            },
            quarters: self.quarters,
            step_medians_ms,
            step_response_us,
            seconds: self.seconds.into_values().collect(),
            response_us,
            punctual: Punctual {
                response_us: self.punctual_us,
                done_per_s: self.window.per_s(self.punctually_done),
                late: self.punctually_late,
            },
            further_us,
            first_error_us: self.first_error_us,
        }
    }

    /// Adds how many users were active at the end of each second: what was reported last by then.
    fn add_users(&mut self, users: &[(i64, u64)]) {
        let (mut active, mut reports) = (0, users.iter().peekable());
        for (at_s, second) in &mut self.seconds {
            while let Some((_, count)) = reports.next_if(|(reported_s, _)| reported_s <= at_s) {
                active = *count;
            }
            second.users = active;
        }
    }
}

/// A step, as `scenario/step`.
fn name_of(names: &StepNames, (scenario, step): (usize, usize)) -> String {
    let of = names.get(scenario);
    let name = of.and_then(|(_, steps)| steps.get(step)).map_or("", String::as_str);
    format!("{}/{name}", of.map_or("", |(name, _)| name))
}

/// The same as a tag of a log, which has neither commas nor spaces.
fn tag_of(names: &StepNames, step: (usize, usize)) -> String {
    name_of(names, step).replace([',', ' ', '\r', '\n'], "_")
}

#[cfg(test)]
mod tests;
