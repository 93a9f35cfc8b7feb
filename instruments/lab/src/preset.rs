//! Plans that come with the program.

use std::thread;
use std::time::Duration;

use crate::closed::{self, Closed};
use crate::design::Design;
use crate::estimate::{COMPACTED_TIMES, KEY_BYTES, MIB};
use crate::factor::{Applied, Factor};
use crate::plan::{self, LATENESS_MAX, Node, Plan};
use crate::rig::THROTTLE;
use crate::workload::{Data, Keys, Mix, Workload};

/// The names of the presets.
pub const NAMES: [&str; 2] = ["thesis", "thesis-closed"];

/// The heap of the preset in MiB. At full size, values of the memtable's space are shares of it.
const HEAP_MIB: u32 = 1_024;

/// Shares of writes and reads.
const MIXES: [(f64, f64); 3] = [(90.0, 10.0), (70.0, 30.0), (50.0, 50.0)];

/// The default space of memtables and its other values, in eighths of the greatest.
const SPACE: u32 = 2;
const SPACES: [u32; 5] = [3, 4, 5, 6, 8];

/// Threads that flush. When memtables take 1 / (1 + these) of their space, Cassandra flushes one.
const WRITERS: u32 = 8;

/// The default limit of compactions and its other values, in parts of so many MiB per second in the
/// thesis: 16, 24, 32 and 40.
const LIMITS: [u32; 4] = [2, 3, 4, 5];
const LIMIT_MIB: u32 = 8;

/// Scaled limits let compactions read the records that are there before the load so many times
/// within its time.
const PREFILL_TIMES: f64 = 3.0;

/// The table of the thesis, as cassandra-stress makes it.
const TABLE: [(&str, &str); 2] =
    [("compaction", "{'class': 'SizeTieredCompactionStrategy'}"), ("compression", "{'enabled': 'false'}")];

/// How often each run flushes at least, with the defaults and under the mix that writes least: STCS
/// compacts four tables, so some compactions begin within the load.
const FLUSHES_MIN: f64 = 8.0;

/// What Cassandra's objects for a record of five columns take of a memtable at least, beside its key
/// and values. It is more in truth, so a run flushes more often.
const OBJECT_BYTES: f64 = 500.0;

/// Of as many writes as there are records, or fewer, at least this share goes to records that none
/// of them wrote before: 1 − 1 / e.
const FIRST_SHARE: f64 = 0.632;

/// The least data and load that still say something.
const RECORDS_MIN: f64 = 1_000.0;
const DURATION_MIN_S: f64 = 2.0;

/// The least rate of a plan.
const RATE_MIN: f64 = 0.1;

/// The least fresh runs: fewer confirm great differences only.
const CONFIRM_MIN: u32 = 5;

/// What can be said of a preset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Records, durations and the space of memtables times this: 1 is as in the thesis. Below 1, limits
    /// of compactions that no run could reach are less too.
    pub scale: f64,
    /// Operations per second; the thesis says none, because it measured in a closed loop.
    pub rate: f64,
    /// Repeats of each setting.
    pub repeats: u32,
}

impl Default for Scale {
    fn default() -> Self {
        Self { scale: 1.0, rate: 1_000.0, repeats: 10 }
    }
}

/// The preset of a name.
pub fn find(name: &str, scale: Scale) -> Option<Plan> {
    match name {
        "thesis" => Some(thesis(scale, scaled_limit)),
        "thesis-closed" => Some(thesis_closed(scale)),
        _ => None,
    }
}

/// The same in a closed loop, with as many threads as a search finds: for likeness only. Nothing is
/// recommended, so nothing is measured afresh. How much a run writes follows from the node, so the
/// limits of compactions are those of the thesis.
fn thesis_closed(scale: Scale) -> Plan {
    let mut plan = thesis(scale, |_, _, _| None);
    plan.name = "thesis-closed".to_owned();
    plan.description = format!("{} {} It is for likeness only.", plan.description, closed::WARNING);
    plan.confirm = 0;
    plan.beside.push("rate_per_s".to_owned());
    plan.workloads.iter_mut().for_each(|workload| workload.closed = Some(Closed::SEARCH));
    plan
}

