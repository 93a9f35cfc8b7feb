//! The recommendation: what to change, what it gains, how sure that is, and the way back.

use serde::Serialize;

use crate::analysis::{Analysis, Fresh, Row, Table};
use crate::caveats;
use crate::change::Change;
use crate::execute;
use crate::factor::Setting;
use crate::line::Line;
use crate::metric::{self, Metric};
use crate::plan::{Bound, Plan};
use crate::schedule::FRESH;
use crate::stats::{self, Difference, Drift, Scale, Test};

/// At most this probability is a difference.
pub const P_MAX: f64 = 0.05;

/// A setting that loses more operations than the default, by more than this share of all, is not
/// recommended. One that is lost among some thousands is chance.
const FAILED_MORE_MAX: f64 = 0.001;

/// What is recommended for a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Recommendation {
    /// The workload.
    pub workload: String,
    /// Its operations per second; those that are expected, if it is a closed loop. `None`: its runs
    /// look for the highest rate, and each has found its own.
    pub rate: Option<f64>,
    /// The metric that is to improve.
    pub objective: String,
    /// What was found.
    pub finding: Finding,
    /// What else should be known: runs that do not count, operations that were lost, a load that was
    /// late.
    pub caveats: Vec<String>,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "found")]
pub enum Finding {
    /// No setting is better than the default, as far as can be seen.
    NoDifference {
        /// What would have been found; `None` where nothing is known of the error.
        visible: Option<Visible>,
        /// Effects and interactions that are sure all the same.
        effects: Vec<String>,
    },
    /// Settings are better for sure, and may not be recommended: they do not keep the bound, or lose more
    /// operations than the default. The caveats say which does what.
    NotAllowed {
        /// The settings with their gains, the best first.
        better: Vec<(Setting, Gain)>,
    },
    /// The default itself changed while it was measured: differences say nothing.
    Drift(Drift),
    /// A setting was better when it was selected, and not for sure when it was measured afresh; or not
    /// all of its fresh runs are made.
    NotConfirmed {
        /// The setting.
        setting: Setting,
        /// Its gain when it was selected.
        selected: Gain,
        /// Its gain in the fresh runs; `None` if none of them can be compared, or they are not made yet.
        fresh: Option<Gain>,
        /// Fresh runs that were made, void ones too.
        made: usize,
        /// Fresh runs of it and of the default that are still to be made. A decision by a part of them
        /// would be wrong more often.
        left: usize,
        /// What would have been found.
        visible: Option<Visible>,
    },
    /// A setting was better, and lost more operations than the default when it was measured afresh.
    LosesOperations {
        /// The setting.
        setting: Setting,
        /// The shares that were not done: with the default, and with the setting.
        shares: (f64, f64),
    },
    /// A setting was better, and did not keep the bound when it was measured afresh.
    OverBound {
        /// The setting.
        setting: Setting,
        /// The metric of the bound.
        metric: String,
        /// Its mean in the fresh runs; `None` if none of them has it.
        mean: Option<f64>,
        /// The most that it may be.
        max: f64,
    },
    /// Nothing was measured that can be compared.
    Nothing,
    /// The load was a closed loop, and its figures are mostly the number of threads.
    ClosedLoop,
    /// A setting is better.
    Better(Box<Change>),
}

/// A true difference that four of five such studies would find and confirm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Visible {
    /// In what it is measured.
    pub scale: Scale,
    /// The difference: a share of the default, or in the unit of the metric, as the scale says.
    pub change: f64,
}

/// How much better a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// In what it is measured.
    pub scale: Scale,
    /// The mean change of the objective: a share of the default (−0.2 is a fifth less), or in the unit
    /// of the metric, as the scale says.
    pub change: f64,
    /// Its interval, so wide that those of all comparisons hold together with 95 %.
    pub interval: Option<(f64, f64)>,
    /// The probability of such a difference where there is none, corrected for all comparisons.
    pub p: Option<f64>,
    /// Among how many comparisons it was found.
    pub comparisons: usize,
    /// Blocks that have both the setting and the default.
    pub blocks: usize,
}

impl Gain {
    fn of(difference: &Difference, comparisons: usize) -> Self {
        let Difference { scale, change, p_corrected: p, blocks, .. } = *difference;
        Self { scale, change, interval: difference.interval_among(comparisons), p, comparisons, blocks }
    }
}

