//! In one word: does the candidate hold this load?

use hdrhistogram::Histogram;

use crate::event::OF_GENERATOR;
use crate::objective::{Measure, Objective};
use crate::plan::Plan;
use crate::results::{Judgement, StepTally, Summary, Verdict};
use crate::tally::{LATE_US, Measured};

/// Durations grow if the median of the last quarter is more than so many times that of the second; a
/// backlog likewise.
const GROWTH_MAX: f64 = 1.5;
/// Medians that differ by less than this in milliseconds do not grow: the difference is noise.
const GROWTH_MIN_MS: f64 = 1.0;
/// Backlogs that differ by fewer requests than these, or by what is due in a second, do not grow: a short
/// pause of the candidate makes as much.
const BACKLOG_GROWTH_MIN: f64 = 10.0;

/// Objectives are judged if the generator itself is late by at most this share of the tightest.
const GENERATOR_SHARE_MAX: f64 = 0.25;

/// A step has not done its work if more than this share of its requests that were done met a conflict.
const CONFLICTS_MAX: f64 = 0.5;

/// A worker that uses so much of a processor can make no more load.
const WORKER_FULL: f64 = 0.9;

/// Judges a run. `void` is why it says nothing about the candidate, if that is known already.
pub fn judge(plan: &Plan, measured: &Measured, void: Vec<String>) -> Judgement {
    let judgement = judge_requests(plan, measured, void);
    let limits = limits_of_generator(&measured.summary);
    match judgement.verdict {
        // Nobody knows whether the candidate or the generator was too slow.
        Verdict::Degrading | Verdict::Failed if !limits.is_empty() => {
            Judgement { verdict: Verdict::Void, reasons: [limits, judgement.reasons].concat() }
        }
        _ => judgement,
    }
}

/// The workers that could make no more load, as reasons.
fn limits_of_generator(summary: &Summary) -> Vec<String> {
    let full = summary.worker_cpu_shares.iter().enumerate().filter(|(_, share)| **share >= WORKER_FULL);
    let reason = |(number, share): (usize, &f64)| {
        format!(
            "Worker {number} used {:.0} % of a processor: the generator was the limit. Use more workers or a lower \
             rate.",
            share * 100.0
        )
    };
    full.map(reason).collect()
}

fn judge_requests(plan: &Plan, measured: &Measured, void: Vec<String>) -> Judgement {
    let all = &measured.summary.all;
    let mut void = void;
    if all.due == 0 && void.is_empty() {
        void.push("No request was due.".to_owned());
    }
    if all.lateness.max_ms * 1e3 > LATE_US as f64 {
        void.push(format!(
            "The generator was late: it took up a request {:.0} ms after it was due (100 ms are allowed). \
             Use more workers or a lower rate.",
            all.lateness.max_ms
        ));
    }
    let own = measured.summary.errors.iter().filter(|error| error.kind.starts_with(OF_GENERATOR));
    void.extend(own.map(|error| {
        format!("{} requests could not be made: {}. Use more machines, or shared connections.", error.count, error.kind)
    }));
    if !void.is_empty() {
        return Judgement { verdict: Verdict::Void, reasons: void };
    }
    let failed = [failures(plan, &measured.summary), conflicts(&measured.summary)].concat();
    if !failed.is_empty() {
        return Judgement { verdict: Verdict::Failed, reasons: failed };
    }
    let degrading = degradations(measured);
    if !degrading.is_empty() {
        return Judgement { verdict: Verdict::Degrading, reasons: degrading };
    }
    // Objectives come last: errors and growth explain why they are not met.
    let judgement = judge_objectives(plan, measured);
    if all.late == 0 || judgement.verdict == Verdict::Failed {
        return judgement;
    }
    let late = format!(
        "The generator was late, by {:.3} ms at most: because of it {} of {} requests were sent more than 100 ms \
         after they were due.",
        all.lateness.max_ms, all.late, all.due
    );
    Judgement { verdict: Verdict::Void, reasons: [vec![late], judgement.reasons].concat() }
}

