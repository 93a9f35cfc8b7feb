//! The tables of a report: on the terminal and on the page.

use testbed::page::number::{NONE, significant};

use super::Report;
use super::words::{changed, probability_of};
use crate::analysis::{Analysis, Fresh, Front, Table};
use crate::closed;
use crate::execute;
use crate::factor::Setting;
use crate::metric;
use crate::search::Proposal;
use crate::stats::Difference;

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// What it is.
    pub title: String,
    /// The names of its columns.
    pub headings: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// All tables of a report.
pub fn sections(report: &Report<'_>) -> Vec<Section> {
    let analysis = &report.analysis;
    let mut all: Vec<_> = analysis.tables.iter().map(|table| settings(table, &analysis.missing)).collect();
    all.extend(analysis.tables.iter().filter(|table| !table.contrasts.is_empty() || table.left_out > 0).map(effects));
    all.extend(analysis.fronts.iter().map(front));
    all.extend(rounds(report));
    all.extend(fresh(&analysis.fresh));
    all.extend(drift(analysis));
    if report.study.plan().is_closed() {
        all.iter_mut().for_each(|section| section.title.push_str(closed::MARK));
    }
    let mut also = |title: &str, headings: Vec<&'static str>, rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            all.push(Section { title: title.to_owned(), headings, rows });
        }
    };
    let void = analysis.void.iter().map(|void| {
        let (workload, setting) = (void.workload.clone(), void.setting.to_string());
        vec![void.number.to_string(), void.attempt.to_string(), workload, setting, void.why.join("; ")]
    });
    also("Runs that do not count", vec!["run", "attempt", "workload", "setting", "why"], void.collect());
    let notes = analysis.notes.iter().map(|(run, note)| vec![run.to_string(), note.clone()]);
    also("Notes", vec!["run", "note"], notes.collect());
    let aliases = analysis.aliases.iter().map(|alias| vec![alias.clone()]);
    also("Indistinguishable in this fraction", vec!["contrast"], aliases.collect());
    all
}

fn title(metric: &str) -> String {
    metric::find(metric).map_or_else(
        || metric.to_owned(),
        |known| {
            if known.unit.is_empty() { known.title.to_owned() } else { format!("{} ({})", known.title, known.unit) }
        },
    )
}

fn range(interval: Option<(f64, f64)>, write: impl Fn(f64) -> String) -> String {
    interval
        .map_or_else(|| NONE.to_owned(), |(low, high)| format!("{} to {}", write(low.min(high)), write(low.max(high))))
}

fn probability(p: Option<f64>) -> String {
    p.map_or_else(|| NONE.to_owned(), probability_of)
}

/// The change of a difference, and its interval.
fn change(difference: Option<&Difference>) -> [String; 2] {
    let Some(difference) = difference else { return [NONE, NONE].map(str::to_owned) };
    let write = |change| changed(difference.scale, change);
    [write(difference.change), range(difference.interval, write)]
}

fn settings(table: &Table, missing: &[(Setting, String)]) -> Section {
    let row = |row: &crate::analysis::Row| {
        let (summary, difference) = (&row.summary, row.difference.as_ref());
        let [to_default, interval] = change(difference);
        vec![
            row.setting.to_string(),
            summary.values.len().to_string(),
            format!("{} ± {}", significant(summary.mean), significant(summary.rmse)),
            summary.sd.map_or_else(|| NONE.to_owned(), significant),
            range(summary.interval, significant),
            to_default,
            interval,
            probability(difference.and_then(|difference| difference.p_corrected)),
        ]
    };
    let missing = missing.iter().filter(|(_, workload)| workload == &table.workload);
    let without = missing.map(|(setting, _)| {
        let mut cells = vec![setting.to_string(), "0".to_owned()];
        cells.resize(8, NONE.to_owned());
        cells
    });
    Section {
        title: format!("{} under {}", title(&table.metric), table.workload),
        headings: vec!["setting", "n", "mean ± RMSE", "SD", "95 %", "to default", "95 %", "p (Holm)"],
        rows: table.rows.iter().map(row).chain(without).collect(),
    }
}

