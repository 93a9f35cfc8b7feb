//! A Bayesian design: which settings are measured next, by what was measured before (Jones, Schonlau
//! and Welch, Efficient Global Optimization of Expensive Black-Box Functions, 1998; several at once as
//! in Ginsbourger, Le Riche and Carraro, Kriging Is Well-Suited to Parallelize Optimization, 2010).

use std::collections::BTreeSet;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::analysis::{Table, analyse};
use crate::design::surrogate::{Expected, Measured, Surrogate};
use crate::design::{self, Design};
use crate::factor::{Factor, Setting};
use crate::line::Line;
use crate::metric;
use crate::plan::{Bound, Plan};

/// The most settings among which the next one is chosen. Of more combinations, some are drawn.
const CANDIDATES_MAX: usize = 2_048;

/// Where only some combinations are drawn, so many of them differ from the best one by one factor.
const NEIGHBOURS: usize = 512;

/// A setting that is to be measured, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proposal {
    /// The workload.
    pub workload: String,
    /// The setting.
    pub setting: Setting,
    /// The change of the objective that is expected: a share of the default, or in the unit of the
    /// metric, as in the tables.
    pub expected: f64,
    /// The probability that it keeps the bound; `None` without one.
    pub keeps_bound: Option<f64>,
}

/// The settings of the next round, for each workload under which settings are compared. None if the
/// design has no rounds, or everything was measured.
pub fn proposals(plan: &Plan, lines: &[Line], round: u32) -> Vec<Proposal> {
    let Design::Bayesian { batch, .. } = &plan.design else { return Vec::new() };
    let tables = analyse(plan, lines).tables;
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    random.set_stream(u64::from(round) << 8);
    let workloads = plan.compared_workloads().into_iter();
    let of_workload = |workload: &crate::workload::Workload| {
        let tried = lines.iter().map(|line| &line.planned).filter(|planned| planned.workload == workload.name);
        let tried: BTreeSet<_> = tried.map(|planned| &planned.setting).collect();
        for_workload(plan, &tables, (workload.name.as_str(), &tried), *batch, &mut random)
    };
    workloads.flat_map(of_workload).collect()
}

/// Proposals for one workload, under which some settings were tried already. One of these of which no
/// run counts does not run, and would not the next time either. A setting that is proposed counts as
/// measured with what is expected of it, so that the next one is chosen elsewhere.
fn for_workload(
    plan: &Plan,
    tables: &[Table],
    (workload, tried): (&str, &BTreeSet<&Setting>),
    batch: u32,
    random: &mut ChaCha8Rng,
) -> Vec<Proposal> {
    let of = |metric: &str| tables.iter().find(|table| table.metric == metric && table.workload == workload);
    let Some(mut objective) = of(&plan.objective).and_then(|table| Known::objective(plan, table)) else {
        return Vec::new();
    };
    let of_bound = plan.bound.as_ref().and_then(|bound| Some((bound, of(&bound.metric)?)));
    let mut bound = of_bound.and_then(|(bound, table)| Known::bound(plan, table, bound));
    let candidates = candidates(&plan.factors, objective.best(), random);
    let mut found = Vec::new();
    for _ in 0..batch {
        let is_open = |setting: &&Setting| !objective.has(setting) && !tried.contains(*setting);
        let open: Vec<_> = candidates.iter().filter(is_open).cloned().collect();
        let Some((setting, expected, keeps)) = best(&objective, bound.as_ref(), &open) else { break };
        found.push(Proposal {
            workload: workload.to_owned(),
            setting: setting.clone(),
            expected: objective.shown(expected.mean),
            keeps_bound: bound.is_some().then_some(keeps),
        });
        let of_bound = bound.as_ref().and_then(|known| known.expected(std::slice::from_ref(&setting)).pop());
        if objective.believe(setting.clone(), expected.mean).is_none() {
            break;
        }
        if let Some((known, expected)) = bound.as_mut().zip(of_bound) {
            // It was fitted before, so it can be again.
            let _ = known.believe(setting, expected.mean);
        }
    }
    found
}

/// The setting that is expected to improve most on the best of those that keep the bound. If none
/// keeps it, the one that probably does.
fn best(objective: &Known<'_>, bound: Option<&Known<'_>>, open: &[Setting]) -> Option<(Setting, Expected, f64)> {
    let kept = |settings: &[Setting]| match bound {
        Some(bound) => bound.expected(settings).into_iter().map(|expected| expected.at_most(bound.max)).collect(),
        None => vec![1.0; settings.len()],
    };
    let measured: Vec<_> = objective.measured.iter().map(|one| one.setting.clone()).collect();
    let expected = objective.expected(&measured).into_iter().zip(kept(&measured));
    let good = expected.filter(|(_, keeps)| *keeps >= 0.5).map(|(expected, _)| expected.mean);
    let least = good.fold(f64::INFINITY, f64::min);
    let worth = |expected: Expected, keeps: f64| match least.is_finite() {
        true => expected.improvement(least) * keeps,
        false => keeps,
    };
    let all = open.iter().zip(objective.expected(open)).zip(kept(open));
    let (_, (setting, expected, keeps)) = all
        .map(|((setting, expected), keeps)| (worth(expected, keeps), (setting, expected, keeps)))
        .reduce(|best, other| if other.0 > best.0 { other } else { best })?;
    Some((setting.clone(), expected, keeps))
}

