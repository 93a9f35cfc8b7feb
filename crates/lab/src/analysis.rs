//! What the runs of a study say: differences to the default, effects, interactions, drift, fronts.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::design::Design;
use crate::factor::Setting;
use crate::line::Line;
use crate::metric::{self, Metric};
use crate::plan::Plan;
use crate::stats::{self, Contrast, Difference, Drift, Observation, Summary};

/// A metric under one workload.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The workload.
    pub workload: String,
    /// The metric.
    pub metric: String,
    /// The default first, then the other settings, the best first.
    pub rows: Vec<Row>,
    /// Effects and interactions; empty if the design has none.
    pub contrasts: Vec<Contrast>,
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

/// What a study says.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// For each metric and workload.
    pub tables: Vec<Table>,
    /// For the objective and the first metric beside it, for each workload.
    pub fronts: Vec<Front>,
    /// Runs that do not count: number, attempt and why.
    pub void: Vec<(u32, u32, Vec<String>)>,
    /// What else should be known: number of the run and the note.
    pub notes: Vec<(u32, String)>,
    /// Interactions that a fractional design cannot tell from others.
    pub aliases: Vec<String>,
}

/// Analyses runs. Void ones are listed and do not count.
pub fn analyse(plan: &Plan, lines: &[Line]) -> Analysis {
    let metrics = std::iter::once(&plan.objective).chain(&plan.beside);
    let metrics: Vec<_> = metrics.filter_map(|name| metric::find(name)).collect();
    let valid: Vec<_> = lines.iter().filter(|line| line.is_valid()).collect();
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
        fronts,
        void: void.map(|line| (line.planned.number, line.attempt, line.void.clone())).collect(),
        notes: valid
            .iter()
            .flat_map(|line| line.notes.iter().map(|note| (line.planned.number, note.clone())))
            .collect(),
        aliases: aliases(plan),
    }
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
    let mut rows: Vec<Row> = settings
        .iter()
        .filter_map(|(setting, values)| {
            let all: Vec<_> = values.iter().map(|(_, value)| *value).collect();
            let difference = (!setting.is_default()).then(|| stats::paired(&pairs(&defaults, values))).flatten();
            Some(Row { setting: (*setting).clone(), summary: Summary::of(&all)?, difference })
        })
        .collect();
    rows.sort_by(|one, other| {
        let by_mean = one.summary.mean.total_cmp(&other.summary.mean);
        let by_worth = if metric.is_less_better { by_mean } else { by_mean.reverse() };
        other.setting.is_default().cmp(&one.setting.is_default()).then(by_worth)
    });
    let observed: Vec<_> = settings
        .values()
        .flatten()
        .filter(|(line, _)| line.planned.stage == 1 && !line.planned.is_control)
        .map(|(line, value)| Observation { setting: &line.planned.setting, block: line.planned.block, value: *value })
        .collect();
    let contrasts = if plan.design.is_balanced() { stats::contrasts(&plan.factors, &observed) } else { Vec::new() };
    let mut series: Vec<_> = defaults.iter().map(|(line, value)| (f64::from(line.planned.number), *value)).collect();
    series.sort_by(|one, other| one.0.total_cmp(&other.0));
    let drift = stats::drift(&series);
    (!rows.is_empty()).then(|| Table {
        workload: workload.to_owned(),
        metric: metric.name.to_owned(),
        rows,
        contrasts,
        drift,
    })
}

/// For each block that has both, the means of the default and of a setting. Stages have blocks of
/// their own.
fn pairs(defaults: &[(&Line, f64)], values: &[(&Line, f64)]) -> Vec<(f64, f64)> {
    let blocks = |values: &[(&Line, f64)]| {
        let mut all: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for (line, value) in values {
            all.entry((line.planned.stage, line.planned.block)).or_default().push(*value);
        }
        all.into_iter().map(|(block, all)| (block, all.iter().sum::<f64>() / all.len() as f64)).collect()
    };
    let (defaults, values): (BTreeMap<_, f64>, BTreeMap<_, f64>) = (blocks(defaults), blocks(values));
    values.iter().filter_map(|(block, value)| Some((*defaults.get(block)?, *value))).collect()
}

/// Corrects the probabilities of all comparisons of a metric for their number.
fn correct(tables: &mut [Table], metric: &str) {
    let tables = tables.iter_mut().filter(|table| table.metric == metric);
    let mut differences: Vec<_> =
        tables.flat_map(|table| &mut table.rows).filter_map(|row| row.difference.as_mut()).collect();
    differences.retain(|difference| difference.p.is_some());
    let probabilities: Vec<_> = differences.iter().filter_map(|difference| difference.p).collect();
    for (difference, corrected) in differences.into_iter().zip(stats::holm(&probabilities)) {
        difference.p_corrected = Some(corrected);
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
            format!("{} is not told from {}", of(&[*one, *other]), with.join(", "))
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
