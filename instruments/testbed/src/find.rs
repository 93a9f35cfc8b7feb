//! The search for the greatest load that a candidate holds: doubles until it does not, then bisects,
//! then confirms both ends by repeated runs. The answer is a bracket.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arrivals::Shape;
use crate::inputs::Inputs;
use crate::plan::{Plan, PlanError, invalid};
use crate::results::Verdict;

/// Loads beyond these factors of the plan's are not tried: the plan is wrong then.
const FACTORS: std::ops::RangeInclusive<f64> = 1.0 / 4096.0..=4096.0;
/// So many void runs of one load in a row end the search.
const VOID_MAX: usize = 3;
/// A load that some runs do not hold and others do is tried at most so many times as often as it would have
/// to be confirmed. It is not held then, though not in each run.
const TRIES_MAX: usize = 3;
/// A search between ends that are closer would bisect for days.
const RATIO_MIN: f64 = 1.001;
/// The most runs that confirm an end.
const CONFIRMATIONS_MAX: usize = 100;

/// How exactly is searched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// The search ends when the upper end is at most so many times the lower one, or no load lies
    /// between them: 1.001 or more.
    pub ratio: f64,
    /// Each end must be confirmed by so many runs: 1 to 100.
    pub confirmations: usize,
}

impl Precision {
    /// Checks it. `before` is what comes before the names `precision` and `confirmations` where its
    /// author has written them.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] names the value and what to write there.
    pub fn check(&self, before: &str) -> Result<(), PlanError> {
        if !self.ratio.is_finite() || self.ratio < RATIO_MIN {
            let message = format!("a ratio of {RATIO_MIN} or more, for example 1.1");
            return Err(invalid(format!("{before}precision"), message));
        }
        match (1..=CONFIRMATIONS_MAX).contains(&self.confirmations) {
            true => Ok(()),
            false => Err(invalid(format!("{before}confirmations"), format!("1 to {CONFIRMATIONS_MAX}"))),
        }
    }
}

/// One run of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The load, as a factor of the plan's.
    pub factor: f64,
    /// What it showed.
    pub verdict: Verdict,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Run this factor of the plan's load.
    Try(f64),
    /// It is found.
    Found(Bracket),
    /// It cannot be found.
    Ended(WhyEnded),
}

/// The greatest load that is held lies here. Ends are factors of the plan's load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bracket {
    /// It holds this.
    pub held: f64,
    /// It does not hold this, or it is not known whether it does.
    pub not_held: f64,
    /// Which of the two.
    pub above: Above,
}

/// What is known of a load above the one that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Above {
    /// It is not held.
    #[default]
    NotHeld,
    /// Its runs were void again and again: most often the generator cannot make more, or the candidate
    /// takes its processors.
    NotMeasured,
}

/// Why a search ends without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhyEnded {
    /// Runs of one load were void again and again.
    Void,
    /// Not even a small part of the plan's load is held.
    NothingHeld,
    /// Many times the plan's load is still held.
    EverythingHeld,
}

impl fmt::Display for WhyEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Void => "runs are void again and again; the last run's report says why",
            Self::NothingHeld => "not even a small part of the plan's load is held",
            Self::EverythingHeld => "many times the plan's load is still held: begin with more",
        })
    }
}

/// A bracket in rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// What is held, as a factor of the plan's load.
    pub held_factor: f64,
    /// What is not.
    pub not_held_factor: f64,
    /// Users per second that are held.
    pub held_users_per_s: f64,
    /// Users per second that are not.
    pub not_held_users_per_s: f64,
    /// Requests per second that are held.
    pub held_requests_per_s: f64,
    /// Requests per second that are not.
    pub not_held_requests_per_s: f64,
    /// Whether it is known that they are not.
    #[serde(default)]
    pub above: Above,
}

/// A search with the load of a plan.
#[derive(Clone, Debug)]
pub struct PlanSearch {
    search: Search,
    /// The load of the plan, and its workers.
    load: Shape,
    workers: u32,
    requests_per_user: f64,
}

impl PlanSearch {
    /// A search that begins with the load of a plan; `None` for a closed loop, which has no rate.
    pub fn new(plan: &Plan, precision: Precision) -> Option<Self> {
        plan.load.mean_rate(plan.workers)?;
        let (search, load) = (Search::new(precision), plan.load.clone());
        Some(Self { search, load, workers: plan.workers, requests_per_user: 1.0 })
    }

    /// What is next.
    pub fn next(&self) -> Next {
        match self.search.next_made(|factor| self.load.made_factor(factor)) {
            // No plan has so few users, or so many.
            Next::Try(factor) if self.load.scaled(factor).check().is_err() => {
                Next::Ended(if factor < 1.0 { WhyEnded::NothingHeld } else { WhyEnded::EverythingHeld })
            }
            next => next,
        }
    }

