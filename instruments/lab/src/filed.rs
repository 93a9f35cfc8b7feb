//! A run as one of the testbed: `record.json` and `summary.json` in its forms, so that its portal
//! shows the runs of a study beside its own.
//!
//! The workload is the scenario, and the setting a fact of the candidate. Runs with one setting under
//! one workload are repetitions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use testbed::archive::Outcome;
use testbed::beside::Beside;
use testbed::record::{CandidateRecord, FORMAT, Input, Machine, Program, RunRecord};
use testbed::results::{ErrorTally, Judgement, StepTally, Summary, Tally, Times, Verdict};

use crate::deployment;
use crate::line::Line;
use crate::metric::{DUE, FAILED_SHARE};
use crate::plan::PlanError;
use crate::study::Study;

/// The figures over time, which a run has in its folder. One that looks for a rate has them in a folder
/// for each of its loads.
pub(crate) const SECONDS: &str = "seconds.csv";
/// See [`SECONDS`].
pub(crate) const LATENCIES: &str = "latencies.hlog";

/// The names of seconds, for a run without any.
pub(crate) const NAMES_OF_SECONDS: [&str; 15] = [
    "at_s",
    "due",
    "sent",
    "done",
    "refused",
    "failed",
    "timed_out",
    "too_late",
    "users",
    "received_bytes",
    "mean_ms",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "max_ms",
];

/// What the lab calls its one step.
const STEP: &str = "operations";

/// What `node.json` and `candidate.json` of a run say.
#[derive(Default, Deserialize)]
struct Ran {
    #[serde(default)]
    command: Option<Vec<String>>,
    #[serde(default)]
    configuration: Option<String>,
}

/// The record of a run, under this id.
pub(crate) fn record(study: &Study, line: &Line, id: String) -> Result<RunRecord, PlanError> {
    let (facts, run) = (&study.facts().facts, study.run_folder(line));
    let fact = |name: &str| facts.get(name).cloned();
    let digest_of = |name: &str| Some(fact(name)?.strip_prefix("sha256:")?.to_owned());
    let (testbed, machine) = (lab(facts), machine(facts));
    let ran = ran(&run);
    let program = match fact("candidate") {
        Some(name) => Program {
            name,
            version: fact("version").unwrap_or_default(),
            sha256: digest_of("program"),
            commit: fact("commit"),
            ..Program::default()
        },
        None => Program {
            name: "cassandra".to_owned(),
            version: fact("cassandra").unwrap_or_default(),
            sha256: digest_of("jars"),
            ..Program::default()
        },
    };
    let setting = ("setting".to_owned(), line.planned.setting.to_string());
    let node = &study.plan().node;
    let of_cluster = [
        (deployment::NODES, node.count.to_string()),
        (deployment::COPIES, node.copies.to_string()),
        (deployment::CONSISTENCY, node.consistency.clone()),
    ];
    let of_cluster = of_cluster.into_iter().filter(|_| study.plan().candidate.is_none());
    let of_cluster = of_cluster.map(|(name, usual)| {
        let value = line.read_back.get(name).cloned().unwrap_or(usual);
        (name.to_owned(), value)
    });
    let in_force = line.read_back.iter().map(|(name, value)| (format!("{name} in force"), value.clone()));
    let missing = [
        ("the testbed's commit", testbed.commit.is_some()),
        ("the candidate's digest of the program", program.sha256.is_some()),
        ("the response times over time", run.join(LATENCIES).exists()),
        ("a node that is not simulated", fact("simulated").is_none_or(|fact| fact != "true")),
    ];
    let missing = missing.into_iter().filter(|(_, is_there)| !is_there).map(|(what, _)| what.to_owned());
    Ok(RunRecord {
        format: FORMAT,
        id,
        who: format!("the lab on {}", machine.name),
        started_at: line.at,
        ended_at: end(line),
        testbed,
        candidate: CandidateRecord {
            program,
            url: String::new(),
            command: ran.command,
            configuration: ran.configuration.or_else(|| fs::read_to_string(run.join("cassandra.yaml")).ok()),
            facts: std::iter::once(setting).chain(of_cluster).chain(in_force).collect(),
        },
        inputs: inputs(study, line)?,
        seed: study.plan().seed,
        workers: Vec::new(),
        machines: vec![machine],
        preparation: "the table was made again, its records were written, and compactions had ended".to_owned(),
        missing: missing.collect(),
        beside: Beside::default(),
    })
}

fn end(line: &Line) -> Timestamp {
    let took = Duration::try_from_secs_f64(line.took_s).unwrap_or_default();
    line.at.checked_add(took).unwrap_or(line.at)
}

/// What a run keeps of its server: the first node, or the candidate.
fn ran(run: &Path) -> Ran {
    let read = |name: &str| -> Option<Ran> { serde_json::from_slice(&fs::read(run.join(name)).ok()?).ok() };
    read("node.json").or_else(|| read("candidate.json")).unwrap_or_default()
}

/// The lab, as the facts of a study name the build that has made its runs.
fn lab(facts: &BTreeMap<String, String>) -> Program {
    let build = facts.get("build").cloned().unwrap_or_default();
    let commit = build.split_once("(commit ").and_then(|(_, rest)| rest.split_once(')'));
    let commit = commit.map(|(commit, _)| commit.to_owned());
    Program { name: "lares lab".to_owned(), version: build, commit, ..Program::default() }
}