fn judge_objectives(plan: &Plan, measured: &Measured) -> Judgement {
    let lateness = measured.summary.all.lateness;
    let is_missed = |objective: &&Objective| !objective.is_met_by(value(objective.of, measured));
    let missed: Vec<_> = plan.objectives.iter().filter(is_missed).collect();
    if missed.is_empty() {
        return Judgement { verdict: Verdict::Held, reasons: Vec::new() };
    }
    let reasons = |objectives: &[&Objective]| -> Vec<String> {
        objectives.iter().map(|objective| reason(objective, measured)).collect()
    };
    let void = |late: String| Judgement { verdict: Verdict::Void, reasons: [vec![late], reasons(&missed)].concat() };
    let tightest_ms = plan.objectives.iter().filter_map(Objective::bound_ms).fold(f64::INFINITY, f64::min);
    if lateness.p99_ms > GENERATOR_SHARE_MAX * tightest_ms {
        return void(format!(
            "The generator was late by {:.3} ms (p99), which is too much to judge these objectives:",
            lateness.p99_ms
        ));
    }
    // However seldom the generator is late, an objective may be about just these requests.
    let is_of_candidate = |objective: &&&Objective| !objective.is_met_by(punctual_value(objective.of, measured));
    let of_candidate: Vec<_> = missed.iter().filter(is_of_candidate).copied().collect();
    match of_candidate.is_empty() {
        true => void(format!(
            "The generator was late, by {:.3} ms at most. Without that, these objectives may have been met:",
            lateness.max_ms
        )),
        false => Judgement { verdict: Verdict::Failed, reasons: reasons(&of_candidate) },
    }
}

fn failures(plan: &Plan, summary: &Summary) -> Vec<String> {
    let all = &summary.all;
    let failed = all.failed + all.refused + all.dropped;
    if failed as f64 <= plan.tolerated_errors * all.due as f64 {
        return Vec::new();
    }
    let reason = |error: &crate::results::ErrorTally| {
        format!(
            "{} of {} requests ended with \"{}\", the first in {} after {:.3} s.",
            error.count,
            all.due,
            error.kind,
            error.step,
            error.first_at_us as f64 / 1e6
        )
    };
    summary.errors.iter().map(reason).collect()
}

/// The steps that have not done their work, because most of their requests met a conflict, as reasons.
/// That is no race between users any more: a server may say so to every request.
pub(crate) fn conflicts(summary: &Summary) -> Vec<String> {
    let is_idle = |step: &&StepTally| step.tally.conflicts as f64 > CONFLICTS_MAX * step.tally.done as f64;
    let reason = |StepTally { scenario, step, tally }: &StepTally| {
        format!(
            "Most requests of {scenario}/{step} met a conflict and did nothing: {} of the {} that were answered as \
             the step allows it.",
            tally.conflicts, tally.done
        )
    };
    summary.steps.iter().filter(is_idle).map(reason).collect()
}

fn degradations(measured: &Measured) -> Vec<String> {
    let (late, due) = (measured.punctual.late, measured.summary.all.due);
    let mut reasons = Vec::new();
    if late > 0 {
        reasons.push(format!("{late} of {due} requests waited more than 100 ms for a connection to the candidate."));
    }
    reasons.extend(measured.step_medians_ms.iter().filter_map(|(step, medians_ms)| growing_step(step, *medians_ms)));
    reasons.extend(growing_backlog(measured));
    reasons
}

/// How the durations of a step grow. Those of all steps together say little: a fast step hides a slow one.
fn growing_step(step: &str, medians_ms: [Option<f64>; 4]) -> Option<String> {
    let [_, Some(second), _, Some(last)] = medians_ms else { return None };
    let grow = last > GROWTH_MAX * second && last - second > GROWTH_MIN_MS;
    grow.then(|| {
        format!(
            "Durations of {step} grow: the median of the last quarter is {last:.3} ms, that of the second \
             {second:.3} ms."
        )
    })
}