/// The 18 settings of the thesis on tuning compaction: the defaults under three mixes, 14 single
/// changes under the first, and the best values together; and two more changes, once. Its values are
/// shares of the heap and of the processors here, so that they fit this machine. The load is an open
/// loop at one rate for all: the closed loops of the thesis measured mostly their own number of
/// threads. A run that is shorter or slower has less space for memtables, so that it flushes and
/// compacts too, and lower limits of compactions, so that these bind: `scaled` says them.
fn thesis(scale: Scale, scaled: fn(Scale, &Data, f64) -> Option<u32>) -> Plan {
    let data = Data { records: (1e6 * scale.scale).max(RECORDS_MIN) as u64, ..Data::default() };
    let least_share = MIXES.iter().map(|(write, read)| write / (write + read)).fold(1.0, f64::min);
    let writes_per_s = scale.rate.max(RATE_MIN) * least_share;
    // Cassandra takes no less space than this, so a run takes no less time.
    let least_s = FLUSHES_MIN * flushed_at(1) / memtable_bytes(1.0, &data) / writes_per_s;
    let duration_s = (1_200.0 * scale.scale).max(least_s.ceil()).max(DURATION_MIN_S);
    let duration = Duration::from_secs_f64(duration_s);
    let eighth_mib = eighth_mib(writes_per_s * duration_s, &data);
    let workload = |write: f64, read: f64| Workload {
        name: format!("mix-{write}-{read}"),
        mix: Mix { write, read, delete: 0.0 },
        rate: scale.rate,
        keys: Keys::Uniform,
        warm_up: Some((duration / 10).max(plan::cold_warm_up(duration))),
        duration,
        hold: None,
        closed: None,
    };
    let workloads = MIXES.map(|(write, read)| workload(write, read)).to_vec();
    let design = Design::OneAtATime { union: true, workloads: Some(vec![workloads[0].name.clone()]) };
    let factor = |name: &str, default: String, values: Vec<String>| Factor {
        name: name.to_owned(),
        default: Some(default),
        values,
        repeats: None,
        applied: None,
    };
    // The thesis found no influence of these, and does not show any figures.
    let once = |name: &str, default: &str, value: &str| Factor {
        repeats: Some(1),
        ..factor(name, default.to_owned(), vec![value.to_owned()])
    };
    let space = |eighths: u32| format!("{}MiB", eighth_mib * eighths);
    let numbers = |values: [usize; 3]| values.map(|value| value.to_string()).to_vec();
    let scaled = scaled(scale, &data, duration_s);
    let limit = |part: u32| match scaled {
        None => format!("{}MiB/s", LIMIT_MIB * part),
        Some(kib) if kib.is_multiple_of(1_024) => format!("{}MiB/s", kib / 1_024 * part),
        Some(kib) => format!("{}KiB/s", kib * part),
    };
    let [default, others @ ..] = LIMITS.map(limit);
    let described = scaled.map(|_| format!("{default} to {}", others[2]));
    // A running node takes whole MiB only, and nodes of this plan start before every run.
    let applied = scaled.filter(|kib| !kib.is_multiple_of(1_024)).map(|_| Applied::Restart);
    let limits = Factor { applied, ..factor(THROTTLE, default, others.to_vec()) };
    Plan {
        name: "thesis".to_owned(),
        candidate: None,
        door: None,
        description: description(&data, duration_s, eighth_mib, described),
        seed: 1,
        repeats: scale.repeats,
        confirm: scale.repeats.max(CONFIRM_MIN),
        control_every: 5,
        objective: "p99_ms".to_owned(),
        beside: ["mean_ms", "compacted_bytes_drained", "node_written_bytes_drained", "cpu_ms_per_operation_drained"]
            .map(str::to_owned)
            .to_vec(),
        bound: None,
        design,
        data,
        node: Node {
            heap_mib: Some(HEAP_MIB),
            table: TABLE.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Node::default()
        },
        restart: None,
        lateness_max: LATENESS_MAX,
        workloads,
        factors: vec![
            factor("memtable_heap_space", space(SPACE), SPACES.map(space).to_vec()),
            // The clean-up threshold follows from it, as 1 / (1 + writers).
            factor("memtable_flush_writers", WRITERS.to_string(), numbers([6, 10, 12])),
            factor("concurrent_compactors", "1".to_owned(), numbers(compactors())),
            limits,
            once("snapshot_before_compaction", "false", "true"),
            once("partition_size_warn_threshold", "100MiB", "10MiB"),
        ],
    }
}

