//! Findings in words.

use testbed::page::number::significant;

use crate::metric;
use crate::recommend::{Change, Finding, Recommendation};

/// A share in percent, with its sign.
pub fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0).replace('-', "−")
}

fn between(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(String::new, |(low, high)| format!(" (95 %: {} to {})", percent(low), percent(high)))
}

/// What was found for a workload, in lines.
pub fn finding(recommendation: &Recommendation) -> Vec<String> {
    let Recommendation { workload, rate, objective, finding } = recommendation;
    let title = metric::find(objective).map_or(objective.as_str(), |metric| metric.title);
    let of = format!("{title} under {workload} at {} operations per second", significant(*rate));
    match finding {
        Finding::Nothing => vec![format!("{of}: nothing was measured that can be compared.")],
        Finding::Drift { relative } => vec![format!(
            "{of}: the default itself changed by {} while it was measured. Differences cannot be trusted, so \
             nothing is recommended.",
            percent(*relative)
        )],
        Finding::NoDifference { visible, effects } => no_difference(&of, *visible, effects),
        Finding::Better(change) => better(&of, change),
    }
}

fn no_difference(of: &str, visible: Option<f64>, effects: &[String]) -> Vec<String> {
    let mut lines = vec![match visible {
        Some(visible) => format!(
            "{of}: no difference found. A true difference of {:.1} % would be found in four of five such studies, \
             a smaller one less often.",
            visible * 100.0
        ),
        None => format!("{of}: no difference found. Without repeats that scatter, none can be."),
    }];
    if !effects.is_empty() {
        lines.push(format!("No single setting is better for sure, but these effects are: {}.", effects.join(", ")));
    }
    lines
}

fn better(of: &str, change: &Change) -> Vec<String> {
    let p = change.p_corrected.map_or_else(String::new, |p| match p {
        p if p < 0.001 => ", p < 0.001".to_owned(),
        p => format!(", p = {p:.3}"),
    });
    let mut lines =
        vec![format!("{of}: {}{}{p} by {}.", percent(change.gain), between(change.gain_interval), change.setting)];
    if change.comparisons > 1 {
        lines.push(format!(
            "It is the best of {} comparisons, so the gain is probably smaller. Measure it again, alone, before you \
             count on it.",
            change.comparisons
        ));
    }
    if !change.yaml.is_empty() {
        lines.push("--- cassandra.yaml".to_owned());
        lines.push("+++ cassandra.yaml".to_owned());
        lines.extend(change.yaml.iter().cloned());
    }
    if let Some((to, back)) = &change.alter_table {
        lines.push(format!("The table: {to}"));
        lines.push(format!("The way back: {back}"));
    }
    if !change.jvm.is_empty() {
        lines.push(format!("Options of Java, to add, and to delete again for the way back: {}", change.jvm.join(" ")));
    }
    for (to, back) in &change.live {
        lines.push(format!("On a running node: {to}; the way back: {back}"));
    }
    if !change.yaml.is_empty() {
        lines.push("The way back of cassandra.yaml: apply the difference in reverse (patch -R).".to_owned());
    }
    if !change.costs.is_empty() {
        lines.push(format!("For the worse: {}.", change.costs.join("; ")));
    }
    lines
}