/// How the backlog grows from the end of the second quarter to the end of the arrivals.
fn growing_backlog(measured: &Measured) -> Option<String> {
    let [_, second, _, last] = measured.quarters;
    let due_per_s = measured.summary.all.due as f64 / measured.summary.duration_s;
    // Of a load that grows more is under way, whatever the candidate does.
    let load = (last.due as f64 / second.due.max(1) as f64).max(1.0);
    let (before, after) = (second.backlog as f64 * load, last.backlog as f64);
    let grows = after > GROWTH_MAX * before && after - before > BACKLOG_GROWTH_MIN.max(due_per_s);
    grows.then(|| {
        format!(
            "The backlog grows: {} requests were under way when the arrivals ended, and {} after the second quarter.",
            last.backlog, second.backlog
        )
    })
}

/// What an objective is about, in the unit of its bound.
fn value(of: Measure, measured: &Measured) -> f64 {
    let summary = &measured.summary;
    // What the generator moved from the warm-up into the measured time meets no objective.
    let done_per_s = summary.done_per_s.min(measured.punctual.done_per_s);
    value_of(of, summary.all.due, &measured.response_us, done_per_s)
}

/// The same as it may have been without the lateness of the generator.
fn punctual_value(of: Measure, measured: &Measured) -> f64 {
    let (all, punctual) = (&measured.summary.all, &measured.punctual);
    let value = value_of(of, all.due, &punctual.response_us, punctual.done_per_s);
    match of {
        // An answer that came meanwhile was read late, and one such answer is enough.
        Measure::Max => value - all.lateness.max_ms,
        _ => value,
    }
}

/// The same of so many requests that were due. One that failed took for ever.
fn value_of(of: Measure, due: u64, response_us: &Histogram<u64>, done_per_s: f64) -> f64 {
    match of {
        Measure::Rate => done_per_s,
        Measure::LateShare(at_ms) => {
            let in_time = response_us.count_between(0, (at_ms * 1e3) as u64);
            due.saturating_sub(in_time) as f64 * 100.0 / due as f64
        }
        Measure::Percentile(percent) => at_per_mille_ms((percent * 10.0).round() as u64, due, response_us),
        // One that took for ever is enough.
        Measure::Mean if response_us.len() < due => f64::INFINITY,
        Measure::Mean => response_us.mean() / 1e3,
        Measure::Max => at_per_mille_ms(1_000, due, response_us),
    }
}

/// The time in milliseconds within which so many of a thousand requests were done.
fn at_per_mille_ms(per_mille: u64, due: u64, response_us: &Histogram<u64>) -> f64 {
    let (rank, done) = ((due * per_mille).div_ceil(1_000), response_us.len());
    match (1..=done).contains(&rank) {
        // In the middle between two ranks no rounding leads to the next one.
        true => response_us.value_at_quantile((rank as f64 - 0.5) / done as f64) as f64 / 1e3,
        false => f64::INFINITY,
    }
}

