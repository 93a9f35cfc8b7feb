//! The questions of the thesis on tuning compaction, answered by what was measured here: do more
//! writes make more compactions; does the limit of compactions matter; are the best values together
//! worse than the default; and is a mix with fewer writes slower at an equal rate?

use testbed::page::number::significant;

use super::Report;
use super::words::{changed, probability_of};
use crate::analysis::Row;
use crate::metric::{self, Metric};
use crate::recommend::{is_better, is_sure};
use crate::rig::THROTTLE;
use crate::stats::{Sample, Scale};

/// Compactions in bytes on disk, with those that end later.
const COMPACTED: &str = "compacted_bytes_drained";

/// A question with its answer.
pub(super) struct Answer {
    /// The question.
    pub question: &'static str,
    /// The answer, for the machine that was measured.
    pub answer: String,
}

/// The questions for which there are runs.
pub(super) fn answers(report: &Report<'_>) -> Vec<Answer> {
    let (objective, compacted) = (&report.study.plan().objective, COMPACTED);
    let all = [
        ("Do more writes make more compactions?", by_mix(report, compacted, "compact")),
        ("Does the limit of compactions make a difference?", limit(report)),
        ("Are the best values together worse than the default?", union(report)),
        ("Is a mix with more writes slower at an equal rate?", by_mix(report, objective, "take")),
    ];
    all.into_iter().filter_map(|(question, answer)| Some(Answer { question, answer: answer? })).collect()
}

/// The default under the mixes with the fewest and with the most writes, at the same rate.
fn by_mix(report: &Report<'_>, name: &str, verb: &str) -> Option<String> {
    let metric = metric::find(name).filter(|metric| metric.is_less_better)?;
    // In a closed loop the rate follows from the node, whatever the plan says.
    if report.study.plan().is_closed() {
        return None;
    }
    let mut mixes: Vec<_> = report.study.plan().workloads.iter().collect();
    mixes.sort_by(|one, other| one.mix.read_share().total_cmp(&other.mix.read_share()));
    let (most, fewest) = (mixes.first()?, mixes.last()?);
    if most.mix.read_share() >= fewest.mix.read_share() || most.rate != fewest.rate {
        return None;
    }
    let values = |workload: &str| -> Vec<f64> {
        let lines = report.study.lines().iter().filter(|line| line.is_valid() && line.planned.stage == 1);
        let of_default = lines.filter(|line| line.planned.setting.is_default() && line.planned.workload == workload);
        of_default.filter_map(|line| line.metrics.get(name).copied()).collect()
    };
    let (of_most, of_fewest) = (values(&most.name), values(&fewest.name));
    let scale = Scale::of(of_most.iter().chain(&of_fewest).copied());
    let sample = |values: &[f64]| Sample::of(&values.iter().map(|value| scale.at(*value)).collect::<Vec<_>>(), 1.0);
    let (one, other) = (sample(&of_most)?, sample(&of_fewest)?);
    let difference = changed(scale, scale.shown(one.mean - other.mean));
    let mean = |values: &[f64]| significant(values.iter().sum::<f64>() / values.len() as f64);
    let figures = format!(
        "{} and {} {} of {}: {difference}{}",
        format_args!("{} under {}", mean(&of_most), most.name),
        format_args!("{} under {}", mean(&of_fewest), fewest.name),
        metric.unit,
        metric.title,
        p(one.p_apart(&other)),
    );
    let verdict = match (is_sure(one.p_apart(&other)), one.mean > other.mean) {
        (false, _) => "No difference found.".to_owned(),
        (true, true) => format!("Yes, they {verb} more."),
        (true, false) => format!("No, they {verb} less."),
    };
    Some(format!("{verdict} {figures}."))
}

fn p(p: Option<f64>) -> String {
    p.map_or_else(String::new, |p| format!(" (p {}{})", if p < 0.001 { "" } else { "= " }, probability_of(p)))
}

/// The rows of the objective that are chosen, each with its workload.
fn rows<'a>(report: &'a Report<'_>, is_chosen: impl Fn(&Row) -> bool) -> Vec<(&'a str, &'a Row)> {
    let tables = report.analysis.tables.iter().filter(|table| table.metric == report.study.plan().objective);
    let of_table = tables.flat_map(|table| table.rows.iter().map(|row| (table.workload.as_str(), row)));
    of_table.filter(|(_, row)| row.difference.is_some() && is_chosen(row)).collect()
}

fn limit(report: &Report<'_>) -> Option<String> {
    let rows = rows(report, |row| row.setting.0.len() == 1 && row.setting.get(THROTTLE).is_some());
    let sure = rows.iter().filter(|(_, row)| row.difference.as_ref().is_some_and(|found| is_sure(found.p_corrected)));
    let sure: Vec<_> = sure.map(|(workload, row)| described(workload, row)).collect();
    match (rows.len(), sure.len()) {
        (0, _) => None,
        (count, 0) => Some(format!("No difference found, by {count} values and mixes.")),
        _ => Some(format!("Yes: {}.", sure.join("; "))),
    }
}

fn union(report: &Report<'_>) -> Option<String> {
    // The second stage of a Bayesian design has its rounds.
    if !report.study.plan().design.has_union() {
        return None;
    }
    let unions = report.study.lines().iter().filter(|line| line.planned.stage == 2).map(|line| &line.planned.setting);
    let unions: Vec<_> = unions.filter(|setting| !setting.is_default()).collect();
    let objective = metric::find(&report.study.plan().objective)?;
    let rows = rows(report, |row| unions.contains(&&row.setting));
    let verdict = |row: &Row| verdict(row, objective);
    let told: Vec<_> =
        rows.iter().map(|(workload, row)| format!("{} {}", verdict(row), described(workload, row))).collect();
    (!told.is_empty()).then(|| format!("{}.", told.join("; ")))
}

fn verdict(row: &Row, objective: &Metric) -> &'static str {
    match &row.difference {
        Some(found) if is_sure(found.p_corrected) && is_better(found.change, objective) => "No, better:",
        Some(found) if is_sure(found.p_corrected) => "Yes:",
        _ => "No difference found:",
    }
}

fn described(workload: &str, row: &Row) -> String {
    let found = row.difference.as_ref();
    let change = found.map_or_else(String::new, |found| changed(found.scale, found.change));
    format!("{} under {workload} {change}{}", row.setting, p(found.and_then(|found| found.p_corrected)))
}