/// What a title says of blocks that are left out.
pub(super) fn without(blocks: usize) -> String {
    if blocks == 0 { String::new() } else { format!(", without {blocks} blocks of which not all runs count") }
}

fn effects(table: &Table) -> Section {
    let row = |contrast: &crate::stats::Contrast| {
        let (effect, interval) = (significant(contrast.effect), range(contrast.interval, significant));
        vec![contrast.name(), effect, interval, probability(contrast.p_corrected)]
    };
    let (of, left_out) = (title(&table.metric), without(table.left_out));
    Section {
        title: format!("Effects and interactions: {of} under {}{left_out}", table.workload),
        headings: vec!["factors", "effect", "95 %", "p (Holm)"],
        rows: table.contrasts.iter().map(row).collect(),
    }
}

fn front(front: &Front) -> Section {
    let (one, other) = &front.metrics;
    let best = front.points.iter().filter(|(.., is_best)| *is_best);
    Section {
        title: format!("Front of Pareto: {} and {} under {}", title(one), title(other), front.workload),
        headings: vec!["setting", "first", "second"],
        rows: best.map(|(setting, a, b, _)| vec![setting.to_string(), significant(*a), significant(*b)]).collect(),
    }
}

/// What a Bayesian design chose, what was expected of it, and what it had.
fn rounds(report: &Report<'_>) -> Option<Section> {
    let plan = report.study.plan();
    let all = execute::rounds(plan, report.study.lines());
    let row = |(round, proposal): &(u32, Proposal)| {
        let of = |table: &&Table| table.metric == plan.objective && table.workload == proposal.workload;
        let rows = report.analysis.tables.iter().find(of).map_or(&[][..], |table| &table.rows);
        let found = rows.iter().find(|row| row.setting == proposal.setting).and_then(|row| row.difference.as_ref());
        let scale = rows.iter().find_map(|row| Some(row.difference.as_ref()?.scale));
        let [measured, _] = change(found);
        vec![
            round.to_string(),
            proposal.workload.clone(),
            proposal.setting.to_string(),
            scale.map_or_else(|| NONE.to_owned(), |scale| changed(scale, proposal.expected)),
            measured,
            proposal.keeps_bound.map_or_else(|| NONE.to_owned(), |keeps| format!("{:.0} %", keeps * 100.0)),
        ]
    };
    (!all.is_empty()).then(|| Section {
        title: format!("Rounds: {}, what was expected and what was measured", title(&plan.objective)),
        headings: vec!["round", "workload", "setting", "expected", "measured", "keeps the bound"],
        rows: all.iter().map(row).collect(),
    })
}

fn fresh(all: &[Fresh]) -> Option<Section> {
    let row = |fresh: &Fresh| {
        let difference = &fresh.difference;
        let [to_default, interval] = change(Some(difference));
        vec![
            format!("{} under {}", title(&fresh.metric), fresh.workload),
            fresh.setting.to_string(),
            difference.blocks.to_string(),
            to_default,
            interval,
            probability(difference.p_corrected),
        ]
    };
    (!all.is_empty()).then(|| Section {
        title: "What was selected, measured afresh".to_owned(),
        headings: vec!["metric", "setting", "blocks", "to default", "95 %", "p (Holm)"],
        rows: all.iter().map(row).collect(),
    })
}

fn drift(analysis: &Analysis) -> Option<Section> {
    let row = |(metric, drift): (&String, &crate::stats::Drift)| {
        let verdict = if drift.is_drifting { "drift" } else { "none" };
        let change = changed(drift.scale, drift.change);
        vec![title(metric), drift.runs.to_string(), change, probability(drift.p), verdict.to_owned()]
    };
    let rows: Vec<_> = analysis.drifts.iter().map(row).collect();
    let headings = vec!["metric", "runs", "first to last", "p", "drift"];
    (!rows.is_empty()).then(|| Section { title: "Drift of the default".to_owned(), headings, rows })
}
