//! What the runs of a study say: differences to the default, effects, interactions, drift, fronts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::design::Design;
use crate::factor::Setting;
use crate::line::Line;
use crate::metric::{self, FAILED_SHARE, Metric};
use crate::plan::Plan;
use crate::schedule::{FRESH, Planned};
use crate::stats::{self, Block, Contrast, Difference, Drift, Observation, Pair, Scale, Summary};

/// A metric under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The workload.
    pub workload: String,
    /// The metric.
    pub metric: String,
    /// The default first, then the other settings, the best first by its difference to the default,
    /// and last those without one.
    pub rows: Vec<Row>,
    /// Effects and interactions; empty if the design has none.
    pub contrasts: Vec<Contrast>,
    /// Blocks that the contrasts leave out, because not all of their runs count.
    pub left_out: usize,
}

/// A setting in a table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The setting.
    pub setting: Setting,
    /// Its values.
    pub summary: Summary,
    /// Its difference to the default; `None` for the default itself, and where no block has both.
    pub difference: Option<Difference>,
    /// The share of its operations that were not done, 0 to 1: the mean of its runs.
    pub failed_share: f64,
}

/// Two metrics under one workload: which settings are not worse than another in both.
#[derive(Clone, Debug, Serialize)]
pub struct Front {
    /// The workload.
    pub workload: String,
    /// The metrics.
    pub metrics: (String, String),
    /// Each setting with its means, and whether nothing is better in both.
    pub points: Vec<(Setting, f64, f64, bool)>,
}

/// A setting that was selected, measured afresh beside the default.
#[derive(Clone, Debug, Serialize)]
pub struct Fresh {
    /// The workload.
    pub workload: String,
    /// The metric.
    pub metric: String,
    /// The setting.
    pub setting: Setting,
    /// Its difference to the default. Its p is corrected for the other workloads of the metric.
    pub difference: Difference,
    /// The shares of operations that were not done, 0 to 1: with the default, and with the setting.
    pub failed_shares: (f64, f64),
}

/// A run that does not count.
#[derive(Clone, Debug, Serialize)]
pub struct Void {
    /// Its number.
    pub number: u32,
    /// Its attempt.
    pub attempt: u32,
    /// Its workload.
    pub workload: String,
    /// Its setting.
    pub setting: Setting,
    /// Why it does not count.
    pub why: Vec<String>,
}

/// What a study says.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// For each metric and workload.
    pub tables: Vec<Table>,
    /// How the default changed from the first run to the last, by metric, under all workloads together;
    /// none where it was measured too seldom.
    pub drifts: BTreeMap<String, Drift>,
    /// What was selected among these, measured afresh: its difference to the default beside it, for
    /// each metric and workload. The tables above have none of these runs.
    pub fresh: Vec<Fresh>,
    /// For the objective and the first metric beside it, for each workload.
    pub fronts: Vec<Front>,
    /// Runs that do not count.
    pub void: Vec<Void>,
    /// Settings under workloads of which no run counts.
    pub missing: Vec<(Setting, String)>,
    /// What else should be known: number of the run and the note.
    pub notes: Vec<(u32, String)>,
    /// Interactions that a fractional design cannot tell from others.
    pub aliases: Vec<String>,
}

/// Analyses runs. Void ones are listed and do not count.
pub fn analyse(plan: &Plan, lines: &[Line]) -> Analysis {
    let metrics = std::iter::once(&plan.objective).chain(&plan.beside);
    let metrics: Vec<_> = metrics.filter_map(|name| metric::find(name)).collect();
    let (again, valid): (Vec<_>, Vec<_>) =
        lines.iter().filter(|line| line.is_valid()).partition(|line| line.planned.stage == FRESH);
    let fresh = plan.workloads.iter().flat_map(|workload| metrics.iter().map(|metric| (&workload.name, metric.name)));
    let mut fresh: Vec<_> = fresh.filter_map(|(workload, metric)| fresh_difference(&again, workload, metric)).collect();
    let mut tables: Vec<Table> = Vec::new();
    for metric in &metrics {
        for workload in &plan.workloads {
            tables.extend(table(plan, &valid, &workload.name, metric));
        }
        correct(&mut tables, &mut fresh, metric.name);
    }
    let drift = |metric: &&Metric| Some((metric.name.to_owned(), drift(plan, &valid, metric.name)?));
    let drifts = metrics.iter().filter_map(drift).collect();
    let fronts = match metrics[..] {
        [one, other, ..] => {
            plan.workloads.iter().filter_map(|workload| front(&valid, &workload.name, one, other)).collect()
        }
        _ => Vec::new(),
    };
    let void = lines.iter().filter(|line| !line.is_valid());
    Analysis {
        tables,
        drifts,
        fresh,
        fronts,
        void: void.map(of_void).collect(),
        missing: missing(lines),
        notes: (lines.iter().filter(|line| line.is_valid()))
            .flat_map(|line| line.notes.iter().map(|note| (line.planned.number, note.clone())))
            .collect(),
        aliases: aliases(plan),
    }
}

