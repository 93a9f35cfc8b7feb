//! Findings in words.

use std::collections::BTreeMap;

use testbed::page::number::significant;

use crate::change::Change;
use crate::closed;
use crate::estimate::MIB;
use crate::metric;
use crate::recommend::{Finding, Gain, Recommendation, Visible};
use crate::stats::Scale;

/// What the lab knows is the default of its own node. An operator's node may have other values.
const BACK: &str = "Back to the lab's default, not to what your node had";

/// A share in percent, with its sign.
pub fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0).replace('-', "−")
}

/// A change on a scale: in percent, or in the unit of the metric, with its sign.
pub(crate) fn changed(scale: Scale, change: f64) -> String {
    match scale {
        Scale::Logarithms => percent(change),
        Scale::Unit if change < 0.0 => format!("−{}", significant(-change)),
        Scale::Unit => format!("+{}", significant(change)),
    }
}

/// The change of a gain, with its interval and probability.
fn gained(gain: &Gain) -> String {
    let write = |change| changed(gain.scale, change);
    let interval = gain.interval.map(|(low, high)| format!(" (95 %: {} to {})", write(low), write(high)));
    let p = gain.p.map(|p| if p < 0.001 { ", p < 0.001".to_owned() } else { format!(", p = {}", probability_of(p)) });
    format!("{}{}{}", write(gain.change), interval.unwrap_or_default(), p.unwrap_or_default())
}