    /// How many runs there were.
    pub fn runs(&self) -> usize {
        self.search.trials().len()
    }

    /// Users per second at a factor of the plan's load.
    pub fn users_per_s(&self, factor: f64) -> f64 {
        self.load.scaled(factor).mean_rate(self.workers).unwrap_or_default()
    }

    /// The inputs of the next run, with a seed of its own unless it must be that of the plan.
    pub fn inputs(&self, inputs: &Inputs, factor: f64, is_same_seed: bool) -> Inputs {
        let mut trial = inputs.clone();
        trial.plan.load = inputs.plan.load.scaled(factor);
        if !is_same_seed {
            // After the greatest seed of a plan comes 0.
            trial.plan.seed = (inputs.plan.seed + self.runs() as u64) & i64::MAX as u64;
        }
        trial
    }

    /// Adds what a run has shown, at which so many requests were due per second.
    pub fn add(&mut self, factor: f64, verdict: Verdict, due_per_s: f64) {
        if verdict == Verdict::Held {
            self.requests_per_user = due_per_s / self.users_per_s(factor);
        }
        self.search.add(factor, verdict);
    }

    /// A bracket in rates.
    pub fn rates(&self, bracket: Bracket) -> Rates {
        let [held_users_per_s, not_held_users_per_s] =
            [bracket.held, bracket.not_held].map(|end| self.users_per_s(end));
        Rates {
            held_factor: bracket.held,
            not_held_factor: bracket.not_held,
            held_users_per_s,
            not_held_users_per_s,
            held_requests_per_s: held_users_per_s * self.requests_per_user,
            not_held_requests_per_s: not_held_users_per_s * self.requests_per_user,
            above: bracket.above,
        }
    }
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    precision: Precision,
    trials: Vec<Trial>,
}

impl Search {
    /// A search that begins with the plan's own load.
    pub fn new(precision: Precision) -> Self {
        Self { precision, trials: Vec::new() }
    }

    /// Adds what a run has shown.
    pub fn add(&mut self, factor: f64, verdict: Verdict) {
        self.trials.push(Trial { factor, verdict });
    }

    /// The runs so far.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// What is next.
    pub fn next(&self) -> Next {
        self.next_made(|factor| factor)
    }

    /// What is next, if not every factor makes a load: `made` is the one that is made of another.
    fn next_made(&self, made: impl Fn(f64) -> f64) -> Next {
        if let Some(last) = self.trials.last().filter(|last| last.verdict == Verdict::Void)
            && self.voids(last.factor) < VOID_MAX
        {
            return Next::Try(last.factor);
        }
        // A load at which one run did not hold is not held, whatever other runs showed.
        let not_held = self.factors(|verdict| matches!(verdict, Verdict::Degrading | Verdict::Failed));
        let not_held = not_held.fold(f64::INFINITY, f64::min);
        let held = self.factors(|verdict| verdict == Verdict::Held).filter(|factor| *factor < not_held);
        let held = held.fold(0.0, f64::max);
        let not_measured = self.factors(|verdict| verdict == Verdict::Void);
        let not_measured = not_measured.filter(|factor| *factor > held && self.voids(*factor) >= VOID_MAX);
        let not_measured = not_measured.fold(f64::INFINITY, f64::min);
        // An end that one run did not hold, and that void runs cannot confirm, is not measured either.
        let (end, above) = match not_measured <= not_held {
            true => (not_measured, Above::NotMeasured),
            false => (not_held, Above::NotHeld),
        };
        // Between ends that are neighbours is no load: they are as close as they can be.
        let middle = made((held * end).sqrt());
        let is_wide = end / held > self.precision.ratio && held < middle && middle < end;
        let next = match (held, end) {
            (0.0, f64::INFINITY) => 1.0,
            (0.0, _) if above == Above::NotMeasured => return Next::Ended(WhyEnded::Void),
            (0.0, _) => match made(end / 2.0) {
                less if less < end => less,
                _ => return Next::Ended(WhyEnded::NothingHeld),
            },
            (_, f64::INFINITY) => made(held * 2.0),
            _ if is_wide => middle,
            _ => {
                // Void runs cannot confirm anything.
                let ends = [Some(held), (above == Above::NotHeld).then_some(end)];
                match ends.into_iter().flatten().find(|end| !self.is_confirmed(*end)) {
                    Some(end) if self.voids(end) >= VOID_MAX => return Next::Ended(WhyEnded::Void),
                    Some(end) => end,
                    None => return Next::Found(Bracket { held, not_held: end, above }),
                }
            }
        };
        match FACTORS.contains(&next) {
            true => Next::Try(next),
            false if next < 1.0 => Next::Ended(WhyEnded::NothingHeld),
            false => Next::Ended(WhyEnded::EverythingHeld),
        }
    }