/// Recommends for each workload what is best for the objective, if that is better than the default.
pub fn recommend(plan: &Plan, lines: &[Line], analysis: &Analysis) -> Vec<Recommendation> {
    let Some(objective) = metric::find(&plan.objective) else { return Vec::new() };
    let for_workload = |workload: &crate::workload::Workload| {
        let is_it = |table: &&Table| table.metric == objective.name && table.workload == workload.name;
        let table = analysis.tables.iter().find(is_it);
        let finding = match table {
            _ if workload.closed.is_some() => Finding::ClosedLoop,
            None => Finding::Nothing,
            Some(table) => finding(plan, lines, analysis, table, objective),
        };
        let mut caveats = caveats::caveats(lines, &workload.name, table, objective);
        // Of these, no difference says anything.
        if !matches!(finding, Finding::ClosedLoop | Finding::Drift(_)) {
            let better = table.into_iter().flat_map(|table| better(table, objective).map(move |found| (table, found)));
            let tables = &analysis.tables;
            caveats.extend(
                better.filter_map(|(table, found)| caveats::over_bound(plan.bound.as_ref()?, tables, table, found)),
            );
        }
        Recommendation {
            workload: workload.name.clone(),
            rate: workload.hold.is_none().then_some(workload.rate),
            objective: objective.name.to_owned(),
            finding,
            caveats,
        }
    };
    plan.workloads.iter().map(for_workload).collect()
}

fn finding(plan: &Plan, lines: &[Line], analysis: &Analysis, table: &Table, objective: &Metric) -> Finding {
    if table.rows.iter().all(|row| row.difference.is_none()) {
        return Finding::Nothing;
    }
    if let Some(drift) = drifting(analysis, objective) {
        return Finding::Drift(drift.clone());
    }
    let visible = visible(plan, analysis, table, objective);
    let Some((chosen, difference)) = chosen(plan, &analysis.tables, table, objective) else {
        let better = better(table, objective).filter(|(row, _)| !is_allowed(plan, &analysis.tables, table, row));
        let gained = |(row, difference): (&Row, &Difference)| {
            (row.setting.clone(), Gain::of(difference, comparisons(analysis, objective)))
        };
        let better: Vec<_> = better.map(gained).collect();
        return match better.is_empty() {
            true => Finding::NoDifference { visible, effects: effects(table) },
            false => Finding::NotAllowed { better },
        };
    };
    let setting = chosen.setting.clone();
    let selected = Gain::of(difference, comparisons(analysis, objective));
    if plan.confirm == 0 {
        return Finding::Better(Box::new(Change::of(plan, lines, analysis, setting, (selected, None))));
    }
    let again =
        |fresh: &&Fresh| (&fresh.metric, &fresh.workload, &fresh.setting) == (&table.metric, &table.workload, &setting);
    let again = analysis.fresh.iter().find(again);
    let count = analysis.fresh.iter().filter(|fresh| fresh.metric == objective.name).count();
    let fresh = again.map(|fresh| Gain::of(&fresh.difference, count));
    let is_confirmed = |fresh: &Gain| is_sure(fresh.p) && is_better(fresh.change, objective);
    let left = fresh_left(plan, lines, &table.workload, &setting);
    if left > 0 || !fresh.as_ref().is_some_and(is_confirmed) {
        let is_fresh = |line: &&Line| line.planned.stage == FRESH && line.planned.workload == table.workload;
        let made = lines.iter().filter(is_fresh).filter(|line| line.planned.setting == setting).count();
        return Finding::NotConfirmed { setting, selected, fresh, made, left, visible };
    }
    if let Some(shares) = again.map(|fresh| fresh.failed_shares).filter(|shares| loses_more(*shares)) {
        return Finding::LosesOperations { setting, shares };
    }
    if let Some(over) = over_bound(plan, lines, &table.workload, &setting) {
        return over;
    }
    Finding::Better(Box::new(Change::of(plan, lines, analysis, setting, (selected, fresh))))
}

/// How many fresh runs of a setting, and of the default beside it, are still to be made.
fn fresh_left(plan: &Plan, lines: &[Line], workload: &str, setting: &Setting) -> usize {
    let done = execute::done(lines).into_values().filter(|planned| {
        let is_of_pair = planned.setting.is_default() || &planned.setting == setting;
        planned.stage == FRESH && planned.workload == workload && is_of_pair
    });
    (2 * plan.confirm as usize).saturating_sub(done.count())
}