/// Why an objective is not met.
fn reason(objective: &Objective, measured: &Measured) -> String {
    let value = value(objective.of, measured);
    let shown = match objective.of {
        Measure::Rate => format!("{value:.1}/s"),
        Measure::LateShare(_) => format!("{value:.3} %"),
        _ if value.is_infinite() => "not reached, because too many requests failed".to_owned(),
        _ => format!("{value:.3} ms"),
    };
    format!("The objective {objective} is not met: it was {shown}.")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::results::{ErrorTally, Tally, Times};
    use crate::tally::{Punctual, Quarter};

    fn plan(more: &str) -> Plan {
        let text = format!(
            "name = \"x\"\nscenarios = [{{ scenario = \"get\" }}]\n\
             load = {{ shape = \"constant\", rate = 1, duration = \"100s\" }}\n{more}"
        );
        Plan::parse(&text).unwrap()
    }

    fn measured() -> Measured {
        of_times_ms(1..=100)
    }

    /// What was measured of a generator that is never late, if requests took so long.
    fn of_times_ms(times_ms: impl IntoIterator<Item = u64>) -> Measured {
        let mut response_us = Histogram::new(3).unwrap();
        for ms in times_ms {
            response_us.record(ms * 1_000).unwrap();
        }
        let (count, response) = (response_us.len(), crate::tally::times(&response_us));
        let all = Tally { due: count, sent: count, done: count, response, ..Tally::default() };
        let summary = Summary { duration_s: 100.0, done_per_s: 1.0, all, ..Summary::default() };
        let quarters = [Quarter { due: 25, backlog: 1 }; 4];
        let step_medians_ms = vec![("get/get".to_owned(), [Some(50.0); 4])];
        Measured {
            summary,
            seconds: Vec::new(),
            quarters,
            step_medians_ms,
            step_response_us: Vec::new(),
            punctual: Punctual { response_us: response_us.clone(), done_per_s: 1.0, late: 0 },
            response_us,
            further_us: Vec::new(),
            first_error_us: None,
        }
    }

    fn verdict(plan: &Plan, measured: &Measured) -> (Verdict, String) {
        let judgement = judge(plan, measured, Vec::new());
        (judgement.verdict, judgement.reasons.join(" "))
    }

    #[test]
    fn a_run_without_errors_whose_durations_do_not_grow_holds() {
        assert_eq!(verdict(&plan(""), &measured()), (Verdict::Held, String::new()));
    }

    #[test]
    fn growing_durations_and_waiting_for_connections_are_degrading() {
        let mut growing = measured();
        growing.step_medians_ms[0].1 = [Some(1.0), Some(50.0), Some(60.0), Some(75.1)];
        assert_eq!(verdict(&plan(""), &growing).0, Verdict::Degrading);
        growing.step_medians_ms[0].1[3] = Some(75.0);
        assert_eq!(verdict(&plan(""), &growing).0, Verdict::Held);
        growing.step_medians_ms[0].1 = [Some(0.1), Some(0.1), Some(0.2), Some(0.9)];
        assert_eq!(verdict(&plan(""), &growing).0, Verdict::Held, "less than a millisecond is noise");
        let mut waiting = measured();
        (waiting.summary.all.late, waiting.punctual.late) = (3, 3);
        let (found, reasons) = verdict(&plan(""), &waiting);
        assert!(found == Verdict::Degrading && reasons.contains("3 of 100"), "{reasons}");
    }

    #[test]
    fn requests_that_are_late_only_because_the_generator_was_late_too_are_no_fault_of_the_candidate() {
        let mut late = measured();
        late.summary.all.late = 3;
        late.summary.all.lateness.max_ms = 98.0;
        let (found, reasons) = verdict(&plan(""), &late);
        assert_eq!(found, Verdict::Void);
        let reason = "The generator was late, by 98.000 ms at most: because of it 3 of 100 requests were sent more \
                      than 100 ms after they were due.";
        assert_eq!(reasons, reason);
        // But a candidate that is too slow without that has failed.
        assert_eq!(verdict(&plan("objectives = [\"p50 < 20ms\"]"), &late).0, Verdict::Failed);
    }

    #[test]
    fn one_step_whose_durations_grow_is_enough() {
        let mut growing = measured();
        growing.step_medians_ms.push(("put/put".to_owned(), [None, Some(16_500.0), None, Some(38_500.0)]));
        let (found, reasons) = verdict(&plan(""), &growing);
        assert_eq!(found, Verdict::Degrading);
        let reason = "Durations of put/put grow: the median of the last quarter is 38500.000 ms, that of the second \
                      16500.000 ms.";
        assert_eq!(reasons, reason);
        growing.step_medians_ms[1].1[1] = None;
        assert_eq!(verdict(&plan(""), &growing).0, Verdict::Held, "a quarter without a median shows no growth");
    }

    #[test]
    fn a_backlog_that_grows_is_degrading_unless_the_growth_is_small_or_follows_the_load() {
        let with = |second: Quarter, last: Quarter, due: u64| {
            let mut measured = measured();
            measured.summary.all.due = due;
            measured.quarters = [Quarter::default(), second, Quarter::default(), last];
            verdict(&plan(""), &measured)
        };
        let quarter = |due: u64, backlog: u64| Quarter { due, backlog };
        // Two requests per second: growth by ten is small.
        let (found, reasons) = with(quarter(50, 20), quarter(50, 31), 200);
        assert_eq!(found, Verdict::Degrading);
        let reason = "The backlog grows: 31 requests were under way when the arrivals ended, and 20 after the second \
                      quarter.";
        assert_eq!(reasons, reason);
        assert_eq!(with(quarter(50, 20), quarter(50, 30), 200).0, Verdict::Held);
        assert_eq!(with(quarter(50, 0), quarter(50, 10), 200).0, Verdict::Held);
        assert_eq!(with(quarter(50, 500), quarter(50, 700), 200).0, Verdict::Held, "it stays nearly as it is");
        // A hundred per second: so is what a pause of a second makes.
        assert_eq!(with(quarter(2_500, 0), quarter(2_500, 100), 10_000).0, Verdict::Held);
        assert_eq!(with(quarter(2_500, 0), quarter(2_500, 101), 10_000).0, Verdict::Degrading);
        // A load that doubles has twice as much under way, and one that ends has less.
        assert_eq!(with(quarter(25, 40), quarter(50, 80), 200).0, Verdict::Held);
        assert_eq!(with(quarter(50, 40), quarter(5, 40), 200).0, Verdict::Held);
    }

    #[test]
    fn errors_fail_unless_they_are_tolerated() {
        let mut failing = measured();
        failing.summary.all.failed = 2;
        let kind = "status 500".to_owned();
        failing.summary.errors.push(ErrorTally { kind, step: "get/get".to_owned(), count: 2, first_at_us: 1_500_000 });
        let (found, reasons) = verdict(&plan(""), &failing);
        assert_eq!(found, Verdict::Failed);
        assert_eq!(reasons, "2 of 100 requests ended with \"status 500\", the first in get/get after 1.500 s.");
        assert_eq!(verdict(&plan("tolerated_errors = 0.02"), &failing).0, Verdict::Held);
    }

    #[test]
    fn a_step_most_of_whose_requests_met_a_conflict_fails_whatever_other_steps_did() {
        let met = |conflicts: u64| {
            let of = |step: &str, tally| StepTally { scenario: "update".to_owned(), step: step.to_owned(), tally };
            let read = Tally { due: 90, sent: 90, done: 90, ..Tally::default() };
            let replace = Tally { due: 11, sent: 11, done: 10, conflicts, failed: 1, ..Tally::default() };
            let mut measured = measured();
            measured.summary.steps = vec![of("read", read), of("replace", replace)];
            measured
        };
        for few in [0, 1, 5] {
            assert_eq!(verdict(&plan(""), &met(few)), (Verdict::Held, String::new()), "{few}");
        }
        for (many, of) in [(6, "6 of the 10"), (10, "10 of the 10")] {
            // What is tolerated are errors.
            let (found, reasons) = verdict(&plan("tolerated_errors = 0.99"), &met(many));
            assert_eq!(found, Verdict::Failed);
            let reason = "Most requests of update/replace met a conflict and did nothing:";
            assert_eq!(reasons, format!("{reason} {of} that were answered as the step allows it."));
        }
        // They are named beside errors.
        let mut failing = met(10);
        failing.summary.all.failed = 1;
        let (kind, step) = ("status 500".to_owned(), "update/replace".to_owned());
        failing.summary.errors.push(ErrorTally { kind, step, count: 1, first_at_us: 0 });
        assert_eq!(judge(&plan(""), &failing, Vec::new()).reasons.len(), 2);
    }

    #[test]
    fn an_objective_that_is_missed_fails_with_its_value() {
        let plan = plan("objectives = [\"p99 < 20ms\", \"late share at 90ms <= 10%\", \"rate >= 2\"]");
        let (found, reasons) = verdict(&plan, &measured());
        assert_eq!(found, Verdict::Failed);
        assert!(reasons.contains("p99 < 20ms is not met: it was 99"), "{reasons}");
        assert!(reasons.contains("rate >= 2 is not met: it was 1.0/s"), "{reasons}");
        assert!(!reasons.contains("late share"), "{reasons}");
    }

    #[test]
    fn requests_that_failed_took_for_ever_where_an_objective_is_concerned() {
        let mut failing = measured();
        failing.summary.all.due = 104;
        failing.summary.all.failed = 4;
        let tolerant = "tolerated_errors = 0.05\nobjectives = [\"p95 < 1s\"]";
        assert_eq!(verdict(&plan(tolerant), &failing).0, Verdict::Held);
        let (found, reasons) = verdict(&plan(&tolerant.replace("p95", "p99")), &failing);
        assert_eq!(found, Verdict::Failed);
        assert!(reasons.contains("it was not reached, because too many requests failed"), "{reasons}");
    }

    #[test]
    fn a_mean_with_a_request_that_took_for_ever_is_reached_by_nobody() {
        let tolerant = plan("tolerated_errors = 0.99\nobjectives = [\"mean < 1h\"]");
        assert_eq!(verdict(&tolerant, &measured()).0, Verdict::Held);
        let mut failing = measured();
        (failing.summary.all.due, failing.summary.all.failed) = (101, 1);
        assert_eq!(verdict(&tolerant, &failing).0, Verdict::Failed);
        // Of nothing that was done the mean is 0.
        let mut nothing = measured();
        nothing.response_us.reset();
        nothing.punctual.response_us.reset();
        nothing.summary.all = Tally { due: 100, sent: 100, failed: 100, ..Tally::default() };
        let (found, reasons) = verdict(&tolerant, &nothing);
        assert!(found == Verdict::Failed && reasons.contains("The objective mean < 1h is not met"), "{reasons}");
    }

    #[test]
    fn objectives_that_the_generator_itself_would_miss_are_not_judged() {
        let mut late = measured();
        late.summary.all.lateness = Times { p99_ms: 6.0, max_ms: 20.0, ..Times::default() };
        assert_eq!(verdict(&plan("objectives = [\"p99 < 20ms\"]"), &late).0, Verdict::Void);
        late.summary.all.lateness.p99_ms = 5.0;
        assert_eq!(verdict(&plan("objectives = [\"p99 < 20ms\"]"), &late).0, Verdict::Failed);
    }

    #[test]
    fn a_pause_of_the_generator_that_misses_an_objective_voids_the_run_and_one_of_the_candidate_fails_it() {
        // 1,000 per second for a minute, each answered within 1 ms; once, one side pauses for 90 ms.
        let paused = || of_times_ms(std::iter::repeat_n(1, 59_910).chain(2..=91));
        let mut of_generator = paused();
        of_generator.punctual.response_us = of_times_ms(std::iter::repeat_n(1, 60_000)).response_us;
        of_generator.summary.all.lateness = Times { max_ms: 90.0, ..Times::default() };
        let objectives = ["p99.9 < 20ms", "late share at 20ms < 0.1%", "max < 50ms", "mean < 1ms 50us"];
        for objective in objectives {
            let plan = plan(&format!("objectives = [\"{objective}\"]"));
            let (found, reasons) = verdict(&plan, &of_generator);
            assert!(found == Verdict::Void && reasons.contains("The generator was late, by 90.000 ms"), "{reasons}");
            assert!(reasons.contains(&format!("{objective} is not met")), "{reasons}");
            assert_eq!(verdict(&plan, &paused()).0, Verdict::Failed, "{objective}");
        }
        assert_eq!(verdict(&plan("objectives = [\"p99 < 20ms\"]"), &of_generator), (Verdict::Held, String::new()));
        // What is missed without the pause too is the candidate's, and only this is named.
        let (found, reasons) = verdict(&plan("objectives = [\"max < 50ms\", \"mean < 500us\"]"), &of_generator);
        assert!(found == Verdict::Failed && !reasons.contains("max"), "{reasons}");
    }

    #[test]
    fn an_answer_that_came_while_the_generator_paused_voids_the_run_if_an_objective_is_about_the_greatest_time() {
        // It was sent before the pause, and read after it.
        let mut paused = of_times_ms(std::iter::repeat_n(1, 999).chain([91]));
        paused.summary.all.lateness = Times { max_ms: 89.0, ..Times::default() };
        assert_eq!(verdict(&plan("objectives = [\"max < 50ms\"]"), &paused).0, Verdict::Void);
        paused.summary.all.lateness.max_ms = 20.0;
        assert_eq!(verdict(&plan("objectives = [\"max < 50ms\"]"), &paused).0, Verdict::Failed);
    }

    #[test]
    fn a_rate_that_the_lateness_of_the_generator_moved_behind_the_end_voids_the_run() {
        let mut late = measured();
        late.summary.done_per_s = 0.99;
        let plan = plan("objectives = [\"rate >= 1\"]");
        assert_eq!(verdict(&plan, &late).0, Verdict::Void);
        late.punctual.done_per_s = 0.99;
        assert_eq!(verdict(&plan, &late).0, Verdict::Failed);
        // Lateness at the end of the warm-up makes no rate.
        late.summary.done_per_s = 1.0;
        assert_eq!(verdict(&plan, &late).0, Verdict::Failed);
    }

    #[test]
    fn a_percentile_is_the_time_of_exactly_its_rank() {
        let one_is_slow = of_times_ms(std::iter::repeat_n(1, 999).chain([1_000]));
        assert_eq!(one_is_slow.summary.all.response.p999_ms, 1.0);
        assert_eq!(verdict(&plan("objectives = [\"p99.9 < 20ms\"]"), &one_is_slow), (Verdict::Held, String::new()));
        let two_are_slow = of_times_ms(std::iter::repeat_n(1, 998).chain([1_000; 2]));
        assert_eq!(verdict(&plan("objectives = [\"p99.9 < 20ms\"]"), &two_are_slow).0, Verdict::Failed);
        // The fifteenth of thirty, of which one failed.
        let mut half = of_times_ms(std::iter::repeat_n(1, 15).chain([1_000; 14]));
        (half.summary.all.due, half.summary.all.failed) = (30, 1);
        let tolerant = plan("tolerated_errors = 0.05\nobjectives = [\"p50 < 20ms\"]");
        assert_eq!(verdict(&tolerant, &half), (Verdict::Held, String::new()));
    }

    #[test]
    fn a_late_share_that_is_the_bound_is_not_below_it() {
        let slow = of_times_ms(std::iter::repeat_n(1, 93).chain([1_000; 7]));
        let (found, reasons) = verdict(&plan("objectives = [\"late share at 10ms < 7%\"]"), &slow);
        assert!(found == Verdict::Failed && reasons.contains("10ms < 7% is not met: it was 7.000 %"), "{reasons}");
        assert_eq!(verdict(&plan("objectives = [\"late share at 10ms <= 7%\"]"), &slow).0, Verdict::Held);
    }

    #[test]
    fn a_worker_without_a_free_processor_voids_a_run_that_does_not_hold_and_no_other() {
        let mut full = measured();
        full.summary.worker_cpu_shares = vec![0.2, 0.9];
        assert_eq!(verdict(&plan(""), &full), (Verdict::Held, String::new()));
        let (found, reasons) = verdict(&plan("objectives = [\"rate >= 2\"]"), &full);
        assert_eq!(found, Verdict::Void);
        assert!(reasons.starts_with("Worker 1 used 90 % of a processor: the generator was the limit."), "{reasons}");
        assert!(reasons.contains("rate >= 2 is not met"), "{reasons}");
        full.summary.worker_cpu_shares = vec![0.2, 0.89];
        assert_eq!(verdict(&plan("objectives = [\"rate >= 2\"]"), &full).0, Verdict::Failed);
    }

    #[test]
    fn a_late_generator_or_nothing_due_voids_the_run_whatever_else_happened() {
        let mut late = measured();
        late.summary.all.failed = 7;
        late.summary.all.lateness = Times { max_ms: 100.5, ..Times::default() };
        assert_eq!(verdict(&plan(""), &late).0, Verdict::Void);
        let mut nothing = measured();
        nothing.summary.all = Tally::default();
        assert_eq!(verdict(&plan(""), &nothing).0, Verdict::Void);
        let void = judge(&plan(""), &measured(), vec!["worker 1: it is silent".to_owned()]);
        assert_eq!(void.verdict, Verdict::Void);
    }
}
