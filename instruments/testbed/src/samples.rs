//! What was sampled beside the requests of a run: monitors, and what happened when.

use serde::{Deserialize, Serialize};

use crate::results::Costs;
use crate::saturation::{place, processes};

/// Samples of one monitor: one value per column and instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// The monitor's name.
    pub name: String,
    /// The names of the columns, with their units at the end: `memory_used_bytes`.
    pub columns: Vec<String>,
    /// Seconds since the start instant, and one value per column; `None` where there is none.
    pub rows: Vec<(f64, Vec<Option<f64>>)>,
}

impl Samples {
    /// The mean of a column; `None` if it has no values.
    pub fn mean(&self, column: &str) -> Option<f64> {
        let column = self.columns.iter().position(|known| known == column)?;
        let known: Vec<_> = self.rows.iter().filter_map(|(_, values)| values.get(column).copied().flatten()).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// What the watched processes took: processor time from the start instant until so many seconds after it.
    /// `None` without such processes.
    pub fn costs(&self, until_s: f64) -> Option<Costs> {
        let places =
            |of: &str| processes(self).filter_map(|name| place(self, &format!("{name}.{of}"))).collect::<Vec<_>>();
        let (cpu, memory) = (places("cpu"), places("memory_bytes"));
        let sum = |places: &[usize], values: &[Option<f64>]| -> f64 {
            places.iter().filter_map(|place| values.get(*place).copied().flatten()).sum()
        };
        let (mut costs, mut before_s) = (Costs::default(), 0.0);
        for (at_s, values) in &self.rows {
            costs.memory_peak_bytes = costs.memory_peak_bytes.max(sum(&memory, values));
            let now_s = at_s.clamp(0.0, until_s);
            costs.cpu_s += sum(&cpu, values) * (now_s - before_s);
            before_s = now_s;
        }
        (!cpu.is_empty()).then_some(costs)
    }

    /// Bytes per second that the watched processes read from disks: at which second, and how many.
    /// Without watched processes, what the whole machine reads.
    pub fn disk_reads_per_s(&self) -> Vec<(f64, f64)> {
        let of_processes = |column: &String| column.ends_with(".read_bytes_per_s") && !column.starts_with("metrics.");
        let of_machine = |column: &String| column == "disk_read_bytes_per_s";
        let positions = |is_one: &dyn Fn(&String) -> bool| -> Vec<usize> {
            self.columns.iter().enumerate().filter(|(_, column)| is_one(column)).map(|(at, _)| at).collect()
        };
        let mut wanted = positions(&of_processes);
        if wanted.is_empty() {
            wanted = positions(&of_machine);
        }
        let sum = |values: &[Option<f64>]| {
            let known: Vec<_> = wanted.iter().filter_map(|at| values.get(*at).copied().flatten()).collect();
            (!known.is_empty()).then(|| known.iter().sum())
        };
        self.rows.iter().filter_map(|(at_s, values)| Some((*at_s, sum(values)?))).collect()
    }
}

/// Something that happened at an instant: a flush, a compaction, a collection of garbage, a node
/// added, a server killed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Marked {
    /// Seconds since the start instant; negative before it.
    pub at_s: f64,
    /// What happened, in a few words.
    pub what: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_the_processes_after_the_warm_up_and_until_nobody_arrives() {
        let columns = ["server.cpu", "server.memory_bytes", "server.threads", "container.cpu", "metrics.x.cpu"];
        let rows = [(-1.0, 9.0), (1.0, 0.5), (2.0, 1.5), (3.0, 7.0)];
        let values = |cpu: f64| [cpu, 10.0 * cpu, 1.0, 5.0, 5.0].map(Some).to_vec();
        let samples = Samples {
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.map(|(at_s, cpu)| (at_s, values(cpu))).to_vec(),
            ..Samples::default()
        };
        assert_eq!(samples.costs(2.0), Some(Costs { cpu_s: 2.0, memory_peak_bytes: 90.0 }));
        assert_eq!(Samples::default().costs(2.0), None);
    }

    #[test]
    fn disk_reads_are_those_of_the_processes_and_without_any_those_of_the_machine() {
        let samples = |columns: &[&str], values: &[Option<f64>]| Samples {
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: vec![(1.0, values.to_vec()), (2.0, vec![None; values.len()])],
            ..Samples::default()
        };
        let columns = ["disk_read_bytes_per_s", "a.read_bytes_per_s", "b.read_bytes_per_s", "metrics.read_bytes_per_s"];
        let of_processes = samples(&columns, &[Some(9.0), Some(1.0), Some(2.0), Some(4.0)]);
        assert_eq!(of_processes.disk_reads_per_s(), [(1.0, 3.0)]);
        assert_eq!(samples(&columns[..1], &[Some(9.0)]).disk_reads_per_s(), [(1.0, 9.0)]);
    }
}
