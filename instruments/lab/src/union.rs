//! The best value of each factor alone, and all of them together.

use std::collections::BTreeMap;

use crate::analysis::{Table, analyse};
use crate::factor::Setting;
use crate::line::Line;
use crate::metric;
use crate::plan::Plan;
use crate::stats::Difference;

/// By factor, the value that was best alone, with its difference to the default. A factor of which
/// no value looks better than the default is left out.
pub fn best_values(table: &Table) -> BTreeMap<&str, (&str, &Difference)> {
    let mut best = BTreeMap::new();
    let is_less_better = metric::find(&table.metric).is_none_or(|metric| metric.is_less_better);
    // The rows are in order: the first one of a factor is its best.
    for row in table.rows.iter().filter(|row| row.setting.0.len() == 1) {
        let Some(((name, value), difference)) = row.setting.0.iter().next().zip(row.difference.as_ref()) else {
            continue;
        };
        if difference.change != 0.0 && (difference.change < 0.0) == is_less_better {
            best.entry(name.as_str()).or_insert((value.as_str(), difference));
        }
    }
    best
}

/// The best values of all factors together, by the objective, for each workload under which single
/// changes were measured. None if the plan asks for none, or no value beats the default.
pub fn unions(plan: &Plan, lines: &[Line]) -> Vec<(Setting, String)> {
    if !plan.design.has_union() {
        return Vec::new();
    }
    let first: Vec<_> = lines.iter().filter(|line| line.planned.stage == 1).cloned().collect();
    let tables = analyse(plan, &first).tables;
    let of_objective = tables.iter().filter(|table| table.metric == plan.objective);
    let unions = of_objective.map(|table| {
        // What was measured in some blocks only is not compared with what was measured in all.
        let is_whole = |name: &str| plan.factor(name).is_some_and(|factor| factor.repeats.is_none());
        let best = best_values(table).into_iter().filter(|(factor, _)| is_whole(factor));
        (Setting::of(best.map(|(factor, (value, _))| (factor, Some(value)))), table.workload.clone())
    });
    // One value alone was measured already.
    unions.filter(|(union, _)| union.0.len() > 1).collect()
}
