//! The recommendation: what to change, what it gains, how sure that is, and the way back.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::{Analysis, Row, Table};
use crate::factor::{Applied, Factor, Setting};
use crate::line::Line;
use crate::metric::{self, Metric};
use crate::plan::Plan;
use crate::stats::Difference;
use crate::sync;

/// At most this corrected probability is a difference.
pub const P_MAX: f64 = 0.05;

/// What is recommended for a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Recommendation {
    /// The workload.
    pub workload: String,
    /// Its operations per second.
    pub rate: f64,
    /// The metric that is to improve.
    pub objective: String,
    /// What was found.
    pub finding: Finding,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "found")]
pub enum Finding {
    /// No setting is better than the default, as far as can be seen.
    NoDifference {
        /// A true difference of this share would be found in four of five such studies; `None`
        /// where nothing is known of the error.
        visible: Option<f64>,
        /// Effects and interactions that are sure all the same.
        effects: Vec<String>,
    },
    /// The default itself changed while it was measured: differences say nothing.
    Drift {
        /// By what share.
        relative: f64,
    },
    /// A setting was better when it was selected, and not for sure when it was measured afresh.
    NotConfirmed {
        /// The setting.
        setting: Setting,
        /// Its gain when it was selected.
        selected: Gain,
        /// Its gain in the fresh runs.
        fresh: Gain,
    },
    /// Nothing was measured that can be compared.
    Nothing,
    /// A setting is better.
    Better(Box<Change>),
}

/// How much better a setting is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The mean change of the objective by that of the default: −0.2 is a fifth less.
    pub relative: f64,
    /// Its interval, so wide that those of all comparisons hold together with 95 %.
    pub interval: Option<(f64, f64)>,
    /// The probability of such a difference where there is none, corrected for all comparisons.
    pub p: Option<f64>,
    /// Among how many comparisons it was found.
    pub comparisons: usize,
    /// Blocks that have both the setting and the default.
    pub blocks: usize,
}

impl Change {
    /// The gain that it has, as far as is known: that of the fresh runs, if they were made.
    pub fn gain(&self) -> Gain {
        self.fresh.unwrap_or(self.selected)
    }
}

impl Gain {
    fn of(difference: &Difference, p: Option<f64>, comparisons: usize) -> Self {
        let interval = difference.interval_among(comparisons);
        Self { relative: difference.relative, interval, p, comparisons, blocks: difference.blocks }
    }
}

/// A change that is recommended.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The setting.
    pub setting: Setting,
    /// Its gain in the runs among which it was selected. That of the best of many is too good.
    pub selected: Gain,
    /// Its gain in fresh runs; `None` if they were not made, or not yet.
    pub fresh: Option<Gain>,
    /// What to do to `cassandra.yaml`; and what leads back.
    pub yaml: Vec<(String, String)>,
    /// A statement for the table; and the one that leads back.
    pub alter_table: Option<(String, String)>,
    /// What to do to the options of the Java machine; and what leads back.
    pub jvm: Vec<(String, String)>,
    /// Commands for a running node; and those that lead back.
    pub live: Vec<(String, String)>,
    /// What the setting does to other metrics and workloads for the worse, for sure.
    pub costs: Vec<String>,
}

/// Recommends for each workload what is best for the objective, if that is better than the default.
pub fn recommend(plan: &Plan, lines: &[Line], analysis: &Analysis) -> Vec<Recommendation> {
    let Some(objective) = metric::find(&plan.objective) else { return Vec::new() };
    let for_workload = |workload: &crate::workload::Workload| {
        let is_it = |table: &&Table| table.metric == objective.name && table.workload == workload.name;
        let table = analysis.tables.iter().find(is_it);
        Recommendation {
            workload: workload.name.clone(),
            rate: workload.rate,
            objective: objective.name.to_owned(),
            finding: table.map_or(Finding::Nothing, |table| finding(plan, lines, analysis, table, objective)),
        }
    };
    plan.workloads.iter().map(for_workload).collect()
}

