//! The generator's own ceiling: the most that it has shown on a machine, with a server that does
//! nothing.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::archive::{ArchivedRun, Outcome};
use crate::record::{Machine, RunRecord};
use crate::results::Verdict;

/// The candidate that does nothing.
pub(crate) const NULL: &str = "null";

/// What measures it.
pub(crate) const COMMAND: &str = "penates testbed find get --candidate null";

/// The greatest rate that a server that does nothing has held on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The run that has shown it.
    pub run: String,
    /// Requests that were done in it per second.
    pub rate: f64,
    /// Its workers.
    pub workers: usize,
}

impl Ceiling {
    /// The ceiling of the generator of a run, by the runs of an archive. Those that cannot be read are left
    /// out.
    pub fn find(archive: &Path, record: &RunRecord) -> Option<Self> {
        if !speaks_http(record) {
            return None;
        }
        Ceilings::of(&ArchivedRun::all(archive).ok()?).of_run(record)
    }

    /// What a run shows, if it held and its candidate does nothing.
    fn of(record: &RunRecord, outcome: &Outcome) -> Option<Self> {
        let is_one = record.candidate.program.name == NULL && outcome.judgement.verdict == Verdict::Held;
        let (run, rate, workers) = (record.id.clone(), outcome.summary.done_per_s, record.workers.len());
        is_one.then_some(Self { run, rate, workers })
    }

    /// The greatest of some.
    pub(crate) fn greatest<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        all.into_iter().max_by(|one, other| one.rate.total_cmp(&other.rate))
    }
}

/// What the runs of an archive show, each with its generator.
pub(crate) struct Ceilings(Vec<(String, Ceiling)>);

impl Ceilings {
    /// Those of some runs. Runs that cannot be read are left out.
    pub(crate) fn of(runs: &[ArchivedRun]) -> Self {
        let of_run = |run: &ArchivedRun| {
            let record = run.record().ok()?;
            if record.candidate.program.name != NULL {
                return None;
            }
            Some((generator(&record), Ceiling::of(&record, &run.outcome().ok()?)?))
        };
        Self(runs.iter().filter_map(of_run).collect())
    }

    /// The ceiling of the generator of a run.
    pub(crate) fn of_run(&self, record: &RunRecord) -> Option<Ceiling> {
        let generator = speaks_http(record).then(|| generator(record))?;
        let of_generator = self.0.iter().filter(|(known, _)| *known == generator);
        Ceiling::greatest(of_generator.map(|(_, ceiling)| ceiling)).cloned()
    }
}

/// Whether a run speaks HTTP, as the server that does nothing does.
pub(crate) fn speaks_http(record: &RunRecord) -> bool {
    !record.candidate.url.starts_with("redis:")
}

/// What distinguishes the machine of the generator from others. It stays the same when the machine starts again.
pub(crate) fn generator(record: &RunRecord) -> String {
    let Some(Machine { name, id, processor, processors, .. }) = record.machines.first() else { return String::new() };
    let processor = processor.as_deref().unwrap_or_default();
    format!("{} · {processors} × {processor}", id.as_ref().unwrap_or(name))
}