fn of_void(line: &Line) -> Void {
    let planned = line.planned.clone();
    let Planned { number, workload, setting, .. } = planned;
    Void { number, attempt: line.attempt, workload, setting, why: line.void.clone() }
}

fn missing(lines: &[Line]) -> Vec<(Setting, String)> {
    let of = |is_valid: bool| -> BTreeSet<_> {
        let chosen = lines.iter().filter(|line| line.is_valid() == is_valid);
        chosen.map(|line| (&line.planned.setting, &line.planned.workload)).collect()
    };
    let missing = &of(false) - &of(true);
    missing.into_iter().map(|(setting, workload)| (setting.clone(), workload.clone())).collect()
}

/// The values of a metric under a workload by setting, each with its run.
fn by_setting<'a>(valid: &[&'a Line], workload: &str, metric: &str) -> BTreeMap<&'a Setting, Vec<(&'a Line, f64)>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in valid.iter().filter(|line| line.planned.workload == workload) {
        if let Some(value) = line.metrics.get(metric) {
            all.entry(&line.planned.setting).or_default().push((*line, *value));
        }
    }
    all
}

fn mean(values: &[(&Line, f64)]) -> f64 {
    values.iter().map(|(_, value)| value).sum::<f64>() / values.len() as f64
}

/// The mean share of operations that were not done.
fn failed_share(values: &[(&Line, f64)]) -> f64 {
    let shares = values.iter().filter_map(|(line, _)| line.metrics.get(FAILED_SHARE).copied());
    let all: Vec<_> = shares.collect();
    if all.is_empty() { 0.0 } else { all.iter().sum::<f64>() / all.len() as f64 }
}

/// The scale of all values of settings.
fn scale(settings: &BTreeMap<&Setting, Vec<(&Line, f64)>>) -> Scale {
    Scale::of(settings.values().flatten().map(|(_, value)| *value))
}

fn table(plan: &Plan, valid: &[&Line], workload: &str, metric: &Metric) -> Option<Table> {
    let settings = by_setting(valid, workload, metric.name);
    let defaults = settings.get(&Setting::default()).cloned().unwrap_or_default();
    let scale = scale(&settings);
    let mut rows: Vec<Row> = settings
        .iter()
        .filter_map(|(setting, values)| {
            let all: Vec<_> = values.iter().map(|(_, value)| *value).collect();
            let difference = (!setting.is_default()).then(|| stats::paired(&pairs(&defaults, values), scale)).flatten();
            let (setting, summary) = ((*setting).clone(), Summary::of(&all)?);
            Some(Row { setting, summary, difference, failed_share: failed_share(values) })
        })
        .collect();
    put_in_order(&mut rows, metric);
    let mut observed: Vec<_> = settings
        .values()
        .flatten()
        .filter(|(line, _)| line.planned.stage == 1 && !line.planned.is_control)
        .map(|(line, value)| Observation { setting: &line.planned.setting, block: line.planned.block, value: *value })
        .collect();
    let is_two_level = plan.factors.iter().all(|factor| factor.values.len() == 1);
    let (mut contrasts, mut left_out) = (Vec::new(), 0);
    if plan.design.is_balanced() && is_two_level {
        left_out = keep_whole_blocks(plan, &mut observed, |run| run.block);
        contrasts = stats::contrasts(&plan.factors, &observed);
    }
    (!rows.is_empty()).then(|| Table {
        workload: workload.to_owned(),
        metric: metric.name.to_owned(),
        rows,
        contrasts,
        left_out,
    })
}

