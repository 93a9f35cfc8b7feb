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
    /// Their other times in microseconds, and the lateness of all requests, by names of these kinds.
    pub further_us: Vec<(&'static str, Histogram<u64>)>,
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
        let is_late = |from| event.outcome != Outcome::Done || event.done_us - event.due_us > micros(from);
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
            Outcome::Refused => tally.refused += 1,
            Outcome::Dropped => tally.dropped += 1,
            Outcome::TimeOut | Outcome::Failed(_) => tally.failed += 1,
        }
        if event.outcome == Outcome::Done {
            record(&mut self.response, event.done_us - event.due_us);
            if let Some(sent_us) = event.sent_us {
                record(&mut self.service, event.done_us - sent_us);
                event.first_byte_us.iter().for_each(|at_us| record(&mut self.first_byte, at_us - sent_us));
            }
        }
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
            Outcome::Done => ended.done += 1,
            Outcome::Refused => ended.refused += 1,
            Outcome::TimeOut => ended.timed_out += 1,
            Outcome::Dropped | Outcome::Failed(_) => ended.failed += 1,
        }
        let (step, is_done) = ((event.scenario, event.step), event.outcome == Outcome::Done);
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
        // A tag of the log has neither commas nor spaces.
        let tag = |step| name_of(self.names, step).replace([',', ' ', '\r', '\n'], "_");
        steps.into_iter().map(|(step, histogram)| (tag(step), histogram)).collect()
    }

    fn finish(mut self, users: &[(i64, u64)]) -> Measured {
        self.add_users(users);
        let mut errors: Vec<_> = std::mem::take(&mut self.errors).into_values().collect();
        errors.sort_by_key(|error| error.first_at_us);
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
        let Counts { response, service, first_byte, lateness, .. } = &self.all;
        let further = [("service", service), ("first-byte", first_byte), ("lateness", lateness)];
        let further_us = further.into_iter().map(|(kind, histogram)| (kind, histogram.clone())).collect();
        let response_us = response.clone();
        Measured {
            summary: Summary {
                duration_s: self.window.duration.as_secs_f64(),
                done_per_s: self.window.per_s(self.done_in_time),
                steps,
                all: self.all.finish(),
                punctual: times(&self.punctual_us),
                errors,
                worker_cpu_shares: Vec::new(),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::arrivals::Shape;
    use crate::event::EventWriter;
    use crate::latencies;

    fn names() -> StepNames {
        vec![("all".to_owned(), vec!["one".to_owned(), "two".to_owned()])]
    }

    /// A request that is done.
    fn done(step: usize, due_us: i64, done_us: i64) -> Event {
        Event { outcome: Outcome::Done, status: Some(200), ..failing(step, due_us, done_us) }
    }

    /// A request that fails.
    fn failing(step: usize, due_us: i64, done_us: i64) -> Event {
        Event {
            user: 0,
            scenario: 0,
            step,
            due_us,
            begun_us: due_us,
            sent_us: Some(due_us),
            first_byte_us: None,
            done_us,
            outcome: Outcome::Failed("status 500".to_owned()),
            status: Some(500),
            sent_bytes: 0,
            received_bytes: 0,
        }
    }

    /// Counts what workers have measured: the events of each.
    fn counted(workers: &[&[Event]], users: &[(i64, u64)]) -> Measured {
        counted_after(Duration::ZERO, workers, users).0
    }

    /// The same after a warm-up, with the log.
    fn counted_after(warm_up: Duration, workers: &[&[Event]], users: &[(i64, u64)]) -> (Measured, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let file = |(worker, events): (usize, &&[Event])| {
            let path = folder.path().join(worker.to_string());
            let mut writer = EventWriter::new(File::create(&path).unwrap(), names()).unwrap();
            events.iter().for_each(|event| writer.write(event).unwrap());
            writer.finish().unwrap();
            path
        };
        let files: Vec<_> = workers.iter().enumerate().map(file).collect();
        let window = Window {
            started_at: Timestamp::UNIX_EPOCH + warm_up,
            warm_up,
            duration: Duration::from_secs(10),
            late_from: None,
        };
        let mut log = Vec::new();
        (count(&files, &names(), window, users, &mut log).unwrap(), log)
    }

    /// What the workers of one load measure of a server whose latencies are known: the events of each, in the
    /// order in which they ended. A latency depends on the number of the user and on the step alone. A second
    /// of warm-up comes first.
    fn of_workers(workers: u32) -> Vec<Vec<Event>> {
        let (load, seed) = (Shape::Constant { rate: 300.0, duration: Duration::from_secs(11) }, 7);
        let of_worker = |worker| {
            let mut events = Vec::new();
            for (index, at) in (0_u64..).zip(load.arrivals(worker, workers, seed)) {
                let user = index * u64::from(workers) + u64::from(worker);
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                random.set_stream(user);
                let mut due_us = micros(at) - 1_000_000;
                for step in [0, 1] {
                    // From a tenth of a millisecond to three seconds, as many in each order of magnitude.
                    let took_us = 10_f64.powf(random.random_range(2.0..6.5)) as i64;
                    let done_us = due_us + took_us;
                    let fails = step == 1 && user % 50 == 49;
                    let event = if fails { failing(step, due_us, done_us) } else { done(step, due_us, done_us) };
                    events.push(Event { user, received_bytes: user % 1_000, ..event });
                    due_us = done_us;
                }
            }
            events.sort_by_key(|event| event.done_us);
            events
        };
        (0..workers).map(of_worker).collect()
    }

    fn counted_of(workers: &[Vec<Event>]) -> (Measured, Vec<u8>) {
        let workers: Vec<_> = workers.iter().map(Vec::as_slice).collect();
        counted_after(Duration::from_secs(1), &workers, &[])
    }

    /// The values of a histogram, with how often each was recorded.
    fn counts(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
        histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
    }

    fn sum<'a>(all: impl IntoIterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
        let mut sum = histogram();
        all.into_iter().for_each(|one| sum.add(one).unwrap());
        sum
    }

    #[test]
    fn three_workers_have_the_counts_and_the_percentiles_of_one() {
        let known = of_workers(1);
        let ((one, log_of_one), (three, log_of_three)) = (counted_of(&known), counted_of(&of_workers(3)));
        let due: Vec<_> = known[0].iter().filter(|event| event.due_us >= 0).collect();
        let done = due.iter().filter(|event| event.outcome == Outcome::Done).count();
        assert_eq!((one.summary.all.due, one.summary.all.done), (due.len() as u64, done as u64));
        assert!(due.len() >= 6_000 && done < due.len(), "{done} of {}", due.len());
        assert_eq!((&one.summary, &one.seconds), (&three.summary, &three.seconds));
        assert_eq!((one.quarters, one.first_error_us), (three.quarters, three.first_error_us));
        assert_eq!(one.step_medians_ms, three.step_medians_ms);
        assert_eq!(counts(&one.response_us), counts(&three.response_us));
        assert_eq!(counts(&one.punctual.response_us), counts(&three.punctual.response_us));
        let all_counts = |all: &[Histogram<u64>]| all.iter().map(counts).collect::<Vec<_>>();
        assert_eq!(all_counts(&one.step_response_us), all_counts(&three.step_response_us));
        for ((kind, of_one), (_, of_three)) in one.further_us.iter().zip(&three.further_us) {
            assert_eq!(counts(of_one), counts(of_three), "{kind}");
        }
        let seconds = |log: &[u8]| -> Vec<_> {
            let units = latencies::read(log).unwrap().units;
            units.iter().map(|(at_s, second)| (*at_s, counts(second))).collect()
        };
        assert_eq!(seconds(&log_of_one), seconds(&log_of_three));
    }

    #[test]
    fn percentiles_are_those_of_the_latencies_within_the_resolution_of_a_histogram() {
        let workers = of_workers(3);
        let counting = |event: &&Event| event.due_us >= 0 && event.outcome == Outcome::Done;
        let took_us = |event: &Event| event.done_us - event.due_us;
        let mut known: Vec<_> = workers.iter().flatten().filter(counting).map(took_us).collect();
        known.sort_unstable();
        let response = counted_of(&workers).0.summary.all.response;
        let found = [response.p50_ms, response.p90_ms, response.p95_ms, response.p99_ms, response.p999_ms];
        for (quantile, found_ms) in [0.5, 0.9, 0.95, 0.99, 0.999].into_iter().zip(found) {
            let known_ms = known[(quantile * known.len() as f64).ceil() as usize - 1] as f64 / 1e3;
            assert!((found_ms / known_ms - 1.0).abs() < 2e-3, "{quantile}: {found_ms} and {known_ms}");
        }
    }

    #[test]
    fn the_histogram_of_a_run_is_the_sum_of_those_of_its_seconds_and_of_those_of_its_steps() {
        let (measured, log) = counted_of(&of_workers(3));
        let units = latencies::read(log.as_slice()).unwrap().units;
        assert!(units.len() > 10, "{}", units.len());
        // What ended in the warm-up, or was due in it, counts for nothing.
        let of_run = units.iter().filter(|(at_s, _)| *at_s >= 0).map(|(_, second)| second);
        assert_eq!(counts(&sum(of_run)), counts(&measured.response_us));
        assert_eq!(counts(&sum(&measured.step_response_us)), counts(&measured.response_us));
        let done: u64 = measured.summary.steps.iter().map(|step| step.tally.done).sum();
        assert_eq!((done, measured.response_us.len()), (measured.summary.all.done, done));
    }

    #[test]
    fn a_request_of_the_warm_up_that_ends_after_it_is_in_the_log_of_no_second() {
        let events = [done(0, -900_000, -800_000), done(0, 100_000, 200_000), done(1, -100_000, 300_000)];
        let (measured, log) = counted_after(Duration::from_secs(1), &[&events], &[]);
        let units = latencies::read(log.as_slice()).unwrap().units;
        assert_eq!(units.iter().map(|(at_s, of)| (*at_s, of.len())).collect::<Vec<_>>(), [(-1, 1), (0, 1)]);
        assert_eq!(measured.response_us.len(), 1);
        // What was done in a second is shown all the same.
        let second = measured.seconds.iter().find(|second| second.at_s == 0).unwrap();
        assert_eq!((second.done, second.max_ms.round()), (2, 400.0));
    }

    #[test]
    fn as_many_are_done_per_second_as_are_due_if_a_warm_up_precedes_and_each_answer_takes_as_long() {
        // 500 per second, and each takes 20 ms.
        let events: Vec<_> = (-500..5_000).map(|number| done(0, number * 2_000, number * 2_000 + 20_000)).collect();
        let (measured, _) = counted_after(Duration::from_secs(1), &[&events], &[]);
        assert_eq!((measured.summary.done_per_s, measured.punctual.done_per_s), (500.0, 500.0));
        // Without a warm-up, what is due in the last 20 ms is missing.
        let measured = counted(&[&events[500..]], &[]);
        assert_eq!(measured.summary.done_per_s, 499.0);
    }

    #[test]
    fn times_without_the_lateness_of_the_generator_begin_when_requests_are_taken_up() {
        // Each is due, taken up, sent and done at these instants.
        let taken_up = |[due_us, begun_us, sent_us, done_us]: [i64; 4]| Event {
            begun_us,
            sent_us: Some(sent_us),
            ..done(0, due_us, done_us)
        };
        let punctual = taken_up([1_000_000, 1_000_000, 1_000_500, 1_001_000]);
        let late = taken_up([2_000_000, 2_090_000, 2_090_500, 2_091_000]);
        let waits = taken_up([3_000_000, 3_000_000, 3_100_001, 3_101_000]);
        let late_and_waits = taken_up([4_000_000, 4_090_000, 4_100_001, 4_101_000]);
        let is_over = taken_up([9_999_000, 9_999_900, 9_999_950, 10_000_400]);
        let measured = counted(&[&[punctual, late, waits, late_and_waits, is_over]], &[]);
        let (response_us, punctual_us) = (&measured.response_us, &measured.punctual.response_us);
        let above = |times: &Histogram<u64>, us: u64| times.count_between(us, 1_000_000);
        assert_eq!((response_us.len(), above(response_us, 50_000)), (5, 3));
        assert_eq!((punctual_us.len(), above(punctual_us, 50_000), punctual_us.min()), (5, 1, 500));
        let times = |times: Times| (times.count, times.p50_ms.round(), times.max_ms.round());
        assert_eq!(times(measured.summary.all.response), (5, 91.0, 101.0));
        assert_eq!(times(measured.summary.punctual), (5, 1.0, 101.0));
        assert_eq!((measured.summary.all.late, measured.punctual.late), (2, 1));
        assert_eq!((measured.summary.done_per_s, measured.punctual.done_per_s), (0.4, 0.5));
    }

    #[test]
    fn service_time_and_first_byte_count_from_sending_and_only_of_what_was_done() {
        let event = Event {
            begun_us: 1_010_000,
            sent_us: Some(1_030_000),
            first_byte_us: Some(1_050_000),
            ..done(0, 1_000_000, 1_090_000)
        };
        let fails = Event { first_byte_us: Some(1_000_001), ..failing(0, 1_000_000, 5_000_000) };
        let all = counted(&[&[event, fails]], &[]).summary.all;
        let times = |times: Times| (times.count, times.max_ms.round());
        assert_eq!((times(all.response), times(all.service)), ((1, 90.0), (1, 60.0)));
        assert_eq!((times(all.first_byte), times(all.lateness)), ((1, 20.0), (2, 10.0)));
    }

    #[test]
    fn the_first_error_of_a_kind_is_that_of_all_workers_even_within_one_second() {
        let refused = Event { outcome: Outcome::Refused, ..failing(0, 500_000, 600_000) };
        let measured = counted(&[&[failing(0, 700_000, 900_000)], &[failing(1, 300_000, 400_000), refused]], &[]);
        let errors = &measured.summary.errors;
        let first = (errors[0].kind.as_str(), errors[0].step.as_str(), errors[0].count, errors[0].first_at_us);
        assert_eq!(first, ("status 500", "all/two", 2, 300_000));
        assert_eq!((errors[1].kind.as_str(), errors[1].first_at_us), ("refused", 500_000));
        assert_eq!(measured.first_error_us, Some(400_000));
    }

    #[test]
    fn a_server_that_names_each_error_in_its_own_way_has_few_kinds_and_hides_none_of_the_generator() {
        let failed = |number: i64, kind: String| {
            let outcome = Outcome::Failed(kind);
            Event { outcome, ..failing(0, number * 10, number * 10 + 5) }
        };
        let mut events: Vec<_> = (0..1_000).map(|number| failed(number, format!("error E{number}"))).collect();
        events.push(failed(1_000, "error E7".to_owned()));
        events.push(failed(1_001, format!("{OF_GENERATOR}too many open files")));
        let errors = counted(&[&events], &[]).summary.errors;
        assert_eq!(errors.len(), KINDS_MAX + 2);
        let of = |kind: &str| errors.iter().find(|error| error.kind == kind).map(|error| error.count);
        assert_eq!((of("error E7"), of("error E100"), of(OTHER_KINDS)), (Some(2), None, Some(900)));
        assert_eq!(of("generator: too many open files"), Some(1));
        assert_eq!(errors.iter().map(|error| error.count).sum::<u64>(), 1_002);
    }

    #[test]
    fn each_step_has_medians_of_its_own_unless_hardly_anything_of_it_was_done() {
        // The one is fast all the time; the other is slow, and slower in the end; in the third quarter it is rare.
        let ms = |quarter: i64, step: usize| if step == 0 { 1 } else { 100 + 100 * (quarter / 3) };
        let of_step = |quarter: i64, step: usize, count: i64| {
            let due_us = move |number: i64| quarter * 2_500_000 + number * 1_000;
            (0..count).map(move |number| done(step, due_us(number), due_us(number) + ms(quarter, step) * 1_000))
        };
        let counts = [[30, 10], [30, 10], [30, 9], [30, 10]];
        let of_quarter = |quarter: i64| {
            [0, 1].into_iter().flat_map(move |step| of_step(quarter, step, counts[quarter as usize][step]))
        };
        let mut events: Vec<_> = (0..4).flat_map(of_quarter).collect();
        events.sort_by_key(|event| event.done_us);
        let measured = counted(&[&events], &[]);
        let rounded = |medians: [Option<f64>; 4]| medians.map(|median| median.map(f64::round));
        let medians: Vec<_> =
            measured.step_medians_ms.iter().map(|(step, medians)| (step.as_str(), rounded(*medians))).collect();
        let slow = [Some(100.0), Some(100.0), None, Some(200.0)];
        assert_eq!(medians, [("all/one", [Some(1.0); 4]), ("all/two", slow)]);
        assert_eq!(measured.quarters.map(|quarter| quarter.due), [40, 40, 39, 40]);
    }

    #[test]
    fn a_backlog_is_what_was_due_by_the_end_of_a_quarter_and_had_not_ended() {
        // Quarters are of 2.5 s: two requests last over the second end, and one of them over the last.
        let events = [
            done(0, 0, 2_400_000),
            done(0, 2_400_000, 2_500_000),
            done(1, 4_000_000, 5_000_001),
            failing(1, 9_000_000, 9_500_000),
            done(0, 4_900_000, 11_000_000),
            // It was due after the end of the arrivals, like the second step of the last user.
            done(0, 10_000_000, 12_000_000),
        ];
        let measured = counted(&[&events], &[]);
        assert_eq!(measured.quarters.map(|quarter| quarter.backlog), [1, 2, 1, 1]);
        assert_eq!(measured.quarters.map(|quarter| quarter.due), [2, 2, 0, 1]);
    }

    #[test]
    fn a_second_has_the_users_that_were_reported_last_by_its_end() {
        let events = [0, 1, 3].map(|second| failing(0, second * 1_000_000, second * 1_000_000));
        let measured = counted(&[&events], &[(-1, 2), (1, 7), (2, 5)]);
        let users: Vec<_> = measured.seconds.iter().map(|second| (second.at_s, second.users)).collect();
        assert_eq!(users, [(0, 2), (1, 7), (3, 5)]);
    }
}
