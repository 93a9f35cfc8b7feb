//! What a finding does not say by itself: runs that do not count, operations that were lost, and
//! how late the load was.

use std::collections::BTreeMap;

use testbed::page::number::significant;

use crate::analysis::{Row, Table};
use crate::checks::LATENESS_SHARE_MAX;
use crate::factor::Setting;
use crate::line::Line;
use crate::metric::{self, LATENESS_P99_MS, Metric};
use crate::plan::Bound;
use crate::recommend::{bound_mean, loses_more};
use crate::report::changed;
use crate::stats::Difference;

/// What should be known of the runs of a workload.
pub(crate) fn caveats(lines: &[Line], workload: &str, table: Option<&Table>, objective: &Metric) -> Vec<String> {
    let lines: Vec<_> = lines.iter().filter(|line| line.planned.workload == workload).collect();
    let mut all = void_attempts(&lines);
    all.extend(table.into_iter().flat_map(losing));
    all.extend(lateness(&lines, objective));
    all
}

/// Settings of which attempts do not count: a setting that is measured only when it works looks
/// better than it is.
fn void_attempts(lines: &[&Line]) -> Vec<String> {
    let mut counts: BTreeMap<&Setting, (usize, usize)> = BTreeMap::new();
    for line in lines {
        let (void, all) = counts.entry(&line.planned.setting).or_default();
        (*void, *all) = (*void + usize::from(!line.is_valid()), *all + 1);
    }
    let of = |(setting, (void, all)): (&Setting, (usize, usize))| {
        format!("Of {all} attempts with {setting}, {void} do not count.")
    };
    counts.into_iter().filter(|(_, (void, _))| *void > 0).map(of).collect()
}

fn losing(table: &Table) -> Vec<String> {
    let default = table.rows.iter().find(|row| row.setting.is_default()).map_or(0.0, |row| row.failed_share);
    let losing = table.rows.iter().filter(|row| loses_more((default, row.failed_share)));
    let of = |row: &Row| {
        let (share, default) = (row.failed_share * 100.0, default * 100.0);
        format!("{} loses {share:.2} % of the operations, the default {default:.2} %: it is not selected.", row.setting)
    };
    losing.map(of).collect()
}

/// What is to be known of a setting that is better and does not keep the bound.
pub(crate) fn over_bound(
    bound: &Bound,
    tables: &[Table],
    table: &Table,
    (row, difference): (&Row, &Difference),
) -> Option<String> {
    let mean = bound_mean(bound, tables, table, row);
    if mean.is_some_and(|mean| mean <= bound.max) {
        return None;
    }
    let title = metric::find(&bound.metric).map_or(bound.metric.as_str(), |metric| metric.title);
    let is = mean.map_or_else(|| "was not measured".to_owned(), |mean| format!("is {}", significant(mean)));
    Some(format!(
        "{} is better by {}, but {title} {is} then, and may be at most {}: it is not selected.",
        row.setting,
        changed(difference.scale, difference.change),
        significant(bound.max)
    ))
}

fn lateness(lines: &[&Line], objective: &Metric) -> Option<String> {
    let counting: Vec<_> = lines.iter().filter(|line| line.is_valid()).collect();
    let late = counting.iter().filter_map(|line| {
        let (late, value) = (*line.metrics.get(LATENESS_P99_MS)?, *line.metrics.get(objective.name)?);
        (late > value * LATENESS_SHARE_MAX).then_some(late)
    });
    let late: Vec<_> = late.collect();
    let most = late.iter().copied().max_by(f64::total_cmp).filter(|_| objective.is_latency())?;
    Some(format!(
        "In {} of {} runs the load itself was sent late by more than a tenth of the objective, at most {most:.1} ms \
         (p99): its latencies are in part those of this machine.",
        late.len(),
        counting.len()
    ))
}
