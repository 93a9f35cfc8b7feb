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
    // Those of all steps together are those of all requests.
    let of_steps = |kind: &str| {
        let is_of_kind = |tag: &str| tag.ends_with(&format!(":{kind}"));
        sum(one.further_us.iter().filter(|(tag, _)| is_of_kind(tag)).map(|(_, histogram)| histogram))
    };
    assert_eq!(counts(&of_steps("response")), counts(&one.response_us));
    for (kind, of_all) in one.further_us.iter().filter(|(tag, _)| !tag.contains(':')) {
        assert_eq!(counts(&of_steps(kind)), counts(of_all), "{kind}");
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
fn a_conflict_is_done_and_counted_apart_in_its_step_and_is_no_error() {
    let conflict = Event { outcome: Outcome::Conflict, status: Some(412), ..failing(1, 500_000, 600_000) };
    let measured = counted(&[&[done(0, 0, 50_000), done(1, 100_000, 200_000), conflict, failing(1, 0, 900_000)]], &[]);
    let of = |tally: &Tally| (tally.due, tally.done, tally.conflicts, tally.failed, tally.response.count);
    let summary = &measured.summary;
    let steps: Vec<_> = summary.steps.iter().map(|step| of(&step.tally)).collect();
    assert_eq!(steps, [(1, 1, 0, 0, 1), (3, 2, 1, 1, 2)]);
    assert_eq!(of(&summary.all), (4, 3, 1, 1, 3));
    assert_eq!(summary.errors.iter().map(|error| error.count).sum::<u64>(), 1);
    assert_eq!((measured.seconds[0].done, measured.seconds[0].failed), (3, 1));
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
    let of_quarter =
        |quarter: i64| [0, 1].into_iter().flat_map(move |step| of_step(quarter, step, counts[quarter as usize][step]));
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
