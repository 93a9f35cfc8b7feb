//! What the runs of a study say: differences to the default, effects, interactions, drift, fronts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::design::Design;
use crate::factor::Setting;
use crate::line::Line;
use crate::metric::{self, Metric};
use crate::plan::Plan;
use crate::schedule::{FRESH, Planned};
use crate::stats::{self, Contrast, Difference, Drift, Observation, Pair, Pooled, Summary};

/// A metric under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The workload.
    pub workload: String,
    /// The metric.
    pub metric: String,
    /// The default first, then the other settings, the best first by its difference to the default.
    pub rows: Vec<Row>,
    /// Effects and interactions; empty if the design has none.
    pub contrasts: Vec<Contrast>,
    /// Blocks that the contrasts leave out, because not all of their runs count.
    pub left_out: usize,
    /// How the default changed from the first run to the last; `None` with fewer than three.
    pub drift: Option<Drift>,
}

/// A setting in a table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The setting.
    pub setting: Setting,
    /// Its values.
    pub summary: Summary,
    /// Its difference to the default; `None` for the default itself.
    pub difference: Option<Difference>,
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
    /// Its difference to the default. It is the only one of its metric and workload.
    pub difference: Difference,
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
    let fresh = fresh.filter_map(|(workload, metric)| fresh_difference(&again, workload, metric)).collect();
    let mut tables: Vec<Table> = Vec::new();
    for metric in &metrics {
        for workload in &plan.workloads {
            tables.extend(table(plan, &valid, &workload.name, metric));
        }
        correct(&mut tables, metric.name);
    }
    let fronts = match metrics[..] {
        [one, other, ..] => {
            plan.workloads.iter().filter_map(|workload| front(&valid, &workload.name, one, other)).collect()
        }
        _ => Vec::new(),
    };
    let void = lines.iter().filter(|line| !line.is_valid());
    Analysis {
        tables,
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

fn table(plan: &Plan, valid: &[&Line], workload: &str, metric: &Metric) -> Option<Table> {
    let settings = by_setting(valid, workload, metric.name);
    let defaults = settings.get(&Setting::default()).cloned().unwrap_or_default();
    let pooled = pooled(&settings);
    let mut rows: Vec<Row> = settings
        .iter()
        .filter_map(|(setting, values)| {
            let all: Vec<_> = values.iter().map(|(_, value)| *value).collect();
            let difference =
                (!setting.is_default()).then(|| stats::paired(&pairs(&defaults, values), pooled)).flatten();
            Some(Row { setting: (*setting).clone(), summary: Summary::of(&all)?, difference })
        })
        .collect();
    rows.sort_by(|one, other| {
        // Means of settings that miss a block may be of other blocks than those of the default.
        let difference = |row: &Row| row.difference.as_ref().map(|difference| difference.mean);
        let by_mean = match (difference(one), difference(other)) {
            (Some(one), Some(other)) => one.total_cmp(&other),
            _ => one.summary.mean.total_cmp(&other.summary.mean),
        };
        let by_worth = if metric.is_less_better { by_mean } else { by_mean.reverse() };
        other.setting.is_default().cmp(&one.setting.is_default()).then(by_worth)
    });
    let mut observed: Vec<_> = settings
        .values()
        .flatten()
        .filter(|(line, _)| line.planned.stage == 1 && !line.planned.is_control)
        .map(|(line, value)| Observation { setting: &line.planned.setting, block: line.planned.block, value: *value })
        .collect();
    let is_two_level = plan.factors.iter().all(|factor| factor.values.len() == 1);
    let (mut contrasts, mut left_out) = (Vec::new(), 0);
    if plan.design.is_balanced() && is_two_level {
        left_out = keep_whole_blocks(&mut observed, plan.design.settings(&plan.factors, plan.seed).len());
        contrasts = stats::contrasts(&plan.factors, &observed);
    }
    let mut series: Vec<_> = defaults.iter().map(|(line, value)| (f64::from(line.planned.number), *value)).collect();
    series.sort_by(|one, other| one.0.total_cmp(&other.0));
    let drift = stats::drift(&series);
    (!rows.is_empty()).then(|| Table {
        workload: workload.to_owned(),
        metric: metric.name.to_owned(),
        rows,
        contrasts,
        left_out,
        drift,
    })
}

/// The difference of what was selected under a workload to the default beside it.
fn fresh_difference(again: &[&Line], workload: &str, metric: &str) -> Option<Fresh> {
    let settings = by_setting(again, workload, metric);
    let defaults = settings.get(&Setting::default())?;
    let (setting, values) = settings.iter().find(|(setting, _)| !setting.is_default())?;
    let difference = stats::paired(&pairs(defaults, values), pooled(&settings))?;
    let setting = (*setting).clone();
    Some(Fresh { workload: workload.to_owned(), metric: metric.to_owned(), setting, difference })
}

/// Leaves out blocks that have not all settings: there the factors are not balanced. Returns how
/// many.
fn keep_whole_blocks(observed: &mut Vec<Observation<'_>>, settings: usize) -> usize {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for run in observed.iter() {
        *counts.entry(run.block).or_default() += 1;
    }
    observed.retain(|run| counts.get(&run.block) == Some(&settings));
    counts.values().filter(|count| **count != settings).count()
}