fn finding(plan: &Plan, lines: &[Line], analysis: &Analysis, table: &Table, objective: &Metric) -> Finding {
    let compared: Vec<_> = table.rows.iter().filter(|row| row.difference.is_some()).collect();
    if compared.is_empty() {
        return Finding::Nothing;
    }
    if let Some(drift) = table.drift.as_ref().filter(|drift| drift.is_drifting) {
        return Finding::Drift { relative: drift.relative };
    }
    let comparisons = comparisons(analysis, objective);
    let Some((best, difference)) = best(&compared, objective) else {
        let visible = compared.iter().filter_map(|row| row.difference.as_ref()?.visible_among(comparisons));
        return Finding::NoDifference { visible: visible.max_by(f64::total_cmp), effects: effects(table) };
    };
    let selected = Gain::of(difference, difference.p_corrected, comparisons);
    let again = analysis.fresh.iter().find(|fresh| {
        (&fresh.metric, &fresh.workload, &fresh.setting) == (&table.metric, &table.workload, &best.setting)
    });
    let again = again.map(|fresh| &fresh.difference);
    // Nothing was selected among the fresh runs, so there is nothing to correct for.
    let fresh = again.map(|again| Gain::of(again, again.p, 1));
    if let Some((fresh, again)) = fresh.zip(again)
        && !(is_sure(again.p) && is_better(again, objective))
    {
        return Finding::NotConfirmed { setting: best.setting.clone(), selected, fresh };
    }
    let defaults = defaults(plan, lines);
    let mut change = Change {
        setting: best.setting.clone(),
        selected,
        fresh,
        yaml: Vec::new(),
        alter_table: None,
        jvm: Vec::new(),
        live: Vec::new(),
        costs: costs(analysis, &best.setting),
    };
    write_out(plan, &mut change, &defaults);
    Finding::Better(Box::new(change))
}

/// How many comparisons of a metric have a probability.
fn comparisons(analysis: &Analysis, metric: &Metric) -> usize {
    let tables = analysis.tables.iter().filter(|table| table.metric == metric.name);
    let differences = tables.flat_map(|table| &table.rows).filter_map(|row| row.difference.as_ref());
    differences.filter(|difference| difference.p.is_some()).count()
}

/// The effects and interactions that are sure.
fn effects(table: &Table) -> Vec<String> {
    let is_sure = |contrast: &&crate::stats::Contrast| contrast.p_corrected.is_some_and(|p| p <= P_MAX);
    table.contrasts.iter().filter(is_sure).map(|contrast| contrast.factors.join(" × ")).collect()
}

/// The best setting that is better than the default for sure. Rows are in order: it is the first.
fn best<'a>(rows: &[&'a Row], objective: &Metric) -> Option<(&'a Row, &'a Difference)> {
    let mut all = rows.iter().filter_map(|row| Some((*row, row.difference.as_ref()?)));
    all.find(|(_, difference)| is_sure(difference.p_corrected) && is_better(difference, objective))
}

/// What would be recommended without fresh runs, by workload: what they are made of.
pub fn selected(plan: &Plan, analysis: &Analysis) -> Vec<(Setting, String)> {
    let Some(objective) = metric::find(&plan.objective) else { return Vec::new() };
    let tables = analysis.tables.iter().filter(|table| table.metric == objective.name);
    let steady = tables.filter(|table| !table.drift.as_ref().is_some_and(|drift| drift.is_drifting));
    steady
        .filter_map(|table| {
            let (best, _) = best(&table.rows.iter().collect::<Vec<_>>(), objective)?;
            Some((best.setting.clone(), table.workload.clone()))
        })
        .collect()
}

fn is_sure(p: Option<f64>) -> bool {
    p.is_some_and(|p| p <= P_MAX)
}

fn is_better(difference: &Difference, metric: &Metric) -> bool {
    (difference.mean < 0.0) == metric.is_less_better
}

