//! What was saturated, and first: the question that follows each load that a candidate does not hold.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::record::Machine;
use crate::samples::Samples;

/// So many samples in a row make a resource saturated: one alone may be chance.
const IN_A_ROW: usize = 3;
/// A share of a resource in use that leaves nothing.
const FULL: f64 = 0.95;
/// A share of the time in which work waits for a resource that makes it the bottleneck.
const WAITING: f64 = 0.5;
/// A control group that has to wait for so much of a processor because of its quota has nothing left of
/// it: a quota just below what its threads can use takes only a little.
const THROTTLED: f64 = 0.1;
/// What a process uses of the processors whose only busy thread is at its limit, with the little that its
/// other threads do.
const ONE_PROCESSOR: RangeInclusive<f64> = FULL..=1.15;
/// So many processors must be idle beside it: it could use them, if it had a second busy thread.
const IDLE_MIN: f64 = 0.5;

/// A resource that was saturated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    /// Since when, in seconds since the start instant; `None` if only the mean of the run is known.
    pub from_s: Option<f64>,
    /// What, in a few words.
    pub what: String,
    /// The machine, if another one than the coordinator's was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

impl Saturation {
    /// What, and where.
    fn shown(&self) -> String {
        let of_machine = self.machine.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{}{of_machine}", self.what)
    }
}

/// What was saturated, as sentences.
pub fn sentences(found: &[Saturation]) -> Vec<String> {
    let sentence = |(index, found): (usize, &Saturation)| match (index, found.from_s) {
        (0, Some(from_s)) => format!("Saturated first: {}, from second {from_s:.0} on.", found.shown()),
        (_, Some(from_s)) => format!("Then: {}, from second {from_s:.0} on.", found.shown()),
        (_, None) => format!("Saturated, at a time that is not known: {}.", found.shown()),
    };
    found.iter().enumerate().map(sentence).collect()
}

/// The resources that were saturated on the machines that were watched, the first of them first. `is_named`
/// says whether they have the names of their machines.
pub fn find(watched: &[(&Samples, &Machine)], is_named: bool) -> Vec<Saturation> {
    let mut found: Vec<Saturation> = Vec::new();
    for (samples, machine) in watched {
        let name = is_named.then(|| machine.name.clone());
        let named = |found: Saturation| Saturation { machine: name.clone(), ..found };
        found.extend(of(samples, machine).into_iter().map(named));
    }
    found.sort_by(|one, other| one.from_s.partial_cmp(&other.from_s).unwrap_or(Ordering::Equal));
    // Several monitors may watch one machine.
    let mut known = HashSet::new();
    found.retain(|found| known.insert(found.shown()));
    found
}

/// The resources of one machine that were saturated.
fn of(samples: &Samples, machine: &Machine) -> Vec<Saturation> {
    let processors = machine.processors as f64;
    let memory = machine.memory_bytes.map(|bytes| bytes as f64);
    let resources = [
        ("cpu", Some(FULL), "the processors of the machine"),
        ("cpu_steal", Some(0.2), "the host of the machine, which took processors away"),
        ("memory_used_bytes", memory.map(|bytes| FULL * bytes), "memory"),
        ("pressure_memory", Some(WAITING), "memory, for which work waited"),
        ("disk_busy", Some(FULL), "the disk"),
        ("pressure_io", Some(WAITING), "the disk, for which work waited"),
        ("disk_used", Some(0.99), "the space of the disk"),
    ];
    let of_resource = |(column, limit, what): (&str, Option<f64>, &str)| {
        let from_s = first_above(samples, column, limit?)?;
        Some(Saturation { from_s: Some(from_s), what: what.to_owned(), machine: None })
    };
    let resources = resources.into_iter().filter_map(of_resource);
    resources
        .chain(candidate(samples, processors))
        .chain(groups(samples))
        .chain(single_threads(samples, processors))
        .collect()
}

/// All processors, if the watched processes use them together.
fn candidate(samples: &Samples, processors: f64) -> Option<Saturation> {
    let columns: Vec<_> = processes(samples).filter_map(|name| place(samples, &format!("{name}.cpu"))).collect();
    let is_full = |values: &[Option<f64>]| {
        let used: f64 = columns.iter().filter_map(|column| values[*column]).sum();
        used >= FULL * processors
    };
    let (from_s, what) = (first(samples, is_full)?, "all processors, by the candidate alone".to_owned());
    Some(Saturation { from_s: Some(from_s), what, machine: None })
}