/// The error of all runs under a workload together.
fn pooled(settings: &BTreeMap<&Setting, Vec<(&Line, f64)>>) -> Option<Pooled> {
    let mut blocks = BTreeMap::new();
    let mut runs = Vec::new();
    for (number, values) in settings.values().enumerate() {
        for (line, value) in values {
            let next = blocks.len();
            let block = *blocks.entry((line.planned.stage, line.planned.block)).or_insert(next);
            runs.push((number, block, *value));
        }
    }
    Pooled::of(&runs)
}

/// For each block that has both, the means of the default and of a setting. Stages have blocks of
/// their own.
fn pairs(defaults: &[(&Line, f64)], values: &[(&Line, f64)]) -> Vec<Pair> {
    let blocks = |values: &[(&Line, f64)]| -> BTreeMap<_, (f64, f64)> {
        let mut all: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for (line, value) in values {
            all.entry((line.planned.stage, line.planned.block)).or_default().push(*value);
        }
        let mean = |all: Vec<f64>| (all.iter().sum::<f64>() / all.len() as f64, 1.0 / all.len() as f64);
        all.into_iter().map(|(block, all)| (block, mean(all))).collect()
    };
    let defaults = blocks(defaults);
    let pair = |(block, (setting, scatter)): (_, (f64, f64))| {
        let (default, of_default) = defaults.get(&block)?;
        Some(Pair { default: *default, setting, scatter: scatter + of_default })
    };
    blocks(values).into_iter().filter_map(pair).collect()
}

/// Corrects the probabilities of all comparisons of a metric for their number, and those of all its
/// contrasts.
fn correct(tables: &mut [Table], metric: &str) {
    let (mut differences, mut contrasts) = (Vec::new(), Vec::new());
    for table in tables.iter_mut().filter(|table| table.metric == metric) {
        let found = table.rows.iter_mut().filter_map(|row| row.difference.as_mut());
        differences.extend(found.filter_map(|found| Some((found.p?, &mut found.p_corrected))));
        contrasts.extend(table.contrasts.iter_mut().filter_map(|found| Some((found.p?, &mut found.p_corrected))));
    }
    for family in [differences, contrasts] {
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
    let of = |numbers: &[usize]| numbers.iter().map(name).collect::<Vec<_>>().join(" × ");
    let all = crate::design::fraction(plan.factors.len(), resolution).aliases(plan.factors.len());
    all.iter()
        .map(|((one, other), with)| {
            let with: Vec<_> = with.iter().map(|numbers| of(numbers)).collect();
            format!("{} cannot be distinguished from {}", of(&[*one, *other]), with.join(", "))
        })
        .collect()
}

/// The best values of all factors together, by the means of the objective, for each workload under
/// which single changes were measured. None if the plan asks for none, or no value beats the
/// default.
pub fn unions(plan: &Plan, lines: &[Line]) -> Vec<(Setting, String)> {
    let Design::OneAtATime { union: true, workloads } = &plan.design else { return Vec::new() };
    let Some(metric) = metric::find(&plan.objective) else { return Vec::new() };
    let valid: Vec<_> = lines.iter().filter(|line| line.is_valid() && line.planned.stage == 1).collect();
    let is_chosen = |name: &String| workloads.as_ref().is_none_or(|chosen| chosen.contains(name));
    let names = plan.workloads.iter().map(|workload| &workload.name).filter(|name| is_chosen(name));
    names
        .filter_map(|workload| {
            let settings = by_setting(&valid, workload, metric.name);
            let worth = |setting: &Setting| {
                let mean = mean(settings.get(setting)?);
                Some(if metric.is_less_better { mean } else { -mean })
            };
            let default = worth(&Setting::default())?;
            let best = plan.factors.iter().filter_map(|factor| {
                let single = |value: &'_ String| Setting::of([(factor.name.as_str(), Some(value.as_str()))]);
                let worths = factor.values.iter().filter_map(|value| Some((value, worth(&single(value))?)));
                let (value, worth) = worths.min_by(|one, other| one.1.total_cmp(&other.1))?;
                (worth < default).then(|| (factor.name.clone(), value.clone()))
            });
            let union = Setting(best.collect());
            // One value alone was measured already.
            (union.0.len() > 1).then(|| (union, workload.clone()))
        })
        .collect()
}
