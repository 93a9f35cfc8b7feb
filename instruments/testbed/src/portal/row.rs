//! A run as a row of the table: an object of `runs.json`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::settings;
use crate::archive::Outcome;
use crate::record::{Input, RunRecord};
use crate::report::Ceiling;
use crate::report::ceiling::{generator, null, protocol};
use crate::results::{Times, Verdict};
use crate::scenario::Protocol;

/// The main figures and facts of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    /// The run's id, and the name of its folder.
    pub(super) id: String,
    pub(super) started_at: Timestamp,
    pub(super) who: String,
    /// Whether the record has no gap.
    pub(super) traceable: bool,
    /// What the record lacks.
    pub(super) missing: Vec<String>,
    pub(super) candidate: String,
    pub(super) version: String,
    pub(super) commit: Option<String>,
    /// Whether the candidate was built from changed files.
    pub(super) is_dirty: Option<bool>,
    pub(super) candidate_sha256: Option<String>,
    /// Of its configuration without what the testbed has chosen for this run only.
    pub(super) configuration_sha256: Option<String>,
    pub(super) engine: Option<String>,
    /// What the candidate's description says further.
    pub(super) facts: BTreeMap<String, String>,
    pub(super) plan: String,
    pub(super) plan_sha256: Option<String>,
    /// Names of scenarios with the SHA-256 of each.
    pub(super) scenarios: BTreeMap<String, String>,
    pub(super) seed: u64,
    pub(super) workers: usize,
    /// Where the candidate ran, as far as the testbed knows it; else where it was measured from.
    pub(super) machine: String,
    /// What distinguishes the machines of the generator from others.
    pub(super) generator: String,
    /// What it speaks.
    pub(super) protocol: Protocol,
    /// The most that the generator has shown there. It follows from the other runs. In the folder of the run
    /// it is the one of the report there.
    #[serde(default)]
    pub(super) ceiling: Option<Ceiling>,
    pub(super) duration_s: f64,
    pub(super) verdict: Verdict,
    pub(super) reasons: Vec<String>,
    /// Requests that were due, and so on.
    pub(super) due: u64,
    pub(super) done: u64,
    /// Those of them that met a conflict.
    #[serde(default)]
    pub(super) conflicts: u64,
    pub(super) errors: u64,
    pub(super) refused: u64,
    pub(super) dropped: u64,
    /// Requests per second.
    pub(super) rate_due: f64,
    pub(super) rate_done: f64,
    /// From the instant when a request was due; requests that were done.
    pub(super) response: Times,
}

impl Row {
    /// The row of a run. `plan` is the name of its plan.
    pub(super) fn new(record: &RunRecord, outcome: &Outcome, plan: String) -> Self {
        let (candidate, all) = (&record.candidate, &outcome.summary.all);
        let duration_s = outcome.summary.duration_s;
        let rate = |count: u64| if duration_s > 0.0 { count as f64 / duration_s } else { 0.0 };
        let facts: BTreeMap<_, _> = candidate.facts.iter().cloned().collect();
        Self {
            id: record.id.clone(),
            started_at: record.started_at,
            who: record.who.clone(),
            traceable: record.missing.is_empty(),
            missing: record.missing.clone(),
            candidate: candidate.program.name.clone(),
            version: candidate.program.version.clone(),
            commit: candidate.program.commit.clone(),
            is_dirty: candidate.program.is_dirty,
            candidate_sha256: candidate.program.sha256.clone(),
            configuration_sha256: settings::configuration(candidate).map(|text| hex::encode(Sha256::digest(text))),
            engine: facts.get("engine").cloned(),
            facts,
            plan,
            plan_sha256: plan_sha256(&record.inputs),
            scenarios: scenarios(&record.inputs),
            seed: record.seed,
            workers: record.workers.len(),
            machine: machine(record),
            generator: generator(record),
            protocol: protocol(record),
            ceiling: None,
            duration_s,
            verdict: outcome.judgement.verdict,
            reasons: outcome.judgement.reasons.clone(),
            due: all.due,
            done: all.done,
            conflicts: all.conflicts,
            errors: all.failed,
            refused: all.refused,
            dropped: all.dropped,
            rate_due: rate(all.due),
            rate_done: outcome.summary.done_per_s,
            response: all.response,
        }
    }

    /// The ceiling that it shows, if its candidate does nothing and it held.
    fn shows(&self) -> Option<Ceiling> {
        let is_one = self.candidate == null(self.protocol) && self.verdict == Verdict::Held;
        is_one.then(|| Ceiling { run: self.id.clone(), rate: self.rate_done, workers: self.workers })
    }

    /// Names of its scenarios.
    pub(super) fn scenario_names(&self) -> String {
        self.scenarios.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

/// Adds the ceiling of its generator, for its protocol, to each row.
pub(super) fn add_ceilings(rows: &mut [Row]) {
    let shown = |row: &Row| Some((row.generator.clone(), row.protocol, row.shows()?));
    let shown: Vec<_> = rows.iter().filter_map(shown).collect();
    for row in rows {
        let is_same = |generator: &String, protocol: Protocol| *generator == row.generator && protocol == row.protocol;
        let same = shown.iter().filter(|(generator, protocol, _)| is_same(generator, *protocol));
        let greatest = Ceiling::greatest(same.map(|(.., ceiling)| ceiling)).cloned();
        row.ceiling = greatest;
    }
}

fn plan_sha256(inputs: &[Input]) -> Option<String> {
    inputs.iter().find(|input| input.name == "plan").map(|input| input.sha256.clone())
}

fn scenarios(inputs: &[Input]) -> BTreeMap<String, String> {
    let named = |input: &Input| Some((input.name.strip_prefix("scenario ")?.to_owned(), input.sha256.clone()));
    inputs.iter().filter_map(named).collect()
}

fn machine(record: &RunRecord) -> String {
    let of_candidate = record.machines.iter().find(|machine| machine.roles.iter().any(|role| role == "candidate"));
    of_candidate.or(record.machines.first()).map(|machine| machine.name.clone()).unwrap_or_default()
}
