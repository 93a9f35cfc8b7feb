//! All runs of a study, one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

use crate::analysis;
use crate::closed;
use crate::defaults;
use crate::design::Design;
use crate::line::Line;
use crate::plan::Plan;
use crate::recommend;
use crate::rig::{Rig, RigError};
use crate::run;
use crate::schedule::{self, Planned};
use crate::search::{self, Proposal};
use crate::study::{OpenStudy, StudyError};
use crate::union;

/// A run that is void is made again until it has been made so often.
pub const ATTEMPTS_MAX: u32 = 3;

/// What the first estimate of a run takes besides its load, in seconds; and of a restart.
const BESIDE_LOAD_S: f64 = 6.0;
const RESTART_S: f64 = 12.0;

/// Records per second that the first estimate of a prefill expects.
const PREFILL_PER_S: f64 = 5_000.0;

/// How far a study is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// Runs that are done.
    pub done: usize,
    /// Runs that are known so far. A union, rounds of a Bayesian design, and what is measured afresh,
    /// follow only from the results of others.
    pub all: usize,
    /// How long the others take, by what those before took.
    pub left: Duration,
    /// The run that begins; `None` in the end.
    pub next: Option<&'a Planned>,
    /// The run that has ended.
    pub last: Option<&'a Line>,
}

/// Why a study ended before its end. It can be resumed.
#[derive(Debug, Error)]
pub enum ExecuteError {
    /// Nothing can be measured.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// The study cannot be written.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// What is measured has changed since the study began.
    #[error("the study was begun on something else: {}", .0.join("; "))]
    OtherFacts(Vec<String>),
    /// The study has a run that its plan does not have.
    #[error("the study was begun with another plan: run {0} is none of this one")]
    OtherPlan(u32),
}

/// All runs of a plan that are known with these results.
pub fn known_runs(plan: &Plan, lines: &[Line]) -> Vec<Planned> {
    let mut known = Known::first(plan);
    known.extend(plan, lines);
    known.runs
}

/// The runs that are known so far, and what follows once they are done.
struct Known {
    runs: Vec<Planned>,
    next: Next,
}

enum Next {
    Union,
    /// A round of a Bayesian design, from 1.
    Round(u32),
    Fresh,
    Nothing,
}

impl Known {
    fn first(plan: &Plan) -> Self {
        Self { runs: schedule::first_stage(plan), next: Next::Union }
    }

    /// Adds what follows from the results, as far as these are there.
    fn extend(&mut self, plan: &Plan, lines: &[Line]) {
        let done = done(lines);
        while self.runs.iter().all(|planned| is_done(planned, &done)) {
            let made = self.runs.len() as u32;
            let (runs, next) = match self.next {
                Next::Union => {
                    let unions = union::unions(plan, lines);
                    (schedule::second_stage(plan, &unions, made + 1), Next::Round(1))
                }
                Next::Round(number) => match round(plan, lines, number, made) {
                    none if none.is_empty() => (none, Next::Fresh),
                    round => (round, Next::Round(number + 1)),
                },
                Next::Fresh if plan.confirm > 0 => {
                    let selected = recommend::selected(plan, &analysis::analyse(plan, &before(lines, made)));
                    (schedule::fresh_stage(plan, &selected, made + 1), Next::Nothing)
                }
                Next::Fresh | Next::Nothing => return,
            };
            self.runs.extend(runs);
            self.next = next;
        }
    }
}

/// The known runs that are not done.
pub fn runs_left(plan: &Plan, lines: &[Line]) -> Vec<Planned> {
    let done = done(lines);
    known_runs(plan, lines).into_iter().filter(|planned| !is_done(planned, &done)).collect()
}

/// The next round of a Bayesian design, from 1, after so many runs; none if it would take longer than
/// the budget. It follows from these runs alone, so a study that is resumed goes on with it.
fn round(plan: &Plan, lines: &[Line], number: u32, runs: u32) -> Vec<Planned> {
    let Design::Bayesian { budget, .. } = plan.design else { return Vec::new() };
    let lines = before(lines, runs);
    let proposed: Vec<_> = search::proposals(plan, &lines, number)
        .into_iter()
        .map(|proposal| (proposal.setting, proposal.workload))
        .collect();
    let round = schedule::round(plan, &proposed, number, runs + 1);
    // A simulated node takes no time: its loads count as if they did.
    let spent_s: f64 = lines.iter().map(|line| line.took_s.max(made_s(plan, line))).sum();
    let loads_s: f64 = round.iter().map(|planned| load_s(plan, planned)).sum();
    let takes_s = time(plan, round.iter(), &lines).as_secs_f64().max(loads_s);
    if spent_s + takes_s > budget.as_secs_f64() { Vec::new() } else { round }
}

