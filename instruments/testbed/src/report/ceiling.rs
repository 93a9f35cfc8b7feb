//! The generator's own ceiling: the most that it has shown on a machine, with a server that does
//! nothing.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::archive::{ArchivedRun, Outcome};
use crate::record::{Machine, RunRecord};
use crate::results::Verdict;
use crate::scenario::Protocol;

/// The candidate that does nothing over a protocol.
pub(crate) const fn null(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "null",
        Protocol::Resp => "null-redis",
    }
}

/// What measures the ceiling of a generator that speaks a protocol.
pub(crate) const fn command(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "lares testbed find get --candidate null",
        Protocol::Resp => "lares testbed find records-90-10 --candidate null-redis",
    }
}

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
        Ceilings::of(&ArchivedRun::all(archive).ok()?).of_run(record)
    }

    /// What a run shows, if it held and its candidate does nothing.
    fn of(record: &RunRecord, outcome: &Outcome) -> Option<Self> {
        let is_one = does_nothing(record) && outcome.judgement.verdict == Verdict::Held;
        let (run, rate, workers) = (record.id.clone(), outcome.summary.done_per_s, record.workers.len());
        is_one.then_some(Self { run, rate, workers })
    }

    /// The greatest of some.
    pub(crate) fn greatest<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        all.into_iter().max_by(|one, other| one.rate.total_cmp(&other.rate))
    }
}

/// What the runs of an archive show, each with its generator and its protocol.
pub(crate) struct Ceilings(Vec<(String, Protocol, Ceiling)>);

impl Ceilings {
    /// Those of some runs. Runs that cannot be read are left out.
    pub(crate) fn of(runs: &[ArchivedRun]) -> Self {
        let of_run = |run: &ArchivedRun| {
            let record = run.record().ok()?;
            if !does_nothing(&record) {
                return None;
            }
            Some((generator(&record), protocol(&record), Ceiling::of(&record, &run.outcome().ok()?)?))
        };
        Self(runs.iter().filter_map(of_run).collect())
    }

    /// The ceiling of the generator of a run, for the protocol of the run.
    pub(crate) fn of_run(&self, record: &RunRecord) -> Option<Ceiling> {
        let (generator, protocol) = (generator(record), protocol(record));
        let same = self.0.iter().filter(|(known, spoken, _)| (known, *spoken) == (&generator, protocol));
        Ceiling::greatest(same.map(|(.., ceiling)| ceiling)).cloned()
    }
}

/// The protocol of a run.
pub(crate) fn protocol(record: &RunRecord) -> Protocol {
    match record.candidate.url.starts_with("redis:") {
        true => Protocol::Resp,
        false => Protocol::Http,
    }
}

/// Whether the candidate of a run does nothing.
fn does_nothing(record: &RunRecord) -> bool {
    record.candidate.program.name == null(protocol(record))
}

/// What distinguishes the machines of the generator, which are those of the workers, from others. It
/// stays the same when they start again.
pub(crate) fn generator(record: &RunRecord) -> String {
    let is_of_worker = |machine: &&Machine| machine.roles.iter().any(|role| role.starts_with("worker "));
    let shown = |Machine { name, id, processor, processors, .. }: &Machine| {
        let processor = processor.as_deref().unwrap_or_default();
        format!("{} · {processors} × {processor}", id.as_ref().unwrap_or(name))
    };
    let mut machines: Vec<_> = record.machines.iter().filter(is_of_worker).map(shown).collect();
    // Which of them is the first says nothing of what they can do.
    machines.sort();
    machines.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::candidate::Candidate;
    use crate::inputs::Inputs;
    use crate::plan::Plan;
    use crate::plans;
    use crate::record::{CandidateRecord, FORMAT, Program};

    /// The generator of a run with these machines: their names, and what runs there.
    fn generator_of(machines: &[(&str, &[&str])]) -> String {
        let machine = |(name, roles): &(&str, &[&str])| Machine {
            name: (*name).to_owned(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            processors: 4,
            ..Machine::default()
        };
        generator(&RunRecord {
            format: FORMAT,
            id: "r".to_owned(),
            who: "a test".to_owned(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            ended_at: jiff::Timestamp::UNIX_EPOCH,
            testbed: Program::default(),
            candidate: CandidateRecord::default(),
            inputs: Vec::new(),
            seed: 1,
            workers: Vec::new(),
            machines: machines.iter().map(machine).collect(),
            preparation: String::new(),
            missing: Vec::new(),
            beside: crate::beside::Beside::default(),
        })
    }

    #[test]
    fn a_generator_is_the_machines_of_the_workers_and_not_that_of_the_coordinator() {
        let here = generator_of(&[("desk", &["coordinator", "worker 0", "worker 1"])]);
        let one = generator_of(&[("desk", &["coordinator"]), ("node-1", &["worker 0"])]);
        let other = generator_of(&[("desk", &["coordinator"]), ("node-2", &["worker 0", "monitor x:1"])]);
        assert!(here != one && one != other && here != other, "{here} / {one} / {other}");
        // The coordinator may be anywhere, and workers may have any order.
        assert_eq!(one, generator_of(&[("other desk", &["coordinator", "candidate"]), ("node-1", &["worker 0"])]));
        let both = generator_of(&[("desk", &[]), ("node-1", &["worker 0"]), ("node-2", &["worker 1"])]);
        assert_eq!(both, generator_of(&[("desk", &[]), ("node-2", &["worker 0"]), ("node-1", &["worker 1"])]));
    }

    #[test]
    fn what_measures_a_ceiling_is_a_shipped_plan_of_the_protocol_and_a_shipped_candidate_that_speaks_it() {
        for (protocol, scheme) in [(Protocol::Http, "http:"), (Protocol::Resp, "redis:")] {
            let words: Vec<_> = command(protocol).split(' ').collect();
            assert_eq!(words[..3], ["lares", "testbed", "find"]);
            assert_eq!(words[4..], ["--candidate", null(protocol)]);
            assert!(Candidate::shipped(null(protocol)).unwrap().spec.url.starts_with(scheme));
            let plan = Plan::parse(plans::text(words[3]).unwrap()).unwrap();
            let inputs = Inputs::of_plan(plan, Path::new("")).unwrap();
            assert!(inputs.compiled().unwrap().iter().all(|scenario| scenario.protocol == protocol));
        }
    }
}
