//! Plans that come with the program.

use std::thread;
use std::time::Duration;

use crate::design::Design;
use crate::factor::Factor;
use crate::plan::{LATENESS_MAX, Node, Plan};
use crate::workload::{Data, Keys, Mix, Workload};

/// The names of the presets.
pub const NAMES: [&str; 1] = ["thesis"];

/// The heap of the preset in MiB. Values of the memtable's space are shares of it.
const HEAP_MIB: u32 = 1_024;

/// The least data and load that still say something.
const RECORDS_MIN: f64 = 1_000.0;
const DURATION_MIN_S: f64 = 2.0;

/// The least fresh runs: fewer confirm great differences only.
const CONFIRM_MIN: u32 = 5;

/// What can be said of a preset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Records and durations times this: 1 is as in the thesis.
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
    (name == "thesis").then(|| thesis(scale))
}

/// The 18 settings of the thesis on tuning compaction: the defaults under three mixes, 14 single
/// changes under the first, and the best values together. Its values are shares of the heap and of
/// the processors here, so that they fit this machine. The load is an open loop at one rate for
/// all: the closed loops of the thesis measured mostly their own number of threads.
fn thesis(scale: Scale) -> Plan {
    let duration = Duration::from_secs_f64((1_200.0 * scale.scale).max(DURATION_MIN_S));
    let workload = |write: f64, read: f64| Workload {
        name: format!("mix-{write}-{read}"),
        mix: Mix { write, read, delete: 0.0 },
        rate: scale.rate,
        keys: Keys::Uniform,
        warm_up: Some(duration / 10),
        duration,
    };
    let workloads = vec![workload(90.0, 10.0), workload(70.0, 30.0), workload(50.0, 50.0)];
    let design = Design::OneAtATime { union: true, workloads: Some(vec![workloads[0].name.clone()]) };
    let factor = |name: &str, default: String, values: Vec<String>| Factor {
        name: name.to_owned(),
        default: Some(default),
        values,
        applied: None,
    };
    let heap = |eighths: u32| format!("{}MiB", HEAP_MIB * eighths / 8);
    let numbers = |values: [usize; 3]| values.map(|value| value.to_string()).to_vec();
    Plan {
        name: "thesis".to_owned(),
        seed: 1,
        repeats: scale.repeats,
        confirm: scale.repeats.max(CONFIRM_MIN),
        control_every: 5,
        objective: "p99_ms".to_owned(),
        beside: ["mean_ms", "compacted_bytes_drained", "node_written_bytes_drained", "cpu_ms_per_operation_drained"]
            .map(str::to_owned)
            .to_vec(),
        design,
        data: Data { records: (1e6 * scale.scale).max(RECORDS_MIN) as u64, ..Data::default() },
        node: Node { heap_mib: Some(HEAP_MIB), ..Node::default() },
        restart: None,
        lateness_max: LATENESS_MAX,
        workloads,
        factors: vec![
            factor("memtable_heap_space", heap(2), [3, 4, 5, 6, 8].map(heap).to_vec()),
            // The clean-up threshold follows from it, as 1 / (1 + writers).
            factor("memtable_flush_writers", "8".to_owned(), numbers([6, 10, 12])),
            factor("concurrent_compactors", "1".to_owned(), numbers(compactors())),
            factor(
                "compaction_throughput",
                "16MiB/s".to_owned(),
                [24, 32, 40].map(|mib| format!("{mib}MiB/s")).to_vec(),
            ),
        ],
    }
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
        // The union follows from their results.
        assert_eq!(runs.len() + 10, 18 * 10);
        let hours = plan.workloads[0].duration.as_secs_f64() * (runs.len() + 10) as f64 / 3_600.0;
        assert_eq!(hours, 60.0);
        assert!(find("other", Scale::default()).is_none());
    }

    #[test]
    fn a_scaled_preset_is_short_and_is_the_same_after_writing_and_reading() {
        let plan = find("thesis", Scale { scale: 0.001, repeats: 3, ..Scale::default() }).unwrap();
        assert_eq!((plan.data.records, plan.workloads[0].duration.as_secs()), (1_000, 2));
        assert_eq!(Plan::parse(&plan.to_toml()).unwrap(), plan);
    }
}
