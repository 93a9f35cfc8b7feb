//! What voids a run: its figures would say something about another setting, or nothing.

use std::collections::BTreeMap;

use crate::costs::DRAINED;
use crate::factor::Setting;
use crate::metric;
use crate::plan::Plan;
use crate::rig::{Baseline, Counters, Loaded, THROTTLE};
use crate::value;

/// Files of earlier tables that may be left: Cassandra keeps a few small ones.
const LEFT_BYTES_MAX: u64 = 1 << 20;

/// So long a limit of compactions may be used in advance.
const BURST_S: f64 = 1.0;

/// The share by which counters of the node and of the load may differ.
const COUNTS_TOLERANCE: f64 = 0.01;

/// The share by which two accounts of the same bytes may differ.
const ACCOUNTS_TOLERANCE: f64 = 0.05;

/// So many compactions run at a time, the mean of all looks, that MBeans, which are asked at other
/// instants, have to see one.
const RUNNING_MIN: f64 = 0.5;

/// A run whose median changes by this factor from its first quarter to its last was not steady: it
/// was still warming up, or became slower.
const CHANGE_MAX: f64 = 1.5;

/// A load that is sent later than this share of the objective is a part of what is measured.
pub const LATENESS_SHARE_MAX: f64 = 0.1;

/// Settings that are not in force. `defaults` has what the node had by itself.
pub fn settings_in_force(
    plan: &Plan,
    setting: &Setting,
    read: &BTreeMap<String, String>,
    defaults: &BTreeMap<String, String>,
) -> Vec<String> {
    let wrong = plan.factors.iter().filter_map(|factor| {
        let name = &factor.name;
        let Some(asked) = setting.value(factor).or_else(|| defaults.get(name).map(String::as_str)) else {
            return None; // The first run with the default shows what that is.
        };
        match read.get(name) {
            Some(found) if value::is_in_force(factor.applied(), asked, found) => None,
            Some(found) => Some(format!("{name} is {found}, not {asked}")),
            None => Some(format!("{name} cannot be read back")),
        }
    });
    wrong.collect()
}

/// What is left of earlier runs.
pub fn nothing_left(baseline: Baseline) -> Vec<String> {
    let mut left = Vec::new();
    if baseline.snapshots > 0 {
        left.push(format!("{} snapshots are left", baseline.snapshots));
    }
    if baseline.left_bytes > LEFT_BYTES_MAX {
        left.push(format!("{} bytes of earlier tables are left on the disk", baseline.left_bytes));
    }
    left
}

/// Counters that cannot be right: that went back, that do not agree with the load, or compactions
/// above their limit.
pub fn counters_possible(
    before: &Counters,
    after: &Counters,
    drained: &Counters,
    loaded: &Loaded,
    read: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let of = |counters: &Counters| [counters.compacted_bytes, counters.compactions, counters.writes, counters.reads];
    let used_less = |one: &Counters, other: &Counters| {
        one.used.iter().any(|(name, before)| other.used.get(name).is_some_and(|now| now < before))
    };
    let goes_back = |one: &Counters, other: &Counters| {
        of(one).iter().zip(of(other)).any(|(one, other)| other < *one) || used_less(one, other)
    };
    let in_order = [before, &loaded.begun, after, drained];
    if in_order.windows(2).any(|pair| goes_back(pair[0], pair[1])) {
        wrong.push("counters went back: the node was started again".to_owned());
        return wrong;
    }
    let Some(by) = loaded.counted_by else { return wrong };
    // Where several nodes have to answer a read and differ, it is asked again, and what they lack is
    // written.
    let repaired = if by.reads.0 > 1 { loaded.reads.1 * u64::from(by.reads.1) } else { 0 };
    for (what, counted, (done, sent), (fewest, most), more) in [
        ("writes", after.writes - before.writes, loaded.writes, by.writes, repaired),
        ("reads", after.reads - before.reads, loaded.reads, by.reads, repaired),
    ] {
        let least = (done * u64::from(fewest)) as f64 * (1.0 - COUNTS_TOLERANCE);
        let most = (sent * u64::from(most) + more) as f64 * (1.0 + COUNTS_TOLERANCE);
        if !(least..=most).contains(&counted) {
            wrong.push(format!("the node counted {counted} {what}, the load {done} of {sent}"));
        }
    }
    // Zero is no limit.
    let limit = read.get(THROTTLE).and_then(|text| value::bytes(text)).filter(|limit| *limit > 0.0);
    let (bytes, time_s) = (drained.compacted_bytes - before.compacted_bytes, drained.at_s - before.at_s);
    // Each node has the limit for itself.
    let limit = limit.map(|limit| limit * f64::from(drained.nodes.max(1)));
    if let Some(limit) = limit
        && bytes > limit * (time_s + BURST_S)
    {
        wrong.push(format!("{bytes} bytes were compacted in {time_s:.1} s, above the limit of {limit} per second"));
    }
    wrong
}