/// The settings of all rounds that were begun, each with what was expected of it, and its round.
pub fn rounds(plan: &Plan, lines: &[Line]) -> Vec<(u32, Proposal)> {
    let mut runs = schedule::first_stage(plan).len() as u32;
    let last = lines.iter().map(|line| line.planned.number).max().unwrap_or_default();
    let mut all = Vec::new();
    for number in 1.. {
        let made = if runs < last { round(plan, lines, number, runs) } else { Vec::new() };
        if made.is_empty() {
            break;
        }
        let proposed = search::proposals(plan, &before(lines, runs), number);
        all.extend(proposed.into_iter().map(|proposal| (number, proposal)));
        runs += made.len() as u32;
    }
    all
}

/// The lines of the first runs.
fn before(lines: &[Line], runs: u32) -> Vec<Line> {
    lines.iter().filter(|line| line.planned.number <= runs).cloned().collect()
}

/// By number, the runs that count, or were made so often that they never will.
pub(crate) fn done(lines: &[Line]) -> BTreeMap<u32, &Planned> {
    let done = lines.iter().filter(|line| line.is_valid() || line.attempt >= ATTEMPTS_MAX);
    done.map(|line| (line.planned.number, &line.planned)).collect()
}

fn is_done(planned: &Planned, done: &BTreeMap<u32, &Planned>) -> bool {
    done.get(&planned.number) == Some(&planned)
}

/// A run that was made, and is none of those that are known.
fn stranger(known: &[Planned], lines: &[Line]) -> Option<u32> {
    let known: BTreeMap<_, _> = known.iter().map(|planned| (planned.number, planned)).collect();
    let numbers = lines.iter().map(|line| (line.planned.number, &line.planned));
    numbers.filter(|(number, planned)| known.get(number) != Some(planned)).map(|(number, _)| number).next()
}

/// Makes all runs that are not done.
///
/// # Errors
/// Nothing can be measured, or kept. What is finished stays.
pub async fn execute<R: Rig + ?Sized>(
    study: &mut OpenStudy,
    rig: &mut R,
    mut on_progress: impl FnMut(Progress<'_>) + Send,
) -> Result<(), ExecuteError> {
    // Before the node starts, which takes a while.
    study.can_go_on()?;
    let differs = study.set_facts(&rig.facts().await?)?;
    if !differs.is_empty() {
        let all = differs.into_iter().map(|(fact, before, now)| format!("{fact} was {before}, is {now}"));
        return Err(ExecuteError::OtherFacts(all.collect()));
    }
    let plan = study.study().plan().clone();
    let mut known = Known::first(&plan);
    known.extend(&plan, study.study().lines());
    if let Some(number) = stranger(&known.runs, study.study().lines()) {
        return Err(ExecuteError::OtherPlan(number));
    }
    loop {
        let lines = study.study().lines();
        known.extend(&plan, lines);
        let (all, done) = (&known.runs, done(lines));
        let left: Vec<_> = all.iter().filter(|planned| !is_done(planned, &done)).collect();
        let progress = Progress {
            done: all.len() - left.len(),
            all: all.len(),
            left: time(&plan, left.iter().copied(), lines),
            next: left.first().copied(),
            last: lines.last(),
        };
        on_progress(progress);
        let Some(next) = left.first() else { return Ok(()) };
        let attempts = lines.iter().filter(|line| line.planned.number == next.number).map(|line| line.attempt);
        let attempt = attempts.max().unwrap_or(0) + 1;
        let folder = study.run_folder(next.number, attempt)?;
        let (defaults, made) = (defaults::beside(&plan, &next.setting, lines), closed::with_found(&plan, lines));
        let line = run::make(rig, &made, next, attempt, &defaults, &folder).await?;
        study.add(line)?;
    }
}

/// How long the loads of a run take, in seconds.
fn load_s(plan: &Plan, run: &Planned) -> f64 {
    plan.workload(&run.workload).map_or(0.0, |workload| workload.time().as_secs_f64() * workload.loads().0)
}

/// Whether the load of a run was made to its end. A node that did not start has made none.
fn was_loaded(line: &Line) -> bool {
    !line.metrics.is_empty()
}

/// How long the loads of a run took, in seconds, if they were made.
fn made_s(plan: &Plan, line: &Line) -> f64 {
    if was_loaded(line) { load_s(plan, &line.planned) } else { 0.0 }
}

/// How long runs take: as those before took besides their loads, or else as estimated. A run before
/// them without a load says nothing of that.
pub fn time<'a>(plan: &Plan, runs: impl Iterator<Item = &'a Planned>, lines: &[Line]) -> Duration {
    let runs: Vec<_> = runs.cloned().collect();
    let loads_s: f64 = runs.iter().map(|run| load_s(plan, run)).sum();
    let loaded = lines.iter().filter(|line| was_loaded(line));
    let beside: Vec<_> = loaded.map(|line| line.took_s - load_s(plan, &line.planned)).collect();
    let beside_s = if beside.is_empty() {
        let each = BESIDE_LOAD_S + plan.data.records as f64 / PREFILL_PER_S;
        runs.len() as f64 * each + schedule::restarts(plan, &runs) as f64 * RESTART_S
    } else {
        beside.iter().sum::<f64>() / beside.len() as f64 * runs.len() as f64
    };
    Duration::try_from_secs_f64((loads_s + beside_s).max(0.0)).unwrap_or_default()
}