/// Whether a setting does not keep the bound in the fresh runs.
fn over_bound(plan: &Plan, lines: &[Line], workload: &str, setting: &Setting) -> Option<Finding> {
    let Bound { metric, max } = plan.bound.clone()?;
    let of_setting = lines.iter().filter(|line| line.is_valid() && line.planned.stage == FRESH).filter(|line| {
        let planned = &line.planned;
        planned.workload == workload && &planned.setting == setting
    });
    let values: Vec<_> = of_setting.filter_map(|line| line.metrics.get(&metric).copied()).collect();
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    // Without a value nothing says that it keeps it.
    let keeps_it = mean.is_some_and(|mean| mean <= max);
    (!keeps_it).then(|| Finding::OverBound { setting: setting.clone(), metric, mean, max })
}

/// The drift of the objective, if it is one.
fn drifting<'a>(analysis: &'a Analysis, objective: &Metric) -> Option<&'a Drift> {
    analysis.drifts.get(objective.name).filter(|drift| drift.is_drifting)
}

/// How many comparisons of a metric have a probability.
fn comparisons(analysis: &Analysis, metric: &Metric) -> usize {
    let tables = analysis.tables.iter().filter(|table| table.metric == metric.name);
    let differences = tables.flat_map(|table| &table.rows).filter_map(|row| row.difference.as_ref());
    differences.filter(|difference| difference.p.is_some()).count()
}

/// What four of five studies with as many runs would find, with the middle one of the scatters that
/// the settings have.
fn visible(plan: &Plan, analysis: &Analysis, table: &Table, objective: &Metric) -> Option<Visible> {
    let differences = table.rows.iter().filter_map(|row| row.difference.as_ref());
    let mut scatters: Vec<_> =
        differences.filter_map(|found| Some((found.sample.deviation()?, found.blocks, found.scale))).collect();
    scatters.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (deviation, blocks, scale) = *scatters.get(scatters.len() / 2)?;
    let of_objective = analysis.tables.iter().filter(|table| table.metric == objective.name);
    let workloads = of_objective.filter(|table| table.rows.iter().any(|row| row.difference.is_some())).count();
    let tests = match plan.confirm {
        0 => vec![Test { blocks, level: P_MAX / comparisons(analysis, objective).max(1) as f64 }],
        confirm => {
            let fresh = Test { blocks: confirm as usize, level: P_MAX / workloads.max(1) as f64 };
            vec![Test { blocks, level: P_MAX }, fresh]
        }
    };
    let least = stats::visible(&tests)? * deviation;
    let change = scale.shown(if objective.is_less_better { -least } else { least }).abs();
    Some(Visible { scale, change })
}

/// The effects and interactions that are sure.
fn effects(table: &Table) -> Vec<String> {
    let is_sure = |contrast: &&stats::Contrast| is_sure(contrast.p_corrected);
    table.contrasts.iter().filter(is_sure).map(stats::Contrast::name).collect()
}

/// The settings that are better than the default for sure, by the runs of the design alone, the best
/// first.
fn better<'a>(table: &'a Table, objective: &Metric) -> impl Iterator<Item = (&'a Row, &'a Difference)> {
    let differences = table.rows.iter().filter_map(|row| Some((row, row.difference.as_ref()?)));
    differences.filter(move |(_, found)| is_sure(found.p_corrected) && is_better(found.change, objective))
}

/// Whether a setting may be recommended: it keeps the bound, and loses no more operations than the
/// default.
fn is_allowed(plan: &Plan, tables: &[Table], table: &Table, row: &Row) -> bool {
    let default_share = table.rows.iter().find(|row| row.setting.is_default()).map_or(0.0, |row| row.failed_share);
    !loses_more((default_share, row.failed_share)) && keeps_bound(plan, tables, table, row)
}

/// The setting to recommend, if fresh runs confirm it: of those that are better than the default,
/// may be recommended, and are not surely worse than the best of these, the one with the fewest
/// changes. Without fresh runs after it, the selection is corrected for the number of comparisons.
/// With them it needs no correction: the fresh runs decide.
fn chosen<'a>(
    plan: &Plan,
    tables: &[Table],
    table: &'a Table,
    objective: &Metric,
) -> Option<(&'a Row, &'a Difference)> {
    let better = table.rows.iter().filter_map(|row| {
        let difference = row.difference.as_ref()?;
        let p = if plan.confirm > 0 { difference.p } else { difference.p_corrected };
        let is_chosen = is_sure(p) && is_better(difference.change, objective);
        (is_chosen && is_allowed(plan, tables, table, row)).then_some((row, difference))
    });
    let better: Vec<_> = better.collect();
    // Rows are in order.
    let best = better.first()?.1;
    let is_as_good = |other: &Difference| !is_sure(best.p_apart(other));
    better.iter().filter(|(_, other)| is_as_good(other)).min_by_key(|(row, _)| row.setting.0.len()).copied()
}

