//! The questions of the thesis on tuning compaction, answered by what was measured here: do more
//! writes make more compactions; does the limit of compactions matter; are the best values together
//! worse than the default; and is a mix with fewer writes slower at an equal rate?

use serde::Serialize;
use testbed::page::number::significant;

use super::Report;
use super::words::{changed, probability_of};
use crate::analysis::{Analysis, Row};
use crate::estimate;
use crate::line::Line;
use crate::metric::{self, Metric};
use crate::plan::Plan;
use crate::recommend::{is_better, is_sure};
use crate::rig::THROTTLE;
use crate::stats::{Sample, Scale};

/// Compactions in bytes on disk, with those that end later.
const COMPACTED: &str = "compacted_bytes_drained";

/// A question with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The question.
    pub question: &'static str,
    /// The answer, for the machine that was measured.
    pub answer: String,
}

/// The questions for which there are runs.
pub fn answers(report: &Report<'_>) -> Vec<Answer> {
    let (plan, lines, analysis) = (report.study.plan(), report.study.lines(), &report.analysis);
    let (more, fewer) = (("Yes, they compact more.", "No, they compact less."), ("Yes.", "No, it is faster."));
    let all = [
        ("Do more writes make more compactions?", by_mix(plan, lines, COMPACTED, Mixes::WithMore, more)),
        ("Does the limit of compactions make a difference?", limit(plan, analysis)),
        ("Are the best values together worse than the default?", union(plan, lines, analysis)),
        (
            "Is a mix with fewer writes slower at an equal rate?",
            by_mix(plan, lines, &plan.objective, Mixes::WithFewer, fewer),
        ),
    ];
    all.into_iter().filter_map(|(question, answer)| Some(Answer { question, answer: answer? })).collect()
}

/// Of which mix a question asks: it is compared with the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mixes {
    /// The one with the most writes.
    WithMore,
    /// The one with the fewest writes.
    WithFewer,
}

/// The default under the mixes with the fewest and with the most writes, at the same rate. `verdicts`
/// are the words for a mix that needs more than the other, and for one that needs less.
fn by_mix(plan: &Plan, lines: &[Line], name: &str, asked: Mixes, verdicts: (&str, &str)) -> Option<String> {
    let metric = metric::find(name).filter(|metric| metric.is_less_better)?;
    // In a closed loop the rate follows from the node, whatever the plan says.
    if plan.is_closed() {
        return None;
    }
    let mut mixes: Vec<_> = plan.workloads.iter().collect();
    mixes.sort_by(|one, other| one.mix.read_share().total_cmp(&other.mix.read_share()));
    let (most, fewest) = (mixes.first()?, mixes.last()?);
    if most.mix.read_share() >= fewest.mix.read_share() || most.rate != fewest.rate {
        return None;
    }
    // Runs that look for a rate have figures of the rates that they have found, which differ.
    if most.hold.is_some() || fewest.hold.is_some() {
        return None;
    }
    let (asked, beside) = if asked == Mixes::WithMore { (most, fewest) } else { (fewest, most) };
    let values = |workload: &str| -> Vec<f64> {
        let lines = lines.iter().filter(|line| line.is_valid() && line.planned.stage == 1);
        let of_default = lines.filter(|line| line.planned.setting.is_default() && line.planned.workload == workload);
        of_default.filter_map(|line| line.metrics.get(name).copied()).collect()
    };
    let (of_asked, of_beside) = (values(&asked.name), values(&beside.name));
    let all = || of_asked.iter().chain(&of_beside).copied();
    let scale = Scale::of(all());
    let size = scale.size(all());
    let sample = |values: &[f64]| Sample::of(&values.iter().map(|value| scale.at(*value)).collect::<Vec<_>>(), size);
    let (one, other) = (sample(&of_asked)?, sample(&of_beside)?);
    let difference = changed(scale, scale.shown(one.mean - other.mean));
    let mean = |values: &[f64]| significant(values.iter().sum::<f64>() / values.len() as f64);
    let figures = format!(
        "{} under {} and {} under {} {} of {}: {difference}{}",
        mean(&of_asked),
        asked.name,
        mean(&of_beside),
        beside.name,
        metric.unit,
        metric.title,
        p(one.p_apart(&other)),
    );
    let verdict = match (is_sure(one.p_apart(&other)), one.mean > other.mean) {
        (false, _) => "No difference found.",
        (true, true) => verdicts.0,
        (true, false) => verdicts.1,
    };
    Some(format!("{verdict} {figures}."))
}