/// What is known of a metric under a workload. Less of it is better.
struct Known<'a> {
    measured: Vec<Measured>,
    /// The standard error of the means.
    error: f64,
    surrogate: Surrogate<'a>,
    /// The most that keeps the bound.
    max: f64,
    /// Of the objective: how a difference is shown.
    scale: Option<(crate::stats::Scale, f64)>,
}

impl<'a> Known<'a> {
    /// The objective: differences to the default on its scale.
    fn objective(plan: &'a Plan, table: &Table) -> Option<Self> {
        let sign = if metric::find(&table.metric)?.is_less_better { 1.0 } else { -1.0 };
        let mut measured = vec![Measured { setting: Setting::default(), mean: 0.0 }];
        let differences: Vec<_> =
            table.rows.iter().filter_map(|row| Some((&row.setting, row.difference.as_ref()?))).collect();
        measured.extend(differences.iter().map(|(setting, difference)| Measured {
            setting: (*setting).clone(),
            mean: sign * difference.sample.mean,
        }));
        let scale = differences.first().map(|(_, difference)| (difference.scale, sign));
        let errors = differences.iter().filter_map(|(_, difference)| difference.sample.error).collect();
        Self::of(&plan.factors, measured, middle(errors), f64::INFINITY, scale)
    }

    /// The metric of the bound: means in its unit.
    fn bound(plan: &'a Plan, table: &Table, bound: &Bound) -> Option<Self> {
        let of = |row: &crate::analysis::Row| Measured { setting: row.setting.clone(), mean: row.summary.mean };
        let errors = table.rows.iter().filter_map(|row| {
            let count = row.summary.values.len() as f64;
            row.summary.sd.map(|sd| sd / count.sqrt())
        });
        let errors = middle(errors.collect());
        Self::of(&plan.factors, table.rows.iter().map(of).collect(), errors, bound.max, None)
    }

    fn of(
        factors: &'a [Factor],
        measured: Vec<Measured>,
        error: f64,
        max: f64,
        scale: Option<(crate::stats::Scale, f64)>,
    ) -> Option<Self> {
        let surrogate = Surrogate::of(factors, &measured, error)?;
        Some(Self { measured, error, surrogate, max, scale })
    }

    fn expected(&self, settings: &[Setting]) -> Vec<Expected> {
        self.surrogate.expected(settings)
    }

    fn has(&self, setting: &Setting) -> bool {
        self.measured.iter().any(|one| &one.setting == setting)
    }

    /// The setting that is expected to be the best of those that were measured.
    fn best(&self) -> &Setting {
        let settings: Vec<_> = self.measured.iter().map(|one| one.setting.clone()).collect();
        let expected = self.expected(&settings);
        let at = (0..expected.len()).min_by(|one, other| expected[*one].mean.total_cmp(&expected[*other].mean));
        // The default was measured.
        &self.measured[at.unwrap_or_default()].setting
    }

    /// Takes what is expected as measured.
    fn believe(&mut self, setting: Setting, mean: f64) -> Option<()> {
        self.measured.push(Measured { setting, mean });
        self.surrogate = self.surrogate.again(&self.measured, self.error)?;
        Some(())
    }

    /// A difference for people.
    fn shown(&self, mean: f64) -> f64 {
        self.scale.map_or(mean, |(scale, sign)| scale.shown(sign * mean))
    }
}

/// The middle one of standard errors; 0 if none is known.
fn middle(mut errors: Vec<f64>) -> f64 {
    errors.sort_by(f64::total_cmp);
    errors.get(errors.len() / 2).copied().unwrap_or_default()
}

/// The combinations among which the next setting is chosen, in an order that follows from the seed.
fn candidates(factors: &[Factor], best: &Setting, random: &mut ChaCha8Rng) -> Vec<Setting> {
    let count = factors.iter().try_fold(1_usize, |count, factor| count.checked_mul(factor.values.len() + 1));
    if count.is_some_and(|count| count <= CANDIDATES_MAX) {
        return design::grid(factors);
    }
    let level = |factor: &Factor, random: &mut ChaCha8Rng| {
        let level = factor.levels().choose(random).copied().flatten().map(str::to_owned);
        (factor.name.clone(), level)
    };
    let mut all: Vec<Setting> = Vec::with_capacity(CANDIDATES_MAX);
    for number in 0..CANDIDATES_MAX {
        let mut setting = if number < NEIGHBOURS { best.clone() } else { Setting::default() };
        let changed = if number < NEIGHBOURS {
            let at = random.random_range(0..factors.len());
            &factors[at..=at]
        } else {
            factors
        };
        for factor in changed {
            match level(factor, random) {
                (name, Some(value)) => setting.0.insert(name, value),
                (name, None) => setting.0.remove(&name),
            };
        }
        all.push(setting);
    }
    all.sort();
    all.dedup();
    all
}
