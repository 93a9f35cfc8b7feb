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
        Finding::NotConfirmed { setting, selected, fresh } => vec![format!(
            "{of}: no difference found. {setting} looked better by {}, and measured afresh {} times beside the default \
             it had {}{}{}.",
            percent(selected.relative),
            fresh.blocks,
            percent(fresh.relative),
            between(fresh.interval),
            probability(fresh.p),
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

fn probability(p: Option<f64>) -> String {
    p.map_or_else(String::new, |p| match p {
        p if p < 0.001 => ", p < 0.001".to_owned(),
        p => format!(", p = {p:.3}"),
    })
}

fn better(of: &str, change: &Change) -> Vec<String> {
    let (gain, selected) = (change.gain(), &change.selected);
    let p = probability(gain.p);
    let mut lines =
        vec![format!("{of}: {}{}{p} by {}.", percent(gain.relative), between(gain.interval), change.setting)];
    if let Some(fresh) = &change.fresh {
        let best = match selected.comparisons {
            0 | 1 => String::new(),
            comparisons => format!(" as the best of {comparisons} comparisons"),
        };
        lines.push(format!(
            "That is what {} fresh runs beside the default had. It was selected{best}, with {}.",
            fresh.blocks,
            percent(selected.relative),
        ));
    } else if selected.comparisons > 1 {
        lines.push(format!(
            "It is the best of {} comparisons, so the gain is probably smaller. Measure it again, alone, before you \
             count on it.",
            selected.comparisons
        ));
    }
    for (what, steps) in [("cassandra.yaml", &change.yaml), ("Options of Java", &change.jvm)] {
        for (to, back) in steps {
            lines.push(format!("{what}: {to}"));
            lines.push(format!("The way back: {back}"));
        }
    }
    if let Some((to, back)) = &change.alter_table {
        lines.push(format!("The table: {to}"));
        lines.push(format!("The way back: {back}"));
    }
    for (to, back) in &change.live {
        lines.push(format!("On a running node: {to}; the way back: {back}"));
    }
    if !change.costs.is_empty() {
        lines.push(format!("For the worse: {}.", change.costs.join("; ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::factor::Setting;
    use crate::line::Line;
    use crate::plan::Plan;
    use crate::recommend::{Finding, recommend};
    use crate::schedule;

    #[test]
    fn a_change_names_the_old_keys_to_delete_and_the_way_back() {
        let plan = Plan::parse(
            r#"
            name = "x"
            repeats = 3
            control_every = 0
            confirm = 0
            design = { kind = "factorial" }
            workloads = [{ name = "w", mix = { write = 1 }, rate = 10, duration = "1s" }]
            [[factors]]
            name = "key_cache_size"
            values = ["64MiB"]
            [[factors]]
            name = "heap"
            values = [512]
            [[factors]]
            name = "commitlog_sync"
            values = ["batch"]
            "#,
        )
        .unwrap();
        let best = [("key_cache_size", "64MiB"), ("heap", "512"), ("commitlog_sync", "batch")];
        let best = Setting::of(best.map(|(name, value)| (name, Some(value))));
        let line = |planned: schedule::Planned| Line {
            attempt: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            took_s: 1.0,
            was_restarted: true,
            read_back: [("heap", "256"), ("key_cache_size", "12MiB"), ("commitlog_sync", "periodic:10000ms")]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .into(),
            metrics: [(
                "p99_ms".to_owned(),
                if planned.setting == best { 5.0 } else { 10.0 } + f64::from(planned.number % 5) / 100.0,
            )]
            .into(),
            void: Vec::new(),
            notes: Vec::new(),
            planned,
        };
        let lines: Vec<_> = schedule::first_stage(&plan).into_iter().map(line).collect();
        let found = recommend(&plan, &lines, &crate::analysis::analyse(&plan, &lines)).swap_remove(0);
        assert!(matches!(found.finding, Finding::Better(_)), "{found:?}");
        let words = super::finding(&found).join("\n");
        for part in [
            "cassandra.yaml: set key_cache_size: 64MiB (was 12MiB); delete key_cache_size_in_mb, if it is there",
            "The way back: set key_cache_size as it was, or delete it (by itself it is 12MiB)",
            "Options of Java: set -Xms512m -Xmx512m\nThe way back: set -Xms256m -Xmx256m",
            "cassandra.yaml: set commitlog_sync: batch; delete commitlog_sync_period and commitlog_sync_group_window, if",
            "The way back: set commitlog_sync: periodic, commitlog_sync_period: 10000ms; delete commitlog_sync_group_window",
            "the best of 7 comparisons",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
