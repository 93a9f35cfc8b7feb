//! What a load costs: during the load, and until the work that it has left is done too.

use std::collections::BTreeMap;

use crate::rig::{Counters, Loaded, NODE_CPU_S, NODE_READ_BYTES, NODE_WRITTEN_BYTES};
use crate::workload::{Data, Partitions, Workload};

/// The end of the names of metrics that go on until flushes and compactions have ended.
pub const DRAINED: &str = "_drained";

/// The costs of a run by the name of their metric, from the counters at the beginning of the
/// measured time, after the load, and after the drain. They are of the operations that were due in
/// the measured time, as latencies are. A setting that puts work off looks cheap during the load
/// only.
pub fn costs(
    data: &Data,
    workload: &Workload,
    loaded: &Loaded,
    [begun, after, drained]: [&Counters; 3],
) -> BTreeMap<String, f64> {
    let during = since(begun, after, data, workload, loaded);
    let until_drained = since(begun, drained, data, workload, loaded);
    let drained_named = until_drained.into_iter().map(|(name, value)| (format!("{name}{DRAINED}"), value));
    let mut all: BTreeMap<_, _> = during.into_iter().chain(drained_named).collect();
    all.insert("drain_s".to_owned(), drained.at_s - after.at_s);
    all
}

fn since(begun: &Counters, now: &Counters, data: &Data, workload: &Workload, loaded: &Loaded) -> BTreeMap<String, f64> {
    let added = |(name, now): (&String, &f64)| Some((name.clone(), now - begun.used.get(name)?));
    let mut costs: BTreeMap<_, _> = now.used.iter().filter_map(added).collect();
    if loaded.counted_by.is_some() {
        costs.insert("compacted_bytes".to_owned(), now.compacted_bytes - begun.compacted_bytes);
        costs.insert("compactions".to_owned(), now.compactions - begun.compactions);
    }
    let (changes, reads) = loaded.measured;
    let operations = (changes + reads) as f64;
    let mix = &workload.mix;
    let written_share = mix.write / (mix.write + mix.delete);
    let copies = f64::from(loaded.counted_by.unwrap_or_default().writes.1);
    let payload = changes as f64 * written_share * f64::from(data.record_bytes) * copies;
    let records = match data.partitions {
        Partitions::TimeSeries { read, .. } => f64::from(read),
        Partitions::Single | Partitions::Wide { .. } => 1.0,
    };
    let asked = reads as f64 * records * f64::from(data.record_bytes);
    let ratios = [
        ("cpu_ms_per_operation", NODE_CPU_S, 1e3, operations),
        ("write_amplification", NODE_WRITTEN_BYTES, 1.0, payload),
        ("read_amplification", NODE_READ_BYTES, 1.0, asked),
    ];
    for (name, of, times, by) in ratios {
        // A load without writes or without reads has no such bytes: 0 by 0 is no number.
        if let Some(used) = costs.get(of).copied().filter(|_| by > 0.0) {
            costs.insert(name.to_owned(), used * times / by);
        }
    }
    costs
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::rig::CountedBy;
    use crate::workload::{Keys, Mix};

    fn workload(write: f64, read: f64, delete: f64) -> Workload {
        Workload {
            name: "w".to_owned(),
            mix: Mix { write, read, delete },
            rate: 10.0,
            keys: Keys::Uniform,
            warm_up: None,
            duration: Duration::from_secs(1),
            hold: None,
            closed: None,
        }
    }

    fn counters(at_s: f64, cpu_s: f64, written_bytes: f64) -> Counters {
        let used = [(NODE_CPU_S.to_owned(), cpu_s), (NODE_WRITTEN_BYTES.to_owned(), written_bytes)];
        Counters { at_s, used: used.into(), compacted_bytes: written_bytes / 2.0, ..Counters::default() }
    }

    #[test]
    fn costs_go_on_until_what_the_load_has_left_is_done() {
        let data = Data { record_bytes: 100, ..Data::default() };
        // What was done in the warm-up is no part of it.
        let loaded = Loaded {
            writes: (90, 90),
            reads: (80, 80),
            measured: (20, 30),
            counted_by: Some(CountedBy::default()),
            ..Loaded::default()
        };
        let (before, after, drained) =
            (counters(5.0, 1.0, 500.0), counters(15.0, 2.0, 1_500.0), counters(18.0, 2.5, 3_500.0));
        // Half of the changes are deletions, so ten records were written: 1,000 bytes.
        let found = costs(&data, &workload(1.0, 3.0, 1.0), &loaded, [&before, &after, &drained]);
        assert_eq!((found["write_amplification"], found["write_amplification_drained"]), (1.0, 3.0));
        assert_eq!((found["cpu_ms_per_operation"], found["cpu_ms_per_operation_drained"]), (20.0, 30.0));
        assert_eq!(
            (found["compacted_bytes"], found["compacted_bytes_drained"], found["drain_s"]),
            (500.0, 1_500.0, 3.0)
        );
    }

    #[test]
    fn reads_ask_for_records_and_those_of_a_series_for_several() {
        let loaded = Loaded { measured: (0, 30), ..Loaded::default() };
        let counters =
            |bytes: f64| Counters { used: [(NODE_READ_BYTES.to_owned(), bytes)].into(), ..Counters::default() };
        let (begun, after, drained) = (counters(1_000.0), counters(7_000.0), counters(10_000.0));
        for (partitions, expected) in
            [(Partitions::Single, [2.0, 3.0]), (Partitions::TimeSeries { series: 5, read: 10 }, [0.2, 0.3])]
        {
            let data = Data { record_bytes: 100, partitions, ..Data::default() };
            let found = costs(&data, &workload(0.0, 1.0, 0.0), &loaded, [&begun, &after, &drained]);
            assert_eq!([found["read_amplification"], found["read_amplification_drained"]], expected);
        }
        let none = costs(&Data::default(), &workload(1.0, 0.0, 0.0), &Loaded::default(), [&begun, &after, &drained]);
        assert!(!none.contains_key("read_amplification"), "{none:?}");
    }

    #[test]
    fn what_was_not_counted_and_what_was_not_written_have_no_figures() {
        let loaded = Loaded { measured: (0, 30), ..Loaded::default() };
        let (before, after) = (counters(0.0, 1.0, 0.0), Counters::default());
        let found = costs(&Data::default(), &workload(0.0, 1.0, 0.0), &loaded, [&before, &before, &after]);
        assert!(found.contains_key("cpu_ms_per_operation") && !found.contains_key("cpu_ms_per_operation_drained"));
        assert!(!found.contains_key("write_amplification") && !found.contains_key("compactions"), "{found:?}");
    }
}