fn p(p: Option<f64>) -> String {
    p.map_or_else(String::new, |p| format!(" (p {}{})", if p < 0.001 { "" } else { "= " }, probability_of(p)))
}

/// The rows of a metric that are chosen, each with its workload.
fn rows<'a>(metric: &str, analysis: &'a Analysis, is_chosen: impl Fn(&Row) -> bool) -> Vec<(&'a str, &'a Row)> {
    let tables = analysis.tables.iter().filter(|table| table.metric == metric);
    let of_table = tables.flat_map(|table| table.rows.iter().map(|row| (table.workload.as_str(), row)));
    of_table.filter(|(_, row)| row.difference.is_some() && is_chosen(row)).collect()
}

/// Whether values of the limit of compactions differ from its default, by the objective. That they do
/// not is no finding where no run could reach the least of them. The answer also names those that
/// change the bytes compacted, because the objective may not show a limit that binds.
fn limit(plan: &Plan, analysis: &Analysis) -> Option<String> {
    let of =
        |metric: &str| rows(metric, analysis, |row| row.setting.0.len() == 1 && row.setting.get(THROTTLE).is_some());
    let count = of(&plan.objective).len();
    if count == 0 {
        return None;
    }
    let sure = |metric: &str| {
        let rows = of(metric);
        let sure =
            rows.iter().filter(|(_, row)| row.difference.as_ref().is_some_and(|found| is_sure(found.p_corrected)));
        let sure: Vec<_> = sure.map(|(workload, row)| described(workload, row)).collect();
        (!sure.is_empty()).then(|| sure.join("; "))
    };
    let by_objective = match (sure(&plan.objective), estimate::throttle_cannot_bind(plan)) {
        (Some(sure), _) => format!("Yes: {sure}."),
        (None, Some(note)) => {
            format!("This plan cannot show one, and none was found by {count} values and mixes: {note}")
        }
        (None, None) => format!("No difference found, by {count} values and mixes."),
    };
    let compacted = metric::find(COMPACTED).filter(|metric| metric.name != plan.objective);
    let beside = compacted.and_then(|metric| Some(format!(" In {}: {}.", metric.title, sure(metric.name)?)));
    Some(by_objective + &beside.unwrap_or_default())
}

