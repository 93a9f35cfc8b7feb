//! The tables of the thesis on tuning compaction, by the same names: what the defaults do under
//! each mix, what each parameter does, the best values, and all of them together.

use serde::Serialize;
use testbed::page::number::{NONE, significant};

use super::Report;
use super::words::{changed, percent};
use crate::closed;
use crate::factor::{Factor, Setting};
use crate::line::Line;
use crate::plan::Plan;
use crate::stats::Summary;
use crate::union::best_values;

/// The figures of the thesis: its name for each, and ours.
const KPIS: [(&str, &str); 22] = [
    ("bytes compacted", "jmx_compacted_bytes"),
    ("completed tasks", "compaction_tasks"),
    ("pending tasks", "pending_compactions"),
    ("total compactions", "jmx_compactions"),
    ("compaction rate (bytes/s)", "compaction_rate_bytes_per_s"),
    ("memory used (share)", "memory_used_share"),
    ("memory cached (bytes)", "memory_cached_bytes"),
    ("CPU (share)", "cpu"),
    ("CPU, user (share)", "cpu_user"),
    ("CPU, privileged (share)", "cpu_system"),
    ("disk use (share of the space)", "disk_used"),
    ("disk use (share of the time)", "disk_busy"),
    ("disk throughput (bytes/s)", "disk_bytes_per_s"),
    ("disk latency (ms)", "disk_latency_ms"),
    ("read throughput (bytes/s)", "disk_read_bytes_per_s"),
    ("write throughput (bytes/s)", "disk_written_bytes_per_s"),
    ("reads (1/s)", "disk_reads_per_s"),
    ("writes (1/s)", "disk_writes_per_s"),
    ("operations (1/s)", "rate_per_s"),
    ("mean latency of operations (ms)", "mean_ms"),
    ("mean round trip of packets (ms)", "packet_round_trip_ms"),
    ("p99 of latency (ms)", "p99_ms"),
];

/// What the thesis read the other way round.
pub(super) const WARNING: &str = "More bytes compacted, more compactions and a higher rate of them are costs here, not \
    aims: a node that compacts more for the same load writes and computes more.";

/// Whether a metric is one of compactions, which the thesis read the other way round.
pub(super) fn is_of_compactions(metric: &str) -> bool {
    metric.contains("compact")
}

/// Whether a table has figures of compactions.
pub(super) fn has_compactions(grid: &Grid) -> bool {
    let is_it = |name: &String| KPIS.iter().any(|(known, metric)| known == name && is_of_compactions(metric));
    grid.rows.iter().filter_map(|row| row.first()).any(is_it)
}

/// A table whose columns follow from the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grid {
    /// What it is.
    pub title: String,
    /// The names of its columns.
    pub headings: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// All of these tables. What was not measured has no row, and what has no rows no table.
pub fn grids(report: &Report<'_>) -> Vec<Grid> {
    let plan = report.study.plan();
    let valid: Vec<_> = report.study.lines().iter().filter(|line| line.is_valid()).collect();
    let first: Vec<_> = valid.iter().copied().filter(|line| line.planned.stage == 1).collect();
    let mut all = vec![by_mix(plan, &first)];
    for workload in &plan.workloads {
        all.extend(plan.factors.iter().map(|factor| by_value(factor, &workload.name, &first)));
    }
    all.push(best(report));
    // The second stage of a Bayesian design has its rounds.
    let is_of_union = |line: &&Line| line.planned.stage == 2 && plan.design.has_union();
    let second: Vec<_> = valid.into_iter().filter(is_of_union).collect();
    all.extend(plan.workloads.iter().map(|workload| union(&workload.name, &second)));
    all.retain(|grid| !grid.rows.is_empty());
    if plan.is_closed() {
        all.iter_mut().for_each(|grid| grid.title.push_str(closed::MARK));
    }
    all
}

/// The runs of a setting under a workload.
fn runs<'a>(lines: &[&'a Line], workload: &str, setting: &Setting) -> Vec<&'a Line> {
    let is_it = |line: &&&Line| line.planned.workload == workload && &line.planned.setting == setting;
    lines.iter().filter(is_it).copied().collect()
}

fn summary(lines: &[&Line], metric: &str) -> Option<Summary> {
    Summary::of(&lines.iter().filter_map(|line| line.metrics.get(metric).copied()).collect::<Vec<_>>())
}

fn cell(lines: &[&Line], metric: &str) -> String {
    let written = |summary: Summary| format!("{} ± {}", significant(summary.mean), significant(summary.rmse));
    summary(lines, metric).map_or_else(|| NONE.to_owned(), written)
}

/// A row for each figure that any of these runs has, with a cell for each column of runs.
fn rows(columns: &[Vec<&Line>]) -> Vec<Vec<String>> {
    let is_there = |metric: &str| columns.iter().flatten().any(|line| line.metrics.contains_key(metric));
    let there = KPIS.iter().filter(|(_, metric)| is_there(metric));
    let row = |(name, metric): &(&str, &str)| {
        std::iter::once((*name).to_owned()).chain(columns.iter().map(|lines| cell(lines, metric))).collect()
    };
    there.map(row).collect()
}