    fn factors(&self, is: impl Fn(Verdict) -> bool) -> impl Iterator<Item = f64> {
        self.trials.iter().filter(move |trial| is(trial.verdict)).map(|trial| trial.factor)
    }

    /// How many runs of a load in a row were void, at the end of its runs.
    fn voids(&self, factor: f64) -> usize {
        let of = self.trials.iter().rev().filter(|trial| trial.factor == factor);
        of.take_while(|trial| trial.verdict == Verdict::Void).count()
    }

    /// Whether an end needs no further run. Runs of an upper end that held do not confirm it: it is an end
    /// because others did not.
    fn is_confirmed(&self, factor: f64) -> bool {
        let [held, not_held] = self.runs(factor);
        let confirming = if not_held > 0 { not_held } else { held };
        let wanted = self.precision.confirmations;
        confirming >= wanted || held + not_held >= TRIES_MAX * wanted
    }

    /// How many runs of a load held, and how many did not. Void runs say nothing.
    fn runs(&self, factor: f64) -> [usize; 2] {
        let of = self.trials.iter().filter(|trial| trial.factor == factor && trial.verdict != Verdict::Void);
        of.fold([0, 0], |[held, not_held], trial| match trial.verdict {
            Verdict::Held => [held + 1, not_held],
            _ => [held, not_held + 1],
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;

    const PRECISION: Precision = Precision { ratio: 1.1, confirmations: 3 };

    /// A plan with a load, and what else its runs need.
    fn inputs(load: &str) -> Inputs {
        let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\nseed = 9223372036854775807\n";
        let plan = Plan::parse(&format!("{plan}load = {{ {load}, duration = \"10s\" }}\n")).unwrap();
        Inputs::of_plan(plan, Path::new("")).unwrap()
    }

    /// Searches with a candidate that behaves like this.
    fn search(mut candidate: impl FnMut(f64) -> Verdict) -> (Search, Next) {
        let mut search = Search::new(PRECISION);
        loop {
            match search.next() {
                Next::Try(factor) => search.add(factor, candidate(factor)),
                next => return (search, next),
            }
            assert!(search.trials().len() < 200, "it does not end");
        }
    }

    #[test]
    fn the_bracket_has_the_limit_in_it_and_is_as_narrow_as_wanted() {
        for limit in [0.003, 0.4, 0.99, 1.0, 1.01, 7.3, 3_000.0] {
            let (search, next) = search(|factor| if factor <= limit { Verdict::Held } else { Verdict::Failed });
            let Next::Found(Bracket { held, not_held, above: Above::NotHeld }) = next else {
                panic!("{limit}: {next:?}")
            };
            assert!(held <= limit && limit < not_held && not_held / held <= 1.1, "{limit}: {held} to {not_held}");
            assert!(search.runs(held)[0] >= 3 && search.runs(not_held)[1] >= 3);
        }
    }

    #[test]
    fn an_end_that_does_not_hold_when_it_is_confirmed_is_no_end() {
        // The first run of each load between 4 and 5 is lucky.
        let mut seen = std::collections::BTreeSet::new();
        let (_, next) = search(|factor| match factor {
            ..4.0 => Verdict::Held,
            ..5.0 if seen.insert(factor.to_bits()) => Verdict::Held,
            _ => Verdict::Degrading,
        });
        let Next::Found(Bracket { held, not_held, .. }) = next else { panic!("{next:?}") };
        assert!(held < 4.0 && not_held <= held * 1.1, "{held} to {not_held}");
    }

    #[test]
    fn runs_that_held_do_not_confirm_an_end_that_another_run_did_not_hold() {
        let mut search = Search::new(PRECISION);
        (0..3).for_each(|_| search.add(1.0, Verdict::Held));
        for verdict in [Verdict::Failed, Verdict::Held, Verdict::Held] {
            search.add(1.05, verdict);
        }
        assert_eq!(search.next(), Next::Try(1.05));
        search.add(1.05, Verdict::Degrading);
        assert_eq!(search.next(), Next::Try(1.05));
        let mut unsteady = search.clone();
        search.add(1.05, Verdict::Failed);
        let found = Next::Found(Bracket { held: 1.0, not_held: 1.05, above: Above::NotHeld });
        assert_eq!(search.next(), found);
        // It is not tried for ever.
        let tries = (0..10).take_while(|_| {
            let is_tried = unsteady.next() == Next::Try(1.05);
            unsteady.add(1.05, Verdict::Held);
            is_tried
        });
        assert_eq!(tries.count(), 5, "nine in all");
        assert_eq!(unsteady.next(), found);
    }

    #[test]
    fn a_search_without_an_answer_ends_and_says_why() {
        assert_eq!(search(|_| Verdict::Void).1, Next::Ended(WhyEnded::Void));
        assert_eq!(search(|_| Verdict::Failed).1, Next::Ended(WhyEnded::NothingHeld));
        assert_eq!(search(|_| Verdict::Held).1, Next::Ended(WhyEnded::EverythingHeld));
    }

    #[test]
    fn a_load_of_less_than_a_user_ends_a_search_like_one_that_holds_nothing_and_seeds_stay_seeds() {
        // Half a user is no other load than one.
        for (load, runs) in [
            ("shape = \"even\", users_per_worker = 1", 1),
            ("shape = \"even\", users_per_worker = 5", 4),
            ("shape = \"constant\", rate = 0.003", 2),
        ] {
            let inputs = inputs(load);
            let mut search = PlanSearch::new(&inputs.plan, PRECISION).unwrap();
            let end = loop {
                match search.next() {
                    Next::Try(factor) => {
                        let trial = search.inputs(&inputs, factor, false);
                        assert!(trial.plan.validate().is_ok() && search.users_per_s(factor) > 0.0, "{load}: {factor}");
                        search.add(factor, Verdict::Failed, 0.0);
                    }
                    next => break next,
                }
            };
            assert_eq!((end, search.runs()), (Next::Ended(WhyEnded::NothingHeld), runs), "{load}");
        }
    }

    #[test]
    fn a_load_of_whole_users_is_one_load_and_the_search_ends_at_neighbours() {
        let inputs = inputs("shape = \"even\", users_per_worker = 10");
        let mut search = PlanSearch::new(&inputs.plan, Precision { ratio: 1.05, confirmations: 3 }).unwrap();
        let mut tried = Vec::new();
        let found = loop {
            let factor = match search.next() {
                Next::Try(factor) => factor,
                next => break next,
            };
            let Shape::Even { users_per_worker: users, .. } = search.inputs(&inputs, factor, true).plan.load else {
                panic!("another shape")
            };
            tried.push(users);
            // Every second run of 15 users holds, and the first does not.
            let runs = tried.iter().filter(|tried| **tried == users).count();
            let is_held = users < 15 || (users == 15 && runs.is_multiple_of(2));
            search.add(factor, if is_held { Verdict::Held } else { Verdict::Failed }, 1.0);
            assert!(tried.len() < 50, "it does not end: {tried:?}");
        };
        assert_eq!(found, Next::Found(Bracket { held: 1.4, not_held: 1.5, above: Above::NotHeld }), "{tried:?}");
        assert_eq!(tried, [10, 20, 14, 17, 15, 14, 14, 15, 15, 15, 15]);
    }

    #[test]
    fn a_load_whose_runs_are_void_again_and_again_is_an_end_that_was_not_measured() {
        let (search, next) = search(|factor| if factor <= 7.3 { Verdict::Held } else { Verdict::Void });
        let Next::Found(Bracket { held, not_held, above: Above::NotMeasured }) = next else { panic!("{next:?}") };
        assert!(held <= 7.3 && 7.3 < not_held && not_held / held <= 1.1, "{held} to {not_held}");
        assert_eq!((search.runs(held), search.runs(not_held), search.voids(not_held)), ([3, 0], [0, 0], 3));
    }

    #[test]
    fn an_end_whose_confirming_runs_are_void_again_and_again_is_not_tried_for_ever() {
        let tried = |search: &mut Search, factor: f64| {
            for _ in 0..VOID_MAX {
                assert_eq!(search.next(), Next::Try(factor));
                search.add(factor, Verdict::Void);
            }
            search.next()
        };
        let mut of_held = Search::new(PRECISION);
        of_held.add(1.0, Verdict::Held);
        of_held.add(1.05, Verdict::Failed);
        let mut of_not_held = of_held.clone();
        assert_eq!(tried(&mut of_held, 1.0), Next::Ended(WhyEnded::Void));
        (0..2).for_each(|_| of_not_held.add(1.0, Verdict::Held));
        let found = Bracket { held: 1.0, not_held: 1.05, above: Above::NotMeasured };
        assert_eq!(tried(&mut of_not_held, 1.05), Next::Found(found));
    }

    #[test]
    fn a_void_run_is_made_again() {
        let mut is_void = true;
        let (search, next) = search(|factor| {
            is_void = !is_void;
            match (is_void, factor <= 3.0) {
                (true, _) => Verdict::Void,
                (_, true) => Verdict::Held,
                _ => Verdict::Failed,
            }
        });
        assert!(matches!(next, Next::Found(_)), "{next:?}");
        assert!(search.trials().iter().any(|trial| trial.verdict == Verdict::Void));
    }
}