/// Puts the rows of a table in order, as [`Table::rows`] says.
fn put_in_order(rows: &mut [Row], metric: &Metric) {
    rows.sort_by(|one, other| {
        // Means of settings that miss a block may be of other blocks than those of the default.
        let difference = |row: &Row| row.difference.as_ref().map(|difference| difference.change);
        let worth = |one: f64, other: f64| match metric.is_less_better {
            true => one.total_cmp(&other),
            false => other.total_cmp(&one),
        };
        let by_worth = match (difference(one), difference(other)) {
            (Some(one), Some(other)) => worth(one, other),
            (None, None) => worth(one.summary.mean, other.summary.mean),
            (one, other) => one.is_none().cmp(&other.is_none()),
        };
        other.setting.is_default().cmp(&one.setting.is_default()).then(by_worth)
    });
}

/// How the default changed, under all workloads together.
fn drift(plan: &Plan, valid: &[&Line], metric: &str) -> Option<Drift> {
    let series = |workload: &crate::workload::Workload| {
        let defaults = valid.iter().filter(|line| line.planned.setting.is_default());
        let of_workload = defaults.filter(|line| line.planned.workload == workload.name);
        of_workload.filter_map(|line| Some((f64::from(line.planned.number), *line.metrics.get(metric)?))).collect()
    };
    stats::drift(&plan.workloads.iter().map(series).collect::<Vec<_>>())
}

/// The difference of what was selected under a workload to the default beside it.
fn fresh_difference(again: &[&Line], workload: &str, metric: &str) -> Option<Fresh> {
    let settings = by_setting(again, workload, metric);
    let defaults = settings.get(&Setting::default())?;
    let (setting, values) = settings.iter().find(|(setting, _)| !setting.is_default())?;
    let difference = stats::paired(&pairs(defaults, values), scale(&settings))?;
    let (setting, failed_shares) = ((*setting).clone(), (failed_share(defaults), failed_share(values)));
    Some(Fresh { workload: workload.to_owned(), metric: metric.to_owned(), setting, difference, failed_shares })
}

/// Leaves out runs of blocks that have not all settings of the design: there the factors are not
/// balanced. Returns of how many blocks.
pub(crate) fn keep_whole_blocks<T>(plan: &Plan, runs: &mut Vec<T>, block: impl Fn(&T) -> u32) -> usize {
    let settings = plan.design.settings(&plan.factors, plan.seed).len();
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for run in runs.iter() {
        *counts.entry(block(run)).or_default() += 1;
    }
    runs.retain(|run| counts.get(&block(run)) == Some(&settings));
    counts.values().filter(|count| **count != settings).count()
}

/// For each block that has both, the values of the default and of a setting. Stages have blocks of
/// their own.
fn pairs(defaults: &[(&Line, f64)], values: &[(&Line, f64)]) -> BTreeMap<Block, Pair> {
    let mut blocks: BTreeMap<Block, Pair> = BTreeMap::new();
    let block = |line: &Line| (line.planned.stage, line.planned.block);
    for (line, value) in defaults {
        blocks.entry(block(line)).or_default().default.push(*value);
    }
    for (line, value) in values {
        blocks.entry(block(line)).or_default().setting.push(*value);
    }
    blocks.retain(|_, pair| !pair.default.is_empty() && !pair.setting.is_empty());
    blocks
}

/// Corrects the probabilities of all comparisons of a metric for their number; those of all its
/// contrasts; and those of all its fresh comparisons, one for each workload.
fn correct(tables: &mut [Table], fresh: &mut [Fresh], metric: &str) {
    let (mut differences, mut contrasts) = (Vec::new(), Vec::new());
    for table in tables.iter_mut().filter(|table| table.metric == metric) {
        let found = table.rows.iter_mut().filter_map(|row| row.difference.as_mut());
        differences.extend(found.filter_map(|found| Some((found.p?, &mut found.p_corrected))));
        contrasts.extend(table.contrasts.iter_mut().filter_map(|found| Some((found.p?, &mut found.p_corrected))));
    }
    let of_metric = fresh.iter_mut().filter(|fresh| fresh.metric == metric).map(|fresh| &mut fresh.difference);
    let again = of_metric.filter_map(|found| Some((found.p?, &mut found.p_corrected))).collect();
    for family in [differences, contrasts, again] {
        let probabilities: Vec<_> = family.iter().map(|(p, _)| *p).collect();
        for ((_, place), corrected) in family.into_iter().zip(stats::holm(&probabilities)) {
            *place = Some(corrected);
        }
    }
}