/// What these writes leave in memtables at least, in bytes.
fn memtable_bytes(writes: f64, data: &Data) -> f64 {
    let values = writes * (f64::from(data.record_bytes) + KEY_BYTES);
    values + writes.min(data.records as f64) * FIRST_SHARE * OBJECT_BYTES
}

/// The bytes in memtables at which Cassandra flushes with the default space, by an eighth of the
/// greatest space in MiB.
fn flushed_at(eighth_mib: u32) -> f64 {
    f64::from(eighth_mib * SPACE) * MIB / f64::from(1 + WRITERS)
}

/// An eighth of the greatest space of memtables in MiB, at most an eighth of the heap: so much that
/// a run with so many writes flushes often enough. Cassandra takes whole MiB, and no 0.
fn eighth_mib(writes: f64, data: &Data) -> u32 {
    let most = memtable_bytes(writes / FLUSHES_MIN, data) / flushed_at(1);
    (most as u32).clamp(1, HEAP_MIB / 8)
}

/// The part of scaled limits of compactions in KiB per second, of which the default is twice as much;
/// `None`: the limits are those of the thesis.
///
/// If all that a run writes is compacted [`COMPACTED_TIMES`] times and does not reach the least limit
/// of the thesis, its values cannot make a difference. Then the greatest limit is what that takes, and
/// the others have the ratios of the thesis. The default is at least so much that compactions can read
/// the records [`PREFILL_TIMES`] times within the load's time, because they wait for it too.
fn scaled_limit(scale: Scale, data: &Data, duration_s: f64) -> Option<u32> {
    let (least, greatest) = (f64::from(LIMITS[0]), f64::from(LIMITS[3]));
    let (write, read) = MIXES[0];
    let record = f64::from(data.record_bytes) + KEY_BYTES;
    let compacted = scale.rate.max(RATE_MIN) * write / (write + read) * record * COMPACTED_TIMES;
    if scale.scale >= 1.0 || compacted >= f64::from(LIMIT_MIB) * least * MIB {
        return None;
    }
    let of_records = PREFILL_TIMES * data.records as f64 * record / duration_s;
    let kib = ((compacted / greatest).max(of_records / least) / 1_024.0) as u32;
    let whole_mib = kib / 1_024 * 1_024;
    let part = if whole_mib > 0 { whole_mib } else { kib.max(1) };
    (part < LIMIT_MIB * 1_024).then_some(part)
}

/// What was scaled, and what was not. `limits` are the scaled ones of compactions.
fn description(data: &Data, duration_s: f64, eighth_mib: u32, limits: Option<String>) -> String {
    let (space, most, full) = (eighth_mib * SPACE, eighth_mib * 8, HEAP_MIB);
    let (least_limit, most_limit) = (LIMIT_MIB * LIMITS[0], LIMIT_MIB * LIMITS[3]);
    let limits = match limits {
        Some(limits) => format!(
            "Limits of compactions are scaled too, to {limits} (of {least_limit} to {most_limit} MiB/s), because no \
             run at this rate could reach the least of them: the greatest is what compactions take if all that is \
             written is compacted {COMPACTED_TIMES} times. Not scaled: the rate, the heap and the threads."
        ),
        None => "Not scaled: the rate, the heap, the threads and the limits of compactions.".to_owned(),
    };
    format!(
        "The thesis on tuning Cassandra's compaction. Scaled: {} records (of 1000000), {duration_s:.0} s of load (of \
         1200), and memtables of {space} to {most} MiB (of {} to {full}), so small that a run flushes about \
         {FLUSHES_MIN} times or more with the defaults. {limits}",
        data.records,
        full / 8 * SPACE,
    )
}

