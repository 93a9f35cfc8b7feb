//! What was saturated, and first: the question that follows each load that a candidate does not hold.

use std::cmp::Ordering;

use crate::record::Machine;
use crate::samples::Samples;

/// So many samples in a row make a resource saturated: one alone may be chance.
const IN_A_ROW: usize = 3;
/// A share of a resource in use that leaves nothing.
const FULL: f64 = 0.95;
/// A share of the time in which work waits for a resource that makes it the bottleneck.
const WAITING: f64 = 0.5;
/// A worker that uses so much of a processor can make no more load.
const WORKER_FULL: f64 = 0.9;

/// A resource that was saturated.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// Since when, in seconds since the start instant; `None` if only the mean of the run is known.
    pub from_s: Option<f64>,
    /// What, in a few words.
    pub what: String,
}

/// The resources that were saturated, the first of them first, and those whose time is not known last.
pub fn find(samples: &Samples, machine: &Machine, worker_cpu_shares: &[f64]) -> Vec<Saturation> {
    let processors = machine.processors as f64;
    let memory = machine.memory_bytes.map(|bytes| bytes as f64);
    let resources = [
        ("cpu", Some(FULL), "the processors of the machine"),
        ("server.cpu", Some(FULL * processors), "all processors, by the candidate alone"),
        ("cpu_steal", Some(0.2), "the host of the machine, which took processors away"),
        ("memory_used_bytes", memory.map(|bytes| FULL * bytes), "memory"),
        ("pressure_memory", Some(WAITING), "memory, for which work waited"),
        ("disk_busy", Some(FULL), "the disk"),
        ("pressure_io", Some(WAITING), "the disk, for which work waited"),
        ("disk_used", Some(0.99), "the space of the disk"),
    ];
    let of = |(column, limit, what): (&str, Option<f64>, &str)| {
        let from_s = first_above(samples, column, limit?)?;
        Some(Saturation { from_s: Some(from_s), what: what.to_owned() })
    };
    let mut found: Vec<_> = resources.into_iter().filter_map(of).collect();
    found.sort_by(|one, other| one.from_s.partial_cmp(&other.from_s).unwrap_or(Ordering::Equal));
    let workers = worker_cpu_shares.iter().enumerate().filter(|(_, share)| **share >= WORKER_FULL);
    found.extend(workers.map(|(number, share)| Saturation {
        from_s: None,
        what: format!("worker {number}, which used {:.0} % of a processor: the generator was the limit", share * 100.0),
    }));
    found
}

/// Since when a column is at or above a limit for several samples in a row.
fn first_above(samples: &Samples, column: &str, limit: f64) -> Option<f64> {
    let column = samples.columns.iter().position(|known| known == column)?;
    let is_above = |(_, values): &(f64, Vec<Option<f64>>)| values[column].is_some_and(|value| value >= limit);
    let rows = samples.rows.windows(IN_A_ROW).find(|rows| rows.iter().all(is_above))?;
    Some(rows[0].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(cpu: &[f64], disk: &[f64]) -> Samples {
        let row = |(second, (cpu, disk)): (usize, (&f64, &f64))| (second as f64, vec![Some(*cpu), Some(*disk)]);
        Samples {
            name: "candidate".to_owned(),
            columns: ["server.cpu", "disk_busy"].map(str::to_owned).to_vec(),
            rows: cpu.iter().zip(disk).enumerate().map(row).collect(),
        }
    }

    #[test]
    fn what_was_saturated_first_comes_first_and_a_single_peak_is_nothing() {
        let machine = Machine { processors: 2, ..Machine::default() };
        let samples = samples(&[0.1, 2.0, 2.0, 2.0, 2.0], &[1.0, 1.0, 1.0, 0.1, 0.1]);
        let found = find(&samples, &machine, &[0.2]);
        assert_eq!(found.iter().map(|found| found.from_s).collect::<Vec<_>>(), [Some(0.0), Some(1.0)]);
        assert_eq!(found[0].what, "the disk");
        let peak = self::samples(&[2.0, 0.1, 2.0, 2.0, 0.1], &[0.0; 5]);
        assert_eq!(find(&peak, &machine, &[]), []);
    }

    #[test]
    fn a_worker_without_a_free_processor_is_the_limit() {
        let found = find(&samples(&[], &[]), &Machine::default(), &[0.2, 0.97]);
        assert!(found[0].what.starts_with("worker 1, which used 97 %"), "{found:?}");
        // Only the mean of the run is known, so nobody says that it was the first.
        assert_eq!(found[0].from_s, None);
        let machine = Machine { processors: 2, ..Machine::default() };
        let found = find(&samples(&[0.1; 4], &[0.1, 1.0, 1.0, 1.0]), &machine, &[0.97]);
        assert_eq!(found.iter().map(|found| found.from_s).collect::<Vec<_>>(), [Some(1.0), None]);
    }
}
