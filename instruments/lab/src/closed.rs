//! A closed loop: so many threads each send their next operation when the last one was answered.
//! It exists for likeness with the thesis on tuning compaction only. A slower node is asked less
//! often, so the rate follows from the node, and no queue shows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::line::Line;
use crate::plan::Plan;
use crate::workload::Workload;

/// The figure of a run that says how many threads made its load.
pub const THREADS: &str = "threads";

/// How every figure of a closed loop is to be read.
pub const WARNING: &str =
    "Closed loop: this mostly measures the number of threads. Response time is service time here.";

/// The same for the title of a table.
pub(crate) const MARK: &str = " (closed loop: mostly the number of threads)";

/// The most threads, as in cassandra-stress where nobody says another number.
pub const THREADS_MAX: u32 = 1_000;

/// With so many threads a search begins.
const THREADS_MIN: u32 = 4;

/// A search doubles the number of threads below this, and makes it half as large again from there on.
const DOUBLED_BELOW: u32 = 16;

/// A search ends when the mean growth of this many steps is below zero.
const STEPS: usize = 3;

/// A load of a search is measured for this share of the workload's time, and at least for so long if
/// the workload is.
const LOAD_SHARE: u32 = 10;
const LOAD_MIN: Duration = Duration::from_secs(5);

/// A closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// How many threads send.
    pub threads: Threads,
}

/// How many threads send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Threads {
    /// So many, 1 to [`THREADS_MAX`].
    Number(u32),
    /// As many as the word says.
    Word(Word),
}

/// What a plan says in place of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// As many as a search finds before the first run of the workload.
    Search,
}

impl Closed {
    /// One whose number of threads a search finds.
    pub const SEARCH: Self = Self { threads: Threads::Word(Word::Search) };

    /// One of so many threads.
    pub fn of(threads: u32) -> Self {
        Self { threads: Threads::Number(threads) }
    }

    /// The number of threads; `None`: a search has to find it first.
    pub fn number(&self) -> Option<u32> {
        match self.threads {
            Threads::Number(threads) => Some(threads),
            Threads::Word(Word::Search) => None,
        }
    }

    /// Whether it makes sense.
    pub(crate) fn is_good(&self) -> bool {
        self.number().is_none_or(|threads| (1..=THREADS_MAX).contains(&threads))
    }
}

/// The plan with the numbers of threads that earlier runs have found: all runs of a workload have the
/// same.
pub(crate) fn with_found(plan: &Plan, lines: &[Line]) -> Plan {
    let mut plan = plan.clone();
    for workload in &mut plan.workloads {
        let of_workload = |line: &&Line| line.is_valid() && line.planned.workload == workload.name;
        let found = lines.iter().find(of_workload).and_then(|line| line.metrics.get(THREADS).copied());
        if let Some(found) = found.filter(|_| workload.is_searched()) {
            workload.closed = Some(Closed::of(found as u32));
        }
    }
    plan
}

/// The load of a step of a search.
pub(crate) fn step(workload: &Workload, threads: u32) -> Workload {
    let duration = (workload.duration / LOAD_SHARE).max(LOAD_MIN.min(workload.duration));
    Workload { duration, closed: Some(Closed::of(threads)), ..workload.clone() }
}

/// A search by the rule of cassandra-stress where it is given no number of threads (its class
/// `StressAction`): 4, 8, 16, 24, 36 … threads, until the throughput of the last three steps did not
/// grow on average, or more than [`THREADS_MAX`] threads would follow.
#[derive(Debug, Default)]
pub(crate) struct Steps(Vec<(u32, f64)>);

impl Steps {
    /// The next number of threads; `None`: the search has ended.
    pub fn wanted(&self) -> Option<u32> {
        let Some((last, _)) = self.0.last() else { return Some(THREADS_MIN) };
        let next = if *last < DOUBLED_BELOW { last * 2 } else { last * 3 / 2 };
        (next <= THREADS_MAX && self.grows()).then_some(next)
    }

    fn grows(&self) -> bool {
        let growths: Vec<_> = self.0.windows(2).map(|pair| pair[1].1 / pair[0].1 - 1.0).collect();
        growths.len() < STEPS || growths.iter().rev().take(STEPS).sum::<f64>() >= 0.0
    }

    /// Adds the operations per second that so many threads had. They are above 0.
    pub fn add(&mut self, threads: u32, rate_per_s: f64) {
        self.0.push((threads, rate_per_s));
    }

    /// The number of threads with the highest throughput.
    pub fn found(&self) -> u32 {
        let best = self.0.iter().min_by(|one, other| other.1.total_cmp(&one.1));
        best.map_or(THREADS_MIN, |(threads, _)| *threads)
    }

    /// What the search has measured, for people.
    pub fn note(&self) -> String {
        let all: Vec<_> = self.0.iter().map(|(threads, rate)| format!("{threads}: {rate:.0}")).collect();
        let (found, all) = (self.found(), all.join(", "));
        format!("a search with the defaults found {found} threads; operations per second by threads: {all}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The threads of a search on a node whose throughput follows from them.
    fn searched(rate_per_s: impl Fn(u32) -> f64) -> (Vec<u32>, u32) {
        let mut steps = Steps::default();
        while let Some(threads) = steps.wanted() {
            steps.add(threads, rate_per_s(threads));
        }
        (steps.0.iter().map(|(threads, _)| *threads).collect(), steps.found())
    }

    #[test]
    fn threads_grow_as_in_cassandra_stress_as_long_as_throughput_does() {
        let (tried, found) = searched(f64::from);
        assert_eq!(tried, [4, 8, 16, 24, 36, 54, 81, 121, 181, 271, 406, 609, 913]);
        assert_eq!(found, 913);
    }

    #[test]
    fn a_search_ends_when_three_steps_do_not_grow_on_average_and_takes_the_best() {
        // Above 36 threads, each one costs an operation per second.
        let (tried, found) = searched(|threads| match threads {
            0..=36 => f64::from(threads) * 27.0,
            _ => 1_036.0 - f64::from(threads),
        });
        // Of the steps to 54, 81 and 121, the first still grows by less than the two others fall.
        assert_eq!((tried, found), (vec![4, 8, 16, 24, 36, 54, 81, 121], 54));
        // The fewest of those that are equally good.
        assert_eq!(searched(|_| 100.0).1, 4);
    }

    #[test]
    fn a_closed_loop_has_one_to_a_thousand_threads_or_a_search() {
        assert!(Closed::SEARCH.is_good() && Closed::of(1).is_good() && Closed::of(1_000).is_good());
        assert!(!Closed::of(0).is_good() && !Closed::of(1_001).is_good());
    }
}