/// A half, three quarters and all of the processors, each above the one before.
fn compactors() -> [usize; 3] {
    let processors = thread::available_parallelism().map_or(2, usize::from);
    let half = (processors / 2).max(2);
    let most = (processors * 3 / 4).max(half + 1);
    [half, most, processors.max(most + 1)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::schedule::first_stage;

    #[test]
    fn the_thesis_has_eighteen_settings_and_takes_sixty_hours_of_load() {
        let plan = find("thesis", Scale::default()).unwrap();
        plan.check().unwrap();
        let runs: Vec<_> = first_stage(&plan).into_iter().filter(|run| !run.is_control).collect();
        let is_once = |run: &&crate::schedule::Planned| plan.repeats_of(&run.setting) == 1;
        assert_eq!(runs.iter().filter(is_once).count(), 2);
        // The union follows from their results.
        let repeated = runs.len() - 2 + 10;
        assert_eq!(repeated, 18 * 10);
        assert_eq!(plan.workloads[0].duration.as_secs_f64() * repeated as f64 / 3_600.0, 60.0);
        assert!(find("other", Scale::default()).is_none());
    }

    #[test]
    fn a_scaled_preset_is_short_and_is_the_same_after_writing_and_reading() {
        let plan = find("thesis", Scale { scale: 0.001, repeats: 3, ..Scale::default() }).unwrap();
        assert_eq!((plan.data.records, plan.workloads[0].duration.as_secs()), (1_000, 8));
        assert_eq!(Plan::parse(&plan.to_toml().unwrap()).unwrap(), plan);
    }

    /// The default space of memtables and its values, in MiB.
    fn spaces(plan: &Plan) -> Vec<u32> {
        let factor = plan.factor("memtable_heap_space").unwrap();
        let all = factor.default.iter().chain(&factor.values);
        all.map(|value| value.strip_suffix("MiB").unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn a_run_flushes_at_least_eight_times_at_every_scale_and_rate() {
        for scale in [0.0, 0.001, 0.01, 0.02, 0.1, 1.0, 10.0] {
            for rate in [0.1, 10.0, 1_000.0, 20_000.0] {
                let plan = find("thesis", Scale { scale, rate, ..Scale::default() }).unwrap();
                plan.check().unwrap();
                let flushed_at = f64::from(spaces(&plan)[0]) * MIB / 9.0;
                for workload in &plan.workloads {
                    let share = 1.0 - workload.mix.read_share();
                    let writes = rate * share * workload.duration.as_secs_f64();
                    let of_each = memtable_bytes(writes / 8.0, &plan.data);
                    assert!(of_each > flushed_at * 0.999, "{scale}, {rate}, {}: {of_each}", workload.name);
                }
            }
        }
    }

    #[test]
    fn the_space_of_memtables_has_the_ratios_of_the_thesis_and_is_at_most_the_heap() {
        let spaces_at = |scale, rate| spaces(&find("thesis", Scale { scale, rate, ..Scale::default() }).unwrap());
        assert_eq!(spaces_at(1.0, 1_000.0), [256, 384, 512, 640, 768, 1_024]);
        assert_eq!(spaces_at(0.01, 1_000.0), [2, 3, 4, 5, 6, 8], "whole MiB, as Cassandra takes them");
        assert_eq!(spaces_at(0.0, f64::NAN), [2, 3, 4, 5, 6, 8], "a plan with such a rate is refused later");
        let plan = find("thesis", Scale { scale: 0.01, ..Scale::default() }).unwrap();
        assert!(plan.description.contains("10000 records") && plan.description.contains("memtables of 2 to 8 MiB"));
    }

    /// The default limit of compactions and its values, and how they are applied.
    fn limits(plan: &Plan) -> (Vec<&str>, Applied) {
        let factor = plan.factor(THROTTLE).unwrap();
        (factor.default.iter().chain(&factor.values).map(String::as_str).collect(), factor.applied())
    }

    #[test]
    fn limits_of_compactions_that_no_run_could_reach_have_the_ratios_of_the_thesis_at_a_small_scale() {
        let plan_at = |scale, rate| {
            let plan = find("thesis", Scale { scale, rate, ..Scale::default() }).unwrap();
            plan.check().unwrap();
            plan
        };
        let of_thesis = (vec!["16MiB/s", "24MiB/s", "32MiB/s", "40MiB/s"], Applied::Live);
        assert_eq!(limits(&plan_at(1.0, 1_000.0)), of_thesis, "as in the thesis");
        assert_eq!(limits(&plan_at(0.01, 20_000.0)), of_thesis, "a run can reach them");
        // 900 × 180 bytes a second, ten times, are five parts.
        let plan = plan_at(0.01, 1_000.0);
        let scaled = vec!["632KiB/s", "948KiB/s", "1264KiB/s", "1580KiB/s"];
        assert_eq!(limits(&plan), (scaled, Applied::Restart), "a running node takes whole MiB only");
        assert!(plan.description.contains("scaled too, to 632KiB/s to 1580KiB/s (of 16 to 40 MiB/s)"), "{plan:?}");
        assert_eq!(limits(&plan_at(0.01, 9_000.0)), (vec!["4MiB/s", "6MiB/s", "8MiB/s", "10MiB/s"], Applied::Live));
        // The records before a slow load are many, so the limits are more than the load alone needs.
        assert_eq!(limits(&plan_at(0.1, 10.0)).0[0], "70KiB/s");
        for (scale, rate) in [(0.001, 500.0), (0.01, 1_000.0), (0.1, 1_000.0), (0.5, 5_000.0), (0.01, 9_000.0)] {
            let plan = plan_at(scale, rate);
            assert!(crate::estimate::notes(&plan).is_empty(), "{scale}, {rate}: {:?}", limits(&plan));
        }
    }

    #[test]
    fn the_thesis_in_a_closed_loop_is_the_same_but_for_its_loop_and_what_is_measured_afresh() {
        let scale = Scale { scale: 0.01, ..Scale::default() };
        let mut closed = find("thesis-closed", scale).unwrap();
        closed.check().unwrap();
        assert_eq!(Plan::parse(&closed.to_toml().unwrap()).unwrap(), closed);
        assert!(closed.workloads.iter().all(|workload| workload.closed == Some(Closed::SEARCH)));
        let text = closed.to_toml().unwrap();
        assert!(text.contains("threads = \"search\""), "{text}");
        let open = find("thesis", scale).unwrap();
        closed.workloads.iter_mut().for_each(|workload| workload.closed = None);
        // What a closed loop writes is not known before.
        assert_eq!(limits(&closed).0[0], "16MiB/s");
        closed.factors[3] = open.factors[3].clone();
        assert_eq!((closed.workloads, closed.factors), (open.workloads, open.factors));
        assert!(NAMES.iter().all(|name| find(name, scale).is_some_and(|plan| plan.name == *name)));
    }

    #[test]
    fn a_scaled_run_is_warmed_up_as_long_as_any_run_of_a_cold_node() {
        let warm_up = |scale| {
            let plan = find("thesis", Scale { scale, ..Scale::default() }).unwrap();
            (plan.workloads[0].warm_up().as_secs(), plan.workloads[0].duration.as_secs())
        };
        assert_eq!([warm_up(0.001), warm_up(0.01), warm_up(1.0)], [(8, 8), (10, 12), (120, 1_200)]);
    }
}