/// What gets worse for sure.
fn costs(analysis: &Analysis, setting: &Setting) -> Vec<String> {
    let worse = analysis.tables.iter().filter_map(|table| {
        let metric = metric::find(&table.metric)?;
        let row = table.rows.iter().find(|row| &row.setting == setting)?;
        let difference = row.difference.as_ref()?;
        let is_worse = is_sure(difference.p_corrected) && !is_better(difference, metric);
        is_worse.then(|| format!("{} under {}: {:+.1} %", metric.title, table.workload, difference.relative * 100.0))
    });
    worse.collect()
}

/// What the node had by itself or by the plan, by factor.
fn defaults(plan: &Plan, lines: &[Line]) -> BTreeMap<String, String> {
    let valid = || lines.iter().filter(|line| line.is_valid());
    let of = |factor: &Factor| {
        let name = &factor.name;
        // Beside another heap, a node has other values by itself.
        let all_default = valid().find(|line| line.planned.setting.is_default());
        let line = all_default.or_else(|| valid().find(|line| line.planned.setting.get(name).is_none()));
        let read = line.and_then(|line| line.read_back.get(name).cloned());
        Some((name.clone(), factor.default.clone().or(read)?))
    };
    plan.factors.iter().filter_map(of).collect()
}

fn write_out(plan: &Plan, change: &mut Change, defaults: &BTreeMap<String, String>) {
    let (mut to, mut back) = (Vec::new(), Vec::new());
    for (name, value) in change.setting.0.clone() {
        let Some(factor) = plan.factor(&name) else { continue };
        let before = defaults.get(&name);
        match factor.applied() {
            Applied::Restart | Applied::Live => {
                change.yaml.push(yaml(factor, &value, before));
                let command = |value: &str| live(&name, value);
                if factor.applied() == Applied::Live
                    && let Some(pair) = command(&value).zip(before.and_then(|before| command(before)))
                {
                    change.live.push(pair);
                }
            }
            Applied::Table => {
                to.push(format!("{name} = {value}"));
                back.extend(before.map(|before| format!("{name} = {before}")));
            }
            Applied::Heap => {
                let set = |mib: &str| format!("set -Xms{mib}m -Xmx{mib}m");
                let back = before.map_or_else(|| "set -Xms and -Xmx as they were".to_owned(), |mib| set(mib));
                change.jvm.push((set(&value), back));
            }
            Applied::Jvm => {
                let set = factor.default.as_ref().map_or_else(String::new, |before| format!(", and add {before}"));
                change.jvm.push((format!("add {value}"), format!("delete {value}{set}")));
            }
        }
    }
    if !to.is_empty() {
        let alter = |options: &[String]| format!("ALTER TABLE keyspace.table WITH {};", options.join(" AND "));
        change.alter_table = Some((alter(&to), alter(&back)));
    }
}

/// What to do to a key of `cassandra.yaml`, and what leads back. A node that has a value by itself has
/// no line with it.
fn yaml(factor: &Factor, value: &str, before: Option<&String>) -> (String, String) {
    let name = &factor.name;
    if let Some((to, back)) = sync_keys(value).zip(before.and_then(|before| sync_keys(before)))
        && name == sync::NAME
    {
        return (to, back);
    }
    let was = before.map_or_else(String::new, |before| format!(" (was {before})"));
    let old =
        crate::catalogue::old_name(name).map_or_else(String::new, |old| format!("; delete {old}, if it is there"));
    let back = match &factor.default {
        Some(default) => format!("set {name}: {default}"),
        None => format!("set {name} as it was, or delete it{}", was.replace("was", "by itself it is")),
    };
    (format!("set {name}: {value}{was}{old}"), back)
}

/// The keys of a mode of the commit log, and those to delete.
fn sync_keys(value: &str) -> Option<String> {
    let sync::Keys { set, delete } = sync::keys(value)?;
    let set: Vec<_> = set.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
    Some(format!("set {}; delete {}, if it is there", set.join(", "), delete.join(" and ")))
}

/// The command that sets a value on a running node.
fn live(name: &str, value: &str) -> Option<String> {
    let words = crate::catalogue::find(name)?.nodetool?.join(" ");
    Some(format!("nodetool {words} {}", crate::catalogue::for_nodetool(name, value)?))
}