/// The names of the watched processes. Control groups and nodes of Cassandra have no threads here.
pub(crate) fn processes(samples: &Samples) -> impl Iterator<Item = &str> {
    let names = samples.columns.iter().filter_map(|column| column.strip_suffix(".threads"));
    names.filter(|name| !name.starts_with("metrics."))
}

/// The control groups, such as containers, that are at a limit of their own.
fn groups(samples: &Samples) -> impl Iterator<Item = Saturation> {
    let columns = samples.columns.iter().filter(|column| !column.starts_with("metrics."));
    columns.filter_map(move |column| {
        let (group, counted) = column.rsplit_once('.')?;
        let (what, from_s) = match counted {
            "cpu_throttled" => ("the quota of processors", first_above(samples, column, THROTTLED)?),
            "memory_used_bytes" => {
                let (used, limit) = (place(samples, column)?, place(samples, &format!("{group}.memory_limit_bytes"))?);
                let is_full = |values: &[Option<f64>]| {
                    values[used].zip(values[limit]).is_some_and(|(used, limit)| used >= FULL * limit)
                };
                ("the limit of memory", first(samples, is_full)?)
            }
            "pressure_memory" => ("memory, for which work waited,", first_above(samples, column, WAITING)?),
            "pressure_io" => ("the disk, for which work waited,", first_above(samples, column, WAITING)?),
            _ => return None,
        };
        let what = format!("{what} of the control group {group}");
        Some(Saturation { from_s: Some(from_s), what, machine: None })
    })
}

/// The watched processes that use one processor and never more, while others are idle.
fn single_threads(samples: &Samples, processors: f64) -> impl Iterator<Item = Saturation> {
    processes(samples).filter_map(move |name| {
        let column = format!("{name}.cpu");
        let (of_process, of_machine) = (place(samples, &column)?, place(samples, "cpu")?);
        let is_full = |values: &[Option<f64>]| {
            let is_idle = values[of_machine].is_some_and(|share| (1.0 - share) * processors >= IDLE_MIN);
            is_idle && values[of_process].is_some_and(|used| ONE_PROCESSOR.contains(&used))
        };
        let from_s = first(samples, is_full)?;
        // A process that uses more at another time has several busy threads.
        let is_one = first_above(samples, &column, *ONE_PROCESSOR.end()).is_none();
        let what = format!("one processor's worth of the process {name}, while other processors were idle");
        is_one.then_some(Saturation { from_s: Some(from_s), what, machine: None })
    })
}

/// Since when a column is at or above a limit for several samples in a row.
fn first_above(samples: &Samples, column: &str, limit: f64) -> Option<f64> {
    let column = place(samples, column)?;
    first(samples, |values| values[column].is_some_and(|value| value >= limit))
}

/// Since when something is true of several samples in a row.
fn first(samples: &Samples, is: impl Fn(&[Option<f64>]) -> bool) -> Option<f64> {
    let rows = samples.rows.windows(IN_A_ROW).find(|rows| rows.iter().all(|(_, values)| is(values)))?;
    Some(rows[0].0)
}