fn by_mix(plan: &Plan, lines: &[&Line]) -> Grid {
    let names: Vec<_> = plan.workloads.iter().map(|workload| workload.name.clone()).collect();
    let columns: Vec<_> = names.iter().map(|name| runs(lines, name, &Setting::default())).collect();
    Grid { title: "Defaults by mix (mean ± RMSE)".to_owned(), headings: headed("figure", names), rows: rows(&columns) }
}

fn headed(first: &str, others: Vec<String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(others).collect()
}

/// Only if the values were measured alone: beside others, the difference is not that of the value.
fn by_value(factor: &Factor, workload: &str, lines: &[&Line]) -> Grid {
    let single = |value: &String| Setting::of([(factor.name.as_str(), Some(value.as_str()))]);
    let columns: Vec<_> = std::iter::once(Setting::default())
        .chain(factor.values.iter().map(single))
        .map(|setting| runs(lines, workload, &setting))
        .collect();
    let default = factor.default.as_ref().map_or_else(|| "default".to_owned(), |value| format!("default ({value})"));
    let is_measured = columns.iter().skip(1).any(|lines| !lines.is_empty());
    Grid {
        title: format!("KPI by value of {} under {workload} (mean ± RMSE)", factor.name),
        headings: headed("figure", std::iter::once(default).chain(factor.values.iter().cloned()).collect()),
        rows: if is_measured { rows(&columns) } else { Vec::new() },
    }
}

/// The value of each parameter that was best alone, by the objective.
fn best(report: &Report<'_>) -> Grid {
    let objective = &report.study.plan().objective;
    let tables = report.analysis.tables.iter().filter(|table| &table.metric == objective);
    let mut rows = Vec::new();
    for table in tables {
        let of_factors = best_values(table);
        rows.extend(report.study.plan().factors.iter().map(|factor| {
            // A value that was measured in some blocks only is no best one.
            let found = of_factors.get(factor.name.as_str()).filter(|_| factor.repeats.is_none());
            let gain = found.map(|(_, difference)| changed(difference.scale, difference.change));
            let value = found.map_or("default", |(value, _)| value);
            [&table.workload, &factor.name, value, gain.as_deref().unwrap_or(NONE)].map(str::to_owned).to_vec()
        }));
    }
    let is_single = report.analysis.tables.iter().flat_map(|table| &table.rows).any(|row| row.setting.0.len() == 1);
    Grid {
        title: format!("Best values of each parameter alone, by {objective}"),
        headings: ["mix", "parameter", "best value", "to default"].map(str::to_owned).to_vec(),
        rows: if is_single { rows } else { Vec::new() },
    }
}

/// The best values together, beside the default of the same blocks.
fn union(workload: &str, lines: &[&Line]) -> Grid {
    let of_workload = lines.iter().map(|line| &line.planned).filter(|planned| planned.workload == workload);
    let setting = of_workload.map(|planned| &planned.setting).find(|setting| !setting.is_default());
    let columns = setting.map(|setting| [&Setting::default(), setting].map(|one| runs(lines, workload, one)));
    let change = |columns: &[Vec<&Line>; 2], metric: &str| {
        let (default, union) = (summary(&columns[0], metric)?.mean, summary(&columns[1], metric)?.mean);
        (default != 0.0).then(|| percent(union / default - 1.0))
    };
    let rows = columns.iter().flat_map(|columns| {
        let with_change = |mut row: Vec<String>| {
            let metric = KPIS.iter().find(|(name, _)| row.first().is_some_and(|first| first == name));
            row.push(metric.and_then(|(_, metric)| change(columns, metric)).unwrap_or_else(|| NONE.to_owned()));
            row
        };
        rows(columns).into_iter().map(with_change).collect::<Vec<_>>()
    });
    Grid {
        title: format!(
            "Union of the best values against default under {workload}: {} (mean ± RMSE)",
            setting.map(Setting::to_string).unwrap_or_default()
        ),
        headings: ["figure", "default", "union", "to default"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schedule::Planned;

    #[test]
    fn the_use_of_the_disk_is_that_of_its_space_and_that_of_its_time_each_by_its_name() {
        let planned = Planned {
            number: 1,
            stage: 1,
            block: 1,
            workload: "w".to_owned(),
            setting: Setting::default(),
            is_control: false,
            seed: 1,
        };
        let line = Line {
            planned,
            attempt: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            took_s: 1.0,
            was_restarted: false,
            read_back: std::collections::BTreeMap::new(),
            metrics: [("disk_used", 0.25), ("disk_busy", 0.75)].map(|(name, value)| (name.to_owned(), value)).into(),
            void: Vec::new(),
            notes: Vec::new(),
        };
        let rows = rows(&[vec![&line]]);
        let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap()[1].clone();
        assert!(row("disk use (share of the space)").starts_with("0.25"), "{rows:?}");
        assert!(row("disk use (share of the time)").starts_with("0.75"), "{rows:?}");
    }
}