fn machine(facts: &BTreeMap<String, String>) -> Machine {
    let fact = |name: &str| facts.get(name).cloned();
    Machine {
        name: fact("machine").unwrap_or_default(),
        roles: ["coordinator", "candidate"].map(str::to_owned).to_vec(),
        processor: fact("processor"),
        processors: fact("processors").and_then(|count| count.parse().ok()).unwrap_or_default(),
        memory_bytes: fact("memory_bytes").and_then(|bytes| bytes.parse().ok()),
        disk: fact("disk"),
        kernel: fact("kernel"),
        ..Machine::default()
    }
}

/// The plan, and its workload in the place of a scenario.
fn inputs(study: &Study, line: &Line) -> Result<Vec<Input>, PlanError> {
    let workload = study.plan().workload(&line.planned.workload);
    let text = workload.and_then(|workload| toml::to_string(workload).ok()).unwrap_or_default();
    Ok(vec![
        Input::of("plan", study.plan().to_toml()?.as_bytes()),
        Input::of(format!("scenario {}", line.planned.workload), text.as_bytes()),
    ])
}

/// What a run showed. One in which operations were lost has failed, although it counts for the lab.
pub(crate) fn outcome(study: &Study, line: &Line) -> Outcome {
    let workload = study.plan().workload(&line.planned.workload);
    let duration_s = workload.map_or(0.0, |workload| workload.duration.as_secs_f64());
    let of = |name: &str| line.metrics.get(name).copied().unwrap_or_default();
    let (done, failed_share) = (of("rate_per_s") * duration_s, of(FAILED_SHARE));
    let due = match (line.metrics.get(DUE), failed_share < 1.0) {
        (Some(due), _) => *due,
        // Runs of older builds do not have it.
        (None, true) => done / (1.0 - failed_share),
        (None, false) => workload.map_or(1.0, |workload| workload.rate * duration_s),
    };
    let failed = (due * failed_share).round() as u64;
    let done = (due.round() as u64).saturating_sub(failed);
    let all = Tally {
        due: done + failed,
        sent: done + failed,
        done,
        failed,
        response: times(line, done + failed),
        ..Tally::default()
    };
    let (verdict, reasons) = match (line.is_valid(), failed) {
        (false, _) => (Verdict::Void, line.void.clone()),
        (true, 0) => (Verdict::Held, Vec::new()),
        (true, _) => (Verdict::Failed, vec![format!("{failed} of {} operations were not done", all.due)]),
    };
    let scenario = line.planned.workload.clone();
    let error = (failed > 0).then(|| ErrorTally {
        kind: "operation that was not done".to_owned(),
        step: format!("{scenario}/{STEP}"),
        count: failed,
        first_at_us: 0,
    });
    let summary = Summary {
        duration_s,
        done_per_s: of("rate_per_s"),
        steps: vec![StepTally { scenario, step: STEP.to_owned(), tally: all.clone() }],
        all,
        errors: error.into_iter().collect(),
        ..Summary::default()
    };
    Outcome {
        judgement: Judgement { verdict, reasons },
        summary,
        saturated: Vec::new(),
        log: None,
        logs_elsewhere: Vec::new(),
    }
}

/// The latencies of a run that has all of them. An operation that was not done is among them.
fn times(line: &Line, count: u64) -> Times {
    let [mean_ms, min_ms, p50_ms, p90_ms, p95_ms, p99_ms, p999_ms, max_ms] =
        ["mean_ms", "min_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms"]
            .map(|name| line.metrics.get(name).copied().unwrap_or_default());
    Times { count, mean_ms, min_ms, p50_ms, p90_ms, p95_ms, p99_ms, p999_ms, max_ms }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::factor::Setting;
    use crate::plan::Plan;
    use crate::schedule::Planned;
    use crate::study::OpenStudy;

    #[test]
    fn a_run_that_lost_all_operations_lost_those_that_were_due_at_the_rate_it_had_found() {
        let plan = r#"
            name = "x"
            design = { kind = "one-at-a-time" }
            workloads = [{ name = "w", mix = { write = 1 }, rate = 100, duration = "10s", hold = { metric = "p99_ms", max = 20.0 } }]
            [[factors]]
            name = "concurrent_compactors"
            values = [2]
        "#;
        let folder = tempfile::tempdir().unwrap();
        let study = OpenStudy::create(folder.path(), &Plan::parse(plan).unwrap()).unwrap();
        let line = Line {
            planned: Planned {
                number: 1,
                stage: 1,
                block: 1,
                workload: "w".to_owned(),
                setting: Setting::default(),
                is_control: false,
                seed: 1,
            },
            attempt: 1,
            at: Timestamp::UNIX_EPOCH,
            took_s: 10.0,
            was_restarted: false,
            read_back: BTreeMap::new(),
            metrics: [(DUE, 500.0), ("rate_per_s", 0.0), (FAILED_SHARE, 1.0)]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            void: Vec::new(),
            notes: Vec::new(),
        };
        let all = outcome(study.study(), &line).summary.all;
        assert_eq!((all.due, all.done, all.failed), (500, 0, 500));
    }
}