/// Whether the mean of the metric of the bound is within it.
fn keeps_bound(plan: &Plan, tables: &[Table], table: &Table, row: &Row) -> bool {
    let Some(bound) = &plan.bound else { return true };
    bound_mean(bound, tables, table, row).is_some_and(|mean| mean <= bound.max)
}

/// The mean of the metric of the bound, of a setting under the workload of a table.
pub(crate) fn bound_mean(bound: &Bound, tables: &[Table], table: &Table, row: &Row) -> Option<f64> {
    let of_bound = tables.iter().find(|other| other.metric == bound.metric && other.workload == table.workload)?;
    of_bound.rows.iter().find(|other| other.setting == row.setting).map(|row| row.summary.mean)
}

/// What is to be measured afresh, by workload.
pub fn selected(plan: &Plan, analysis: &Analysis) -> Vec<(Setting, String)> {
    let Some(objective) = metric::find(&plan.objective) else { return Vec::new() };
    if plan.is_closed() || drifting(analysis, objective).is_some() {
        return Vec::new();
    }
    let tables = analysis.tables.iter().filter(|table| table.metric == objective.name);
    let of = |table: &Table| {
        Some((chosen(plan, &analysis.tables, table, objective)?.0.setting.clone(), table.workload.clone()))
    };
    tables.filter_map(of).collect()
}

pub(crate) fn is_sure(p: Option<f64>) -> bool {
    p.is_some_and(|p| p <= P_MAX)
}

pub(crate) fn is_better(change: f64, metric: &Metric) -> bool {
    change != 0.0 && (change < 0.0) == metric.is_less_better
}

/// Whether a setting loses more operations than the default: the shares of both.
pub(crate) fn loses_more((of_default, of_setting): (f64, f64)) -> bool {
    of_setting > of_default + FAILED_MORE_MAX
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::analysis::analyse;
    use crate::schedule::Planned;

    /// Settings with their p99 in each of five blocks.
    fn lines(settings: [(&Setting, [f64; 5]); 3]) -> Vec<Line> {
        let line = |(number, (setting, block, p99_ms)): (usize, (&Setting, usize, f64))| Line {
            planned: Planned {
                number: number as u32 + 1,
                stage: 1,
                block: block as u32 + 1,
                workload: "w".to_owned(),
                setting: setting.clone(),
                is_control: false,
                seed: 1,
            },
            attempt: 1,
            at: Timestamp::UNIX_EPOCH,
            took_s: 10.0,
            was_restarted: false,
            read_back: BTreeMap::new(),
            metrics: BTreeMap::from([("p99_ms".to_owned(), p99_ms)]),
            void: Vec::new(),
            notes: Vec::new(),
        };
        let of_block = |block: usize| settings.map(|(setting, values)| (setting, block, values[block]));
        (0..5).flat_map(of_block).enumerate().map(line).collect()
    }

    #[test]
    fn fewer_changes_are_chosen_unless_they_are_surely_worse_within_the_blocks() {
        let plan = Plan::parse(
            r#"
            name = "two"
            design = { kind = "one-at-a-time" }
            workloads = [{ name = "w", mix = { write = 1 }, rate = 1000, duration = "10s" }]
            [[factors]]
            name = "concurrent_compactors"
            values = [2]
            [[factors]]
            name = "concurrent_reads"
            values = [64]
            "#,
        )
        .unwrap();
        let default = (&Setting::default(), [10.0, 14.0, 9.0, 16.0, 11.0]);
        let one = Setting::of([("concurrent_compactors", Some("2"))]);
        let two = Setting::of([("concurrent_compactors", Some("2")), ("concurrent_reads", Some("64"))]);
        let best = (&two, [5.0, 5.1, 4.9, 5.0, 5.1]);
        let chosen = |of_one: [f64; 5]| {
            let lines = lines([default, best, (&one, of_one)]);
            selected(&plan, &analyse(&plan, &lines)).swap_remove(0).0
        };
        // The default scatters by more than the two differ, and both are compared with it.
        assert_eq!(chosen([6.5, 6.4, 6.6, 6.5, 6.4]), two);
        assert_eq!(chosen([5.1, 5.0, 5.0, 4.9, 5.2]), one);
    }
}