fn front(valid: &[&Line], workload: &str, one: &Metric, other: &Metric) -> Option<Front> {
    let (ones, others) = (by_setting(valid, workload, one.name), by_setting(valid, workload, other.name));
    let means = ones.iter().filter_map(|(setting, values)| Some((*setting, mean(values), mean(others.get(setting)?))));
    let means: Vec<_> = means.collect();
    let sign = |metric: &Metric| if metric.is_less_better { 1.0 } else { -1.0 };
    let signed: Vec<_> = means.iter().map(|(_, a, b)| (a * sign(one), b * sign(other))).collect();
    let best = stats::front(&signed);
    let points = means.iter().enumerate().map(|(at, (setting, a, b))| ((*setting).clone(), *a, *b, best.contains(&at)));
    let metrics = (one.name.to_owned(), other.name.to_owned());
    (!means.is_empty()).then(|| Front { workload: workload.to_owned(), metrics, points: points.collect() })
}

fn aliases(plan: &Plan) -> Vec<String> {
    let Design::Fractional { resolution } = plan.design else { return Vec::new() };
    let name = |number: &usize| plan.factors.get(*number).map_or("", |factor| &factor.name);
    let of = |numbers: &[usize]| {
        let sign = if numbers.len() % 2 == 1 { stats::OPPOSITE } else { "" };
        format!("{sign}{}", numbers.iter().map(name).collect::<Vec<_>>().join(" × "))
    };
    let all = crate::design::fraction(plan.factors.len(), resolution).aliases(plan.factors.len());
    all.iter()
        .map(|((one, other), with)| {
            let with: Vec<_> = with.iter().map(|numbers| of(numbers)).collect();
            format!("{} cannot be distinguished from {}", of(&[*one, *other]), with.join(", "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A setting with its mean, and its difference to a default of 100 in one block.
    fn row(setting: Option<&str>, mean: f64, of_block: Option<f64>) -> Row {
        let pair = |value: f64| Pair { default: vec![100.0], setting: vec![value] };
        let difference =
            of_block.and_then(|value| stats::paired(&BTreeMap::from([((1, 1), pair(value))]), Scale::Logarithms));
        let summary = Summary::of(&[mean]).unwrap();
        Row { setting: Setting::of([("heap", setting)]), summary, difference, failed_share: 0.0 }
    }

    /// These rows in every order.
    fn orders(rows: &[Row]) -> Vec<Vec<Row>> {
        if rows.is_empty() {
            return vec![Vec::new()];
        }
        let with_last = |last: usize| {
            let mut others = rows.to_vec();
            let row = others.remove(last);
            let with_it = move |mut order: Vec<Row>| {
                order.push(row.clone());
                order
            };
            orders(&others).into_iter().map(with_it)
        };
        (0..rows.len()).flat_map(with_last).collect()
    }

    #[test]
    fn rows_have_one_order_by_their_differences_and_those_without_one_come_last() {
        // By means alone, the second would be better than the fourth, and this better than the first.
        let rows = [
            row(Some("1"), 120.0, Some(90.0)),
            row(Some("2"), 90.0, Some(95.0)),
            row(Some("3"), 80.0, None),
            row(Some("4"), 100.0, None),
            row(None, 100.0, None),
        ];
        for (metric, expected) in [
            ("p99_ms", [None, Some("1"), Some("2"), Some("3"), Some("4")]),
            ("rate_per_s", [None, Some("2"), Some("1"), Some("4"), Some("3")]),
        ] {
            for mut order in orders(&rows) {
                put_in_order(&mut order, metric::find(metric).unwrap());
                let found: Vec<_> = order.iter().map(|row| row.setting.get("heap")).collect();
                assert_eq!(found, expected, "{metric}");
            }
        }
    }
}