/// A probability.
pub(super) fn probability_of(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// For what a finding holds: the load and the rate that it names, and the machine, by its facts.
pub fn place(facts: &BTreeMap<String, String>) -> String {
    let of = |name: &str, words: fn(&str) -> String| facts.get(name).map(|fact| words(fact));
    let memory = |bytes: &str| {
        let mib = bytes.parse().map_or(0.0, |bytes: f64| bytes / MIB);
        format!("{} MiB of memory", mib.round())
    };
    let known = [
        of("machine", str::to_owned),
        of("processors", |count| format!("{count} processors")),
        of("processor", str::to_owned),
        of("memory_bytes", memory),
        of("disk", |disk| format!("disk {disk}")),
        of("kernel", |kernel| format!("kernel {kernel}")),
        of("cassandra", |version| format!("Cassandra {version}")),
        of("candidate", str::to_owned),
    ];
    let known: Vec<_> = known.into_iter().flatten().collect();
    format!("It holds for that load, that rate and the machine that was measured: {}.", known.join(", "))
}

/// What was found for a workload, in lines.
pub fn finding(recommendation: &Recommendation) -> Vec<String> {
    let Recommendation { workload, rate, objective, finding, caveats } = recommendation;
    let title = metric::find(objective).map_or(objective.as_str(), |metric| metric.title);
    let at = match rate {
        Some(rate) if !matches!(finding, Finding::ClosedLoop) => {
            format!(" at {} operations per second", significant(*rate))
        }
        _ => String::new(),
    };
    let of = format!("{title} under {workload}{at}");
    let mut lines = match finding {
        Finding::Nothing => vec![format!("{of}: nothing was measured that can be compared.")],
        Finding::ClosedLoop => vec![format!("{of}: nothing is recommended. {}", closed::WARNING)],
        Finding::Drift(drift) => vec![format!(
            "{of}: the default itself changed by {} while it was measured. Differences cannot be trusted, so \
             nothing is recommended.",
            changed(drift.scale, drift.change)
        )],
        Finding::NotConfirmed { setting, selected, fresh, made, left, visible } => {
            let looked = format!("{setting} looked better by {}", changed(selected.scale, selected.change));
            let then = match (fresh, left) {
                (Some(fresh), 0) => format!(
                    "{of}: no difference found. {looked}, and measured afresh {} times beside the default it had {}.",
                    fresh.blocks,
                    gained(fresh)
                ),
                (Some(fresh), left) => format!(
                    "{of}: nothing is known for sure yet. {looked}, and measured afresh {} times beside the default \
                     it had {}. {left} fresh runs are still to be made.",
                    fresh.blocks,
                    gained(fresh)
                ),
                (None, 1..) => {
                    format!("{of}: nothing is known for sure yet. {looked}, and is still to be measured afresh.")
                }
                (None, 0) => format!(
                    "{of}: no difference found. {looked}, and none of its {made} fresh runs can be compared with the \
                     default."
                ),
            };
            std::iter::once(then).chain(visible.as_ref().map(seen)).collect()
        }
        Finding::LosesOperations { setting, shares: (default, share) } => vec![format!(
            "{of}: nothing is recommended. {setting} is better, and loses {:.2} % of the operations, the default {:.2} %.",
            share * 100.0,
            default * 100.0
        )],
        Finding::OverBound { setting, metric, mean, max } => vec![format!(
            "{of}: nothing is recommended. {setting} is better, but {} {} then, and may be at most {}.",
            metric::find(metric).map_or(metric.as_str(), |metric| metric.title),
            mean.map_or_else(|| "was not measured".to_owned(), |mean| format!("is {}", significant(mean))),
            significant(*max),
        )],
        Finding::NotAllowed { better } => {
            let all: Vec<_> = better.iter().map(|(setting, gain)| format!("{setting} by {}", gained(gain))).collect();
            vec![format!("{of}: nothing is recommended. Better for sure, and not allowed: {}.", all.join("; "))]
        }
        Finding::NoDifference { visible, effects } => no_difference(&of, visible.as_ref(), effects),
        Finding::Better(change) => better(&of, change),
    };
    lines.extend(caveats.iter().cloned());
    lines
}

/// What such a study would find.
fn seen(visible: &Visible) -> String {
    let change = changed(visible.scale, visible.change);
    format!(
        "A true difference of {} would be found and confirmed in four of five such studies, a smaller one less often.",
        change.trim_start_matches('+')
    )
}

fn no_difference(of: &str, visible: Option<&Visible>, effects: &[String]) -> Vec<String> {
    let mut lines = vec![match visible {
        Some(visible) => format!("{of}: no difference found. {}", seen(visible)),
        None => format!("{of}: no difference found. Without repeats that scatter, none can be."),
    }];
    if !effects.is_empty() {
        lines.push(format!("No single setting is better for sure, but these effects are: {}.", effects.join(", ")));
    }
    lines
}

fn better(of: &str, change: &Change) -> Vec<String> {
    let selected = &change.selected;
    let mut lines = vec![format!("{of}: {} by {}.", gained(&change.gain()), change.setting)];
    if let Some(fresh) = &change.fresh {
        let best = match selected.comparisons {
            0 | 1 => String::new(),
            comparisons => format!(" as the best of {comparisons} comparisons"),
        };
        lines.push(format!(
            "That is what {} fresh runs beside the default had. It was selected{best}, with {}.",
            fresh.blocks,
            changed(selected.scale, selected.change),
        ));
    } else if selected.comparisons > 1 {
        lines.push(format!(
            "It is the best of {} comparisons, so the gain is probably smaller. Measure it again, alone, before you \
             count on it.",
            selected.comparisons
        ));
    }
    for (what, steps) in [
        ("cassandra.yaml", &change.yaml),
        ("Options of Java", &change.jvm),
        ("Cluster", &change.deployment),
        ("Settings", &change.settings),
    ] {
        for (to, back) in steps {
            lines.push(format!("{what}: {to}"));
            lines.push(format!("{BACK}: {back}"));
        }
    }
    if let Some((to, back)) = &change.alter_table {
        lines.push(format!("The table: {to}"));
        lines.push(format!("{BACK}: {back}"));
    }
    for (to, back) in &change.live {
        lines.push(format!("On a running node: {to}; back to the lab's default: {back}"));
    }
    lines.extend(change.warnings.iter().cloned());
    if !change.beside.is_empty() {
        let all: Vec<_> = change.beside.iter().map(ToString::to_string).collect();
        lines.push(format!("Measured beside: {}. Beside other values, the gain may be another.", all.join(", ")));
    }
    if !change.costs.is_empty() {
        lines.push(format!("For the worse, of the metrics that were compared: {}.", change.costs.join("; ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use crate::factor::Setting;
    use crate::line::Line;
    use crate::plan::Plan;
    use crate::recommend::{Finding, recommend};
    use crate::schedule;

    #[test]
    fn a_finding_holds_for_the_machine_that_was_measured_and_names_it() {
        let facts = [("machine", "lab-3"), ("processors", "2"), ("memory_bytes", "1073741824"), ("cassandra", "5.0.6")];
        let facts: BTreeMap<_, _> = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let words = super::place(&facts);
        assert!(words.ends_with("measured: lab-3, 2 processors, 1024 MiB of memory, Cassandra 5.0.6."), "{words}");
    }

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
            "Back to the lab's default, not to what your node had: set key_cache_size as it was, or delete it (by itself it is 12MiB)",
            "Options of Java: set -Xms512m -Xmx512m\nBack to the lab's default, not to what your node had: set -Xms256m -Xmx256m",
            "cassandra.yaml: set commitlog_sync: batch; delete commitlog_sync_period, commitlog_sync_group_window, \
             commitlog_sync_period_in_ms, commitlog_sync_group_window_in_ms, if they are there",
            "had: set commitlog_sync: periodic, commitlog_sync_period: 10000ms; delete commitlog_sync_group_window",
            "the best of 7 comparisons",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