pub(crate) fn place(samples: &Samples, column: &str) -> Option<usize> {
    samples.columns.iter().position(|known| known == column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(cpu: &[f64], disk: &[f64]) -> Samples {
        // Two processes use what the first column says, together.
        let row = |(second, (cpu, disk)): (usize, (&f64, &f64))| {
            (second as f64, vec![Some(cpu / 2.0), Some(cpu / 2.0), Some(*disk), Some(3.0), Some(4.0)])
        };
        Samples {
            name: "candidate".to_owned(),
            columns: ["server.cpu", "worker.cpu", "disk_busy", "server.threads", "worker.threads"]
                .map(str::to_owned)
                .to_vec(),
            rows: cpu.iter().zip(disk).enumerate().map(row).collect(),
        }
    }

    #[test]
    fn what_was_saturated_first_comes_first_and_a_single_peak_is_nothing() {
        let machine = Machine { processors: 2, ..Machine::default() };
        let samples = samples(&[0.1, 2.0, 2.0, 2.0, 2.0], &[1.0, 1.0, 1.0, 0.1, 0.1]);
        let found = find(&[(&samples, &machine)], false);
        assert_eq!(found.iter().map(|found| found.from_s).collect::<Vec<_>>(), [Some(0.0), Some(1.0)]);
        assert_eq!(found[0].what, "the disk");
        let peak = self::samples(&[2.0, 0.1, 2.0, 2.0, 0.1], &[0.0; 5]);
        assert_eq!(find(&[(&peak, &machine)], false), []);
    }

    #[test]
    fn a_single_thread_at_its_limit_is_named_while_other_processors_are_idle() {
        let found = |cpu: f64, used: &[f64]| {
            let row = |(second, used): (usize, &f64)| (second as f64, vec![Some(cpu), Some(*used), Some(5.0)]);
            let samples = Samples {
                name: "candidate".to_owned(),
                columns: ["cpu", "server.cpu", "server.threads"].map(str::to_owned).to_vec(),
                rows: used.iter().enumerate().map(row).collect(),
            };
            find(&[(&samples, &Machine { processors: 4, ..Machine::default() })], false)
        };
        let one = found(0.4, &[0.5, 0.97, 1.02, 0.99, 1.0]);
        assert_eq!(one.len(), 1, "{one:?}");
        assert_eq!(one[0].from_s, Some(1.0));
        assert!(one[0].what.starts_with("one processor's worth of the process server"), "{one:?}");
        // The machine has nothing else to give, or the process takes more at another time.
        assert!(found(0.94, &[1.0; 5]).is_empty());
        assert!(found(0.4, &[1.0, 1.0, 1.0, 1.6, 1.9, 2.2]).is_empty());
    }

    #[test]
    fn a_control_group_at_its_quota_or_at_its_limit_of_memory_is_named() {
        let found = |throttled: &[f64], memory: &[f64]| {
            let row = |(second, (throttled, memory)): (usize, (&f64, &f64))| {
                (second as f64, vec![Some(*throttled), Some(*memory), Some(100.0), Some(9.0)])
            };
            let columns = ["container.cpu_throttled", "container.memory_used_bytes", "container.memory_limit_bytes"];
            let columns = columns.into_iter().chain(["metrics.x.cpu_throttled"]);
            let samples = Samples {
                name: "candidate".to_owned(),
                columns: columns.map(str::to_owned).collect(),
                rows: throttled.iter().zip(memory).enumerate().map(row).collect(),
            };
            find(&[(&samples, &Machine { processors: 4, ..Machine::default() })], false)
        };
        let both = found(&[0.0, 0.5, 0.4, 0.6, 0.5], &[90.0, 90.0, 96.0, 97.0, 99.0]);
        let wanted = [
            "Saturated first: the quota of processors of the control group container, from second 1 on.",
            "Then: the limit of memory of the control group container, from second 2 on.",
        ];
        assert_eq!(sentences(&both), wanted);
        // A short burst is nothing.
        assert_eq!(found(&[0.0, 0.5, 0.5, 0.01, 0.0], &[50.0; 5]), []);
    }

    #[test]
    fn a_control_group_whose_work_waits_for_the_disk_is_named() {
        let samples = Samples {
            name: "candidate".to_owned(),
            columns: vec!["container.pressure_io".to_owned(), "container.pressure_memory".to_owned()],
            rows: (0..5).map(|second| (f64::from(second), vec![Some(0.6), Some(0.4)])).collect(),
        };
        let found = find(&[(&samples, &Machine { processors: 4, ..Machine::default() })], false);
        let wanted = "Saturated first: the disk, for which work waited, of the control group container, \
            from second 0 on.";
        assert_eq!(sentences(&found), [wanted]);
    }

    #[test]
    fn what_was_saturated_has_the_name_of_its_machine_and_comes_once_for_each() {
        let machine = |name: &str| Machine { name: name.to_owned(), processors: 2, ..Machine::default() };
        let (here, there) = (machine("here"), machine("node-2"));
        let late = samples(&[0.1; 5], &[0.1, 0.1, 1.0, 1.0, 1.0]);
        let early = samples(&[0.1; 5], &[0.1, 1.0, 1.0, 1.0, 1.0]);
        // Two monitors watch the second machine.
        let found = find(&[(&late, &here), (&late, &there), (&early, &there)], true);
        let wanted =
            ["Saturated first: the disk (node-2), from second 1 on.", "Then: the disk (here), from second 2 on."];
        assert_eq!(sentences(&found), wanted);
    }

    #[test]
    fn sentences_say_what_came_first_and_what_then() {
        let machine = Machine { processors: 2, ..Machine::default() };
        let samples = samples(&[0.1, 2.0, 2.0, 2.0, 2.0], &[1.0, 1.0, 1.0, 0.1, 0.1]);
        let found = find(&[(&samples, &machine)], false);
        let wanted = [
            "Saturated first: the disk, from second 0 on.",
            "Then: all processors, by the candidate alone, from second 1 on.",
        ];
        assert_eq!(sentences(&found), wanted);
    }
}