/// A load that was not the one that was asked for.
pub fn load_made(plan: &Plan, loaded: &Loaded) -> Vec<String> {
    let mut wrong = Vec::new();
    if loaded.lateness_p99_ms > plan.lateness_max.as_secs_f64() * 1e3 {
        wrong.push(format!("the load was sent {:.0} ms late (p99): this machine is busy", loaded.lateness_p99_ms));
    }
    if loaded.due == 0 {
        wrong.push("no operation was due".to_owned());
    }
    wrong
}

/// A run that was measured, and not for what the plan is made.
pub fn objective_measured(plan: &Plan, metrics: &BTreeMap<String, f64>) -> Vec<String> {
    let is_there = metrics.get(&plan.objective).is_some_and(|value| value.is_finite());
    if is_there { Vec::new() } else { vec![format!("{} was not measured", plan.objective)] }
}

/// What does not void a run and should be known. Operations that were not done are no fault of the
/// measurement: they count.
pub fn notes(plan: &Plan, loaded: &Loaded) -> Vec<String> {
    let mut notes = Vec::new();
    if let [Some(first), _, _, Some(last)] = loaded.quarters_ms
        && last.max(first) > last.min(first) * CHANGE_MAX
        && (last - first).abs() > 1.0
    {
        notes.push(format!("not steady: the median went from {first:.2} to {last:.2} ms"));
    }
    let is_latency = metric::find(&plan.objective).is_some_and(metric::Metric::is_latency);
    let objective_ms = loaded.metrics.get(&plan.objective).filter(|_| is_latency);
    if let Some(objective_ms) = objective_ms.filter(|ms| loaded.lateness_p99_ms > **ms * LATENESS_SHARE_MAX) {
        notes.push(format!(
            "the load was sent {:.1} ms late (p99), and {} was {objective_ms:.1}",
            loaded.lateness_p99_ms, plan.objective
        ));
    }
    if loaded.done < loaded.due {
        notes.push(format!("{} of {} operations were not done", loaded.due - loaded.done, loaded.due));
    }
    notes
}

/// Whether the accounts of compactions agree. MBeans count those of all tables, and their bytes before
/// compression; `system.compaction_history` has those of the load's table on disk. While compactions
/// run, `system_views.sstable_tasks` has them, and MBeans those that run and wait.
pub fn accounts_agree(metrics: &BTreeMap<String, f64>) -> Vec<String> {
    let more = [("compactions", "jmx_compactions"), ("compacted_bytes", "jmx_compacted_bytes")];
    let of = |name: &str| metrics.get(&format!("{name}{DRAINED}")).copied();
    let differs = more.into_iter().filter_map(|(in_history, of_jmx)| {
        let (kept, counted) = (of(in_history)?, of(of_jmx)?);
        // What does not compress has a few bytes more on disk.
        let is_too_few = counted < kept * (1.0 - ACCOUNTS_TOLERANCE);
        is_too_few.then(|| format!("MBeans counted {counted} {in_history}, system.compaction_history has {kept}"))
    });
    let running = metrics.get("running_compactions").copied().filter(|running| *running >= RUNNING_MIN);
    let is_none = |name: &str| metrics.get(name).is_some_and(|count| *count == 0.0);
    let are_none = is_none("active_compactions") && is_none("pending_compactions");
    let unseen = running.filter(|_| are_none).map(|running| {
        format!("MBeans had no compaction that runs or waits at any look, sstable_tasks {running:.1} at a time")
    });
    differs.chain(unseen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mbeans_may_count_more_compactions_than_the_history_has_and_not_fewer() {
        let metrics = |in_history: f64, of_jmx: f64| {
            let names = ["compactions_drained", "jmx_compactions_drained"];
            names.into_iter().map(str::to_owned).zip([in_history, of_jmx]).collect::<BTreeMap<_, _>>()
        };
        assert!(accounts_agree(&metrics(3.0, 3.0)).is_empty() && accounts_agree(&metrics(3.0, 9.0)).is_empty());
        assert_eq!(
            accounts_agree(&metrics(3.0, 2.0)),
            ["MBeans counted 2 compactions, system.compaction_history has 3"]
        );
        assert!(accounts_agree(&BTreeMap::from([("compactions_drained".to_owned(), 3.0)])).is_empty());
    }

    #[test]
    fn compactions_that_run_are_in_mbeans_too_unless_hardly_any_is_seen() {
        let notes = |running: f64, active: f64, pending: f64| {
            let figures =
                [("running_compactions", running), ("active_compactions", active), ("pending_compactions", pending)];
            accounts_agree(&figures.map(|(name, value)| (name.to_owned(), value)).into())
        };
        let note = "MBeans had no compaction that runs or waits at any look, sstable_tasks 1.5 at a time";
        assert_eq!(notes(1.5, 0.0, 0.0), [note]);
        assert!(notes(1.5, 0.2, 0.0).is_empty() && notes(1.5, 0.0, 0.1).is_empty() && notes(0.2, 0.0, 0.0).is_empty());
        // Without MBeans nothing is to be compared.
        assert!(accounts_agree(&BTreeMap::from([("running_compactions".to_owned(), 2.0)])).is_empty());
    }
}