fn union(plan: &Plan, lines: &[Line], analysis: &Analysis) -> Option<String> {
    // The second stage of a Bayesian design has its rounds.
    if !plan.design.has_union() {
        return None;
    }
    let unions = lines.iter().filter(|line| line.planned.stage == 2).map(|line| &line.planned.setting);
    let unions: Vec<_> = unions.filter(|setting| !setting.is_default()).collect();
    let objective = metric::find(&plan.objective)?;
    let rows = rows(&plan.objective, analysis, |row| unions.contains(&&row.setting));
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::analyse;
    use crate::factor::Setting;
    use crate::hold::Hold;
    use crate::schedule::Planned;

    fn plan(limits: [&str; 2]) -> Plan {
        let [default, value] = limits;
        Plan::parse(&format!(
            r#"
            name = "x"
            confirm = 0
            control_every = 0
            beside = ["compacted_bytes_drained"]
            design = {{ kind = "one-at-a-time", workloads = ["mix-90-10"] }}
            workloads = [
              {{ name = "mix-90-10", mix = {{ write = 90, read = 10 }}, rate = 1000, duration = "10s" }},
              {{ name = "mix-50-50", mix = {{ write = 50, read = 50 }}, rate = 1000, duration = "10s" }},
            ]
            [[factors]]
            name = "compaction_throughput"
            default = "{default}"
            values = ["{value}"]
            "#
        ))
        .unwrap()
    }

    /// Five runs, a block each, whose p99 is `ms` and a little more each time.
    fn runs(workload: &str, setting: &Setting, ms: f64, compacted: f64) -> Vec<Line> {
        let line = |block: u32| Line {
            planned: Planned {
                number: block,
                stage: 1,
                block,
                workload: workload.to_owned(),
                setting: setting.clone(),
                is_control: false,
                seed: 1,
            },
            attempt: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            took_s: 1.0,
            was_restarted: false,
            read_back: std::collections::BTreeMap::new(),
            metrics: [("p99_ms", ms), (COMPACTED, compacted)]
                .map(|(name, value)| (name.to_owned(), value * (1.0 + f64::from(block) / 1e3)))
                .into(),
            void: Vec::new(),
            notes: Vec::new(),
        };
        (1..=5).map(line).collect()
    }

    #[test]
    fn a_mix_is_compared_with_the_one_of_which_the_question_says_that_it_is_more() {
        let plan = plan(["16MiB/s", "32MiB/s"]);
        let usual = Setting::default();
        let lines = [runs("mix-90-10", &usual, 10.0, 9e6), runs("mix-50-50", &usual, 20.0, 5e6)].concat();
        let slower = |lines: &[Line]| by_mix(&plan, lines, "p99_ms", Mixes::WithFewer, ("Yes.", "No, it is faster."));
        let answer = slower(&lines).unwrap();
        assert!(answer.starts_with("Yes. 20.1 under mix-50-50 and 10") && answer.contains("+100"), "{answer}");
        let more = by_mix(&plan, &lines, COMPACTED, Mixes::WithMore, ("Yes.", "No."));
        assert!(more.is_some_and(|answer| answer.starts_with("Yes.") && answer.contains("under mix-90-10 and ")));
        let lines = [runs("mix-90-10", &usual, 20.0, 9e6), runs("mix-50-50", &usual, 10.0, 5e6)].concat();
        assert!(slower(&lines).is_some_and(|answer| answer.starts_with("No, it is faster. 10")));
        let lines = [runs("mix-90-10", &usual, 20.0, 9e6), runs("mix-50-50", &usual, 20.0, 9e6)].concat();
        assert!(slower(&lines).is_some_and(|answer| answer.starts_with("No difference found. ")));
        assert_eq!(slower(&runs("mix-90-10", &usual, 20.0, 9e6)), None, "one mix was not measured");
        // Beside a 0 too, large figures that differ in their last digits alone do not scatter.
        let mut of_zero = lines.clone();
        for (at, line) in (0_u32..).zip(&mut of_zero) {
            let compacted = if at < 5 { 9e6 + f64::from(at) * 1e-8 } else { f64::from(at - 5) * 1e5 };
            line.metrics.insert(COMPACTED.to_owned(), compacted);
        }
        let more = by_mix(&plan, &of_zero, COMPACTED, Mixes::WithMore, ("Yes.", "No."));
        assert!(more.as_ref().is_some_and(|answer| answer.starts_with("No difference found. ")), "{more:?}");
        let mut other = plan.clone();
        other.workloads[1].rate = 500.0;
        assert_eq!(by_mix(&other, &lines, "p99_ms", Mixes::WithFewer, ("Yes.", "No.")), None, "the rates differ");
        let mut holding = plan.clone();
        holding.workloads[0].hold = Some(Hold { metric: "p99_ms".to_owned(), max: 42.0, precision: 1.1 });
        let answer = by_mix(&holding, &lines, COMPACTED, Mixes::WithMore, ("Yes.", "No."));
        assert_eq!(answer, None, "each mix has a rate of its own");
    }

    #[test]
    fn a_limit_makes_a_difference_or_none_was_found_or_none_could_be() {
        let answer_of = |limits: [&str; 2], ms: f64, compacted: f64| {
            let plan = plan(limits);
            let other = Setting::of([(THROTTLE, Some(limits[1]))]);
            let lines = [runs("mix-90-10", &Setting::default(), 10.0, 9e6), runs("mix-90-10", &other, ms, compacted)];
            // Runs of one block may scatter beside each other.
            let mut lines = lines.concat();
            lines.iter_mut().step_by(2).flat_map(|line| line.metrics.values_mut()).for_each(|value| *value *= 1.01);
            limit(&plan, &analyse(&plan, &lines)).unwrap()
        };
        let answer = |limits, ms| answer_of(limits, ms, 9e6);
        let found = answer(["1MiB/s", "2MiB/s"], 5.0);
        assert!(found.starts_with("Yes: compaction_throughput = 2MiB/s under mix-90-10 −"), "{found}");
        assert_eq!(answer(["1MiB/s", "2MiB/s"], 10.0), "No difference found, by 1 values and mixes.");
        let never = answer(["16MiB/s", "32MiB/s"], 10.0);
        assert!(never.starts_with("This plan cannot show one") && never.contains("follows from this plan"), "{never}");
        // What was found is found, whatever the estimate says.
        assert!(answer(["16MiB/s", "32MiB/s"], 5.0).starts_with("Yes: "));
        let only_compactions = answer_of(["1MiB/s", "2MiB/s"], 10.0, 18e6);
        let both = ["No difference found, by 1 values and mixes. In bytes compacted until drained: ", " +99.6"];
        assert!(both.iter().all(|part| only_compactions.contains(part)), "{only_compactions}");
        let plan = plan(["1MiB/s", "2MiB/s"]);
        assert_eq!(limit(&plan, &analyse(&plan, &[])), None, "there are no runs");
    }
}
