//! One run from the beginning to the archive. `work.rs` starts the candidate, `watching.rs` lets the
//! workers make the load and watches the candidate meanwhile, and `filing.rs` counts, judges and
//! files.

mod filing;
mod watching;
mod work;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use thiserror::Error;

use crate::archive::{ArchiveError, Outcome, RunWriter, UNFINISHED};
use crate::beside::{Beside, EventRecord, FillRecord};
use crate::candidate::{Candidate, CandidateError, Given};
use crate::coordinator::{Collected, RunError, WorkerPlace};
use crate::export::svg::DrawError;
use crate::inputs::Inputs;
use crate::monitor::Watcher;
use crate::plan::PlanError;
use crate::record::{CandidateRecord, FORMAT, Machine, MonitorRecord, Program, RunRecord, WorkerRecord};
use crate::samples::Samples;
use crate::tally::{self, TallyError};
use crate::wire::Progress;
use filing::Monitored;
use watching::{Sampled, Seen};
use work::Work;

/// A run on a machine where others use more than this share of all processors is void.
const BUSY_MAX: f64 = 0.1;

/// What is measured.
pub enum Measured {
    /// What answers at an address, with the id of its process if it is on this machine.
    Url(String, Option<u32>),
    /// A candidate that is started for the run.
    Candidate(Box<Candidate>),
}

/// What is known of a run before its load.
struct Known {
    id: String,
    missing: Vec<String>,
    coordinating: Machine,
}

/// A run to be made.
pub struct Runner<'a> {
    /// The plan with everything that it names.
    pub inputs: &'a Inputs,
    /// What is measured.
    pub measured: Measured,
    /// The archive.
    pub archive: &'a Path,
    /// Where a candidate keeps its data, if not in a temporary folder: runs on the disk that matters. That of
    /// a server that runs already is watched only if it is named.
    pub data: Option<&'a Path>,
    /// The folder of the control group of a server that runs already.
    pub cgroup: Option<&'a Path>,
    /// What the user says of a server that runs already.
    pub given: Given,
    /// The version that the candidate must have, besides those that the plan and the candidate expect.
    pub expect_version: Option<&'a str>,
    /// Who measures.
    pub who: String,
    /// The program that measures.
    pub program: Program,
    /// Its file.
    pub program_path: &'a Path,
    /// The token of the workers.
    pub token: &'a str,
    /// The addresses of monitors on other machines of the candidate.
    pub monitors: &'a [String],
    /// A run whose record has gaps is made all the same.
    pub is_untraceable: bool,
    /// A run on a busy machine is not void for that.
    pub may_be_busy: bool,
    /// Is called with the number of a worker and what it has done, once a second.
    pub on_progress: &'a (dyn Fn(u32, Progress) + Sync),
}

/// A run that is in the archive.
pub struct Filed {
    /// Its folder.
    pub folder: PathBuf,
    /// Its record.
    pub record: RunRecord,
    /// What it showed.
    pub outcome: Outcome,
}

/// Why there is no run.
#[derive(Debug, Error)]
pub enum RunnerError {
    /// The record would have gaps.
    #[error(
        "the run could not be traced later: it is not known {}; give what is missing (of a candidate in its file, \
         of a server that runs already by --pid and --data, or elsewhere by a monitor there with both, and by \
         --commit, --configuration, --tag, --repository, --fact and --preparation; of the testbed and its workers \
         when they are built), or --untraceable to run all the same, which marks the run",
        .0.join(", ")
    )]
    Untraceable(Vec<String>),
    /// It is another version than the one that is expected.
    #[error("the candidate reports the version `{reported}`, and `{expected}` is expected")]
    Version {
        /// What is expected.
        expected: String,
        /// What the candidate reports.
        reported: String,
    },
    /// The plan or a scenario is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The candidate cannot be measured.
    #[error(transparent)]
    Candidate(#[from] CandidateError),
    /// The workers cannot begin.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A monitor on another machine cannot be used.
    #[error("monitor {address}: {message}")]
    Monitor {
        /// Its address.
        address: String,
        /// What is wrong.
        message: String,
    },
    /// The events cannot be counted.
    #[error(transparent)]
    Tally(#[from] TallyError),
    /// The run cannot be kept.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A chart cannot be drawn.
    #[error(transparent)]
    Draw(#[from] DrawError),
    /// The run was made and cannot be counted or kept.
    #[error("{error}; what was measured is in {}", events.display())]
    NotFiled {
        /// The folder with the events.
        events: PathBuf,
        /// Why.
        #[source]
        error: Box<RunnerError>,
    },
    /// A temporary folder cannot be made.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Runner<'_> {
    /// Makes the run.
    ///
    /// # Errors
    /// [`RunnerError`]: there is no run. A run that says nothing is no error, but void.
    pub async fn run(&self, places: Vec<WorkerPlace>) -> Result<Filed, RunnerError> {
        let mut coordinating = Machine::find(Some(self.archive));
        coordinating.roles.push("coordinator".to_owned());
        coordinating.busy_before = self.busy_before().await;
        let mut work = self.prepare().await?;
        let watchers = self.watchers().await?;
        self.complete(&mut work.candidate, &watchers);
        coordinating.disk = Machine::find(self.data_folder(&work)).disk;
        let watched: Vec<_> = watchers.iter().map(|watcher| (&watcher.record, &watcher.machine)).collect();
        let mut missing = self.missing(&work.candidate, &work.preparation);
        missing.extend(coordinating.missing("the testbed"));
        missing.extend(self.missing_of_place(&watched, &coordinating));
        if !missing.is_empty() && !self.is_untraceable {
            return Err(RunnerError::Untraceable(missing));
        }
        // The place in the archive is taken before the load: a run is not made to be lost.
        let id = free_id(self.archive, &self.inputs.plan.name);
        let run = RunWriter::create(self.archive, &id)?;
        let (collected, seen) = self.measure(&work, watchers, places, &coordinating).await?;
        missing.extend(self.missing_of_workers(&collected.workers, &collected.machines, &coordinating));
        let mut void: Vec<_> = self.version_reason(&work).await.into_iter().collect();
        void.extend(busy_reason(coordinating.busy_before, "before", coordinating.processors, self.may_be_busy));
        let known = Known { id, missing, coordinating };
        let filed = self.keep(run, &work, known, &collected, seen, void);
        if let Some(running) = work.running {
            running.end().await;
        }
        // What was measured is not thrown away because it could not be counted or kept.
        filed.map_err(|error| RunnerError::NotFiled { events: work.folder.keep(), error: Box::new(error) })
    }

    /// Counts the fill, makes the record, and counts, judges and files the run.
    fn keep(
        &self,
        run: RunWriter,
        work: &Work,
        Known { id, missing, coordinating }: Known,
        collected: &Collected,
        seen: Seen,
        known_void: Vec<String>,
    ) -> Result<Filed, RunnerError> {
        let fill = self.count_fill(collected, work)?;
        let Seen { sampled, not_sampled, elsewhere: there, mut watchers, events, marks, logs } = seen;
        let mut void: Vec<_> = fill.iter().filter_map(FillRecord::void).collect();
        void.extend(reasons_of_workers(collected));
        void.extend(events.iter().filter_map(EventRecord::void));
        void.extend(known_void);
        let sampled = sampled.map_err(|error| void.push(format!("The monitor was lost: {error}."))).ok();
        let busy = |sampled: &Sampled| used_by_others(&sampled.samples, &coordinating, collected);
        let busy_during = sampled.as_ref().and_then(busy);
        void.extend(busy_reason(busy_during, "during", coordinating.processors, self.may_be_busy));
        let watched: Vec<_> = watchers.iter().map(|watcher| watcher.machine.clone()).collect();
        let machines = machines(coordinating.clone(), collected, &watchers, self.is_candidate_here());
        // The first is the coordinator's.
        void.extend(machines.iter().skip(1).filter_map(|machine| {
            let when = format!("on {} before", machine.name);
            busy_reason(machine.busy_before, &when, machine.processors, self.may_be_busy)
        }));
        let mut elsewhere = Vec::new();
        for (sampled, watcher) in there.into_iter().zip(&mut watchers) {
            match sampled {
                Ok(sampled) => {
                    let Sampled { samples, machine, .. } = &sampled;
                    let busy = used_by_others_there(samples, machine, &coordinating, &watched, collected);
                    let when = format!("on {} during", machine.name);
                    void.extend(busy_reason(busy, &when, machine.processors, self.may_be_busy));
                    watcher.record.busy_during = busy;
                    elsewhere.push(sampled);
                }
                Err(why) => void.push(format!("The monitor {} was lost: {why}.", watcher.record.address)),
            }
        }
        let monitored = Monitored { elsewhere, sampled, marks, logs };
        let plan = &self.inputs.plan;
        let record = RunRecord {
            format: FORMAT,
            id,
            who: self.who.clone(),
            started_at: collected.started_at,
            ended_at: collected.ended_at,
            testbed: self.program.clone(),
            candidate: work.candidate.clone(),
            inputs: [self.inputs.digests(), work.candidate_files.clone()].concat(),
            seed: plan.seed,
            workers: collected.workers.clone(),
            machines,
            preparation: work.preparation.clone(),
            missing,
            beside: Beside {
                events,
                fill,
                replay: collected.replay.clone(),
                monitors: watchers.into_iter().map(|watcher| watcher.record).collect(),
                not_sampled,
                link: plan.link,
                busy_during,
            },
        };
        self.file(run, work, record, collected, monitored, void)
    }

    /// What should be known and is not. `preparation` is how the candidate was prepared.
    fn missing(&self, candidate: &CandidateRecord, preparation: &str) -> Vec<String> {
        let mut missing = self.program.missing("the testbed's");
        missing.extend(candidate.program.missing("the candidate's"));
        if candidate.command.is_none() {
            missing.push("the candidate's command line".to_owned());
        }
        if candidate.configuration.is_none() {
            missing.push("the candidate's configuration".to_owned());
        }
        missing.extend(candidate.missing_facts());
        if preparation.is_empty() {
            missing.push("how the candidate was prepared".to_owned());
        }
        if self.who.is_empty() {
            missing.push("who measures".to_owned());
        }
        missing
    }

    /// What should be known of the machines of the candidate and is not: this one or those of monitors, each
    /// with its record.
    fn missing_of_place(&self, watched: &[(&MonitorRecord, &Machine)], coordinating: &Machine) -> Vec<String> {
        let is_here = self.is_candidate_here();
        let mut missing = Vec::new();
        if is_here && coordinating.disk.is_none() {
            missing.push("the disk and the file system of the candidate's data".to_owned());
        }
        if !is_here && watched.is_empty() {
            missing.push("the machine of the candidate".to_owned());
        }
        for (MonitorRecord { address, .. }, machine) in watched {
            let who = format!("monitor {address}");
            if !machine.is_same(coordinating) {
                missing.extend(machine.missing(&who));
            }
            if machine.disk.is_none() {
                missing.push(format!("the disk and the file system of the data on the machine of {who}"));
            }
        }
        missing
    }

    /// What should be known of workers and their machines and is not. A worker of the testbed's own program
    /// lacks what that lacks, and so does one on its machine.
    fn missing_of_workers(
        &self,
        workers: &[WorkerRecord],
        machines: &[Machine],
        coordinating: &Machine,
    ) -> Vec<String> {
        let others = workers.iter().filter(|worker| worker.program != self.program);
        let mut missing: Vec<_> = others.flat_map(WorkerRecord::missing).collect();
        let elsewhere = workers.iter().zip(machines).filter(|(_, machine)| !machine.is_same(coordinating));
        missing.extend(elsewhere.flat_map(|(worker, machine)| machine.missing(&format!("worker {}", worker.number))));
        missing
    }
}

/// Why a run on a machine with so many processors says nothing, if others were at work there before or
/// during it. `when` says where, too, if that is not the coordinator's machine.
fn busy_reason(busy: Option<f64>, when: &str, processors: usize, may_be_busy: bool) -> Option<String> {
    let busy = busy.unwrap_or_default();
    let is_void = busy > BUSY_MAX * processors as f64 && !may_be_busy;
    is_void.then(|| format!("Others used {busy:.2} of {processors} processors {when} the run."))
}

/// Processors of a machine that others used during the load, on average. Workers that somebody has started
/// there are no others.
fn used_by_others(samples: &Samples, machine: &Machine, collected: &Collected) -> Option<f64> {
    let column = samples.columns.iter().position(|known| known == "cpu_others")?;
    // What workers have used is known from the start instant until they were done. A sample has the second
    // before it, most of which must be of this time: the one of the start instant is of the warm-up.
    let ended_s = collected.ended_at.duration_since(collected.started_at).as_secs_f64();
    let of_load = 0.5..=ended_s + 0.5;
    let rows = samples.rows.iter().filter(|(at_s, _)| of_load.contains(at_s));
    let known: Vec<_> = rows.filter_map(|(at_s, values)| Some((*at_s, values.get(column).copied()??))).collect();
    let (Some((first_s, _)), Some((last_s, _))) = (known.first(), known.last()) else { return None };
    let used = known.iter().map(|(_, used)| used).sum::<f64>() / known.len() as f64;
    let workers = collected.workers.iter().zip(&collected.machines);
    let there = workers.filter(|(worker, of_worker)| worker.address.is_some() && of_worker.is_same(machine));
    let of_workers = there.map(|(worker, _)| worker.cpu_s).sum::<f64>() / (last_s - first_s + 1.0);
    Some((used - of_workers).max(0.0))
}

/// The same on the machine of a monitor elsewhere, one of those that were watched. `None`: to this monitor
/// the coordinator is among the others, or what a second monitor on the same machine watches.
fn used_by_others_there(
    samples: &Samples,
    machine: &Machine,
    coordinating: &Machine,
    watched: &[Machine],
    collected: &Collected,
) -> Option<f64> {
    let is_alone = watched.iter().filter(|other| other.is_same(machine)).count() == 1;
    let is_elsewhere = !machine.is_same(coordinating);
    (is_alone && is_elsewhere).then(|| used_by_others(samples, machine, collected)).flatten()
}

/// Why the workers' results say nothing.
fn reasons_of_workers(collected: &Collected) -> impl Iterator<Item = String> {
    let stalled = collected.workers.iter().filter(|worker| worker.longest_stall_ms * 1e3 > tally::LATE_US as f64);
    let stalled = stalled.map(|worker| {
        let (number, stall_ms) = (worker.number, worker.longest_stall_ms);
        format!("Worker {number} did nothing for {stall_ms:.0} ms: others used its processor.")
    });
    collected.lost.iter().cloned().chain(stalled)
}

/// An id that no run of the archive has: the time and the name of the plan.
fn free_id(archive: &Path, plan: &str) -> String {
    let id = format!("{}-{plan}", Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ"));
    let ids = std::iter::once(id.clone()).chain((2..).map(|number| format!("{id}-{number}")));
    let is_free = |id: &String| !archive.join(id).exists() && !archive.join(format!("{id}{UNFINISHED}")).exists();
    ids.into_iter().find(is_free).unwrap_or(id)
}

/// Adds what another program on the same machine says of it, and what runs there besides.
fn add_look(known: &mut Machine, roles: Vec<String>, machine: &Machine) {
    let is_new = |role: &String| !known.roles.contains(role);
    let roles: Vec<_> = roles.into_iter().filter(is_new).collect();
    known.roles.extend(roles);
    known.disk = known.disk.take().or_else(|| machine.disk.clone());
    // Who knows more of what belongs to the run counts less of it as others.
    known.busy_before = known.busy_before.into_iter().chain(machine.busy_before).reduce(f64::min);
}

/// All machines of a run, each once, with what ran there.
fn machines(
    coordinating: Machine,
    collected: &Collected,
    watchers: &[Watcher],
    is_candidate_here: bool,
) -> Vec<Machine> {
    let mut all = vec![coordinating];
    if is_candidate_here {
        all[0].roles.push("candidate".to_owned());
    }
    let workers = collected.machines.iter().enumerate();
    let workers = workers.map(|(worker, machine)| (vec![format!("worker {worker}")], machine));
    let monitors = watchers.iter().map(|watcher| {
        let is_of_candidate = !watcher.record.processes.is_empty();
        let candidate = is_of_candidate.then(|| "candidate".to_owned());
        let monitor = format!("monitor {}", watcher.record.address);
        (candidate.into_iter().chain([monitor]).collect::<Vec<_>>(), &watcher.machine)
    });
    for (roles, machine) in workers.chain(monitors) {
        match all.iter_mut().find(|known| known.is_same(machine)) {
            Some(known) => add_look(known, roles, machine),
            None => all.push(Machine { roles, ..machine.clone() }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::Plan;
    use crate::record::FACTS;

    /// A program of which all is known.
    fn program(sha256: &str) -> Program {
        Program {
            name: "a program".to_owned(),
            version: "0.1.0".to_owned(),
            sha256: Some(sha256.to_owned()),
            commit: Some("abc".to_owned()),
            repository: Some("https://example.org/".to_owned()),
            ..Program::default()
        }
    }

    fn worker(number: u32, longest_stall_ms: f64, program: Program) -> WorkerRecord {
        let command = Some(vec!["penates".to_owned()]);
        WorkerRecord { number, longest_stall_ms, program, command, ..WorkerRecord::default() }
    }

    /// The facts that every candidate states.
    fn facts() -> Vec<(String, String)> {
        FACTS.map(|name| (name.to_owned(), "none".to_owned())).to_vec()
    }

    fn ignore(_: u32, _: Progress) {}

    fn inputs() -> Inputs {
        let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\n\
                    load = { shape = \"constant\", rate = 1, duration = \"1s\" }\n";
        Inputs::of_plan(Plan::parse(plan).unwrap(), Path::new("")).unwrap()
    }

    fn runner(inputs: &Inputs, measured: Measured) -> Runner<'_> {
        Runner {
            inputs,
            measured,
            archive: Path::new(""),
            data: None,
            cgroup: None,
            given: Given::default(),
            expect_version: None,
            who: "a test".to_owned(),
            program: program("the testbed"),
            program_path: Path::new(""),
            token: "",
            monitors: &[],
            is_untraceable: false,
            may_be_busy: false,
            on_progress: &ignore,
        }
    }

    #[test]
    fn others_that_use_more_than_a_tenth_of_the_processors_void_a_run_unless_they_may() {
        assert_eq!(busy_reason(Some(0.8), "before", 8, false), None);
        let reason = busy_reason(Some(0.81), "before", 8, false);
        assert_eq!(reason.as_deref(), Some("Others used 0.81 of 8 processors before the run."));
        assert_eq!(busy_reason(Some(0.81), "before", 8, true), None);
        assert_eq!(busy_reason(None, "during", 8, false), None, "what is not known voids nothing");
    }

    fn collected(workers: Vec<WorkerRecord>, machines: Vec<Machine>, lost: Option<&str>) -> Collected {
        Collected {
            started_at: Timestamp::UNIX_EPOCH,
            ended_at: Timestamp::UNIX_EPOCH,
            workers,
            machines,
            events: Vec::new(),
            users: Vec::new(),
            fill: None,
            replay: None,
            lost: lost.map(str::to_owned),
        }
    }

    #[test]
    fn what_others_use_elsewhere_is_known_if_one_monitor_watches_a_machine_that_is_not_the_coordinators() {
        let machine = |name: &str| Machine { name: name.to_owned(), ..Machine::default() };
        let (here, there) = (machine("here"), machine("node-2"));
        // Before the start instant, and after the workers were done, they are busy too.
        let rows = [(0.001, 9.0), (1.0, 3.0), (2.0, 1.0), (3.0, 9.0)];
        let samples = |column: &str| Samples {
            columns: vec![column.to_owned()],
            rows: rows.map(|(at_s, used)| (at_s, vec![Some(used)])).into(),
            ..Samples::default()
        };
        let started =
            WorkerRecord { address: Some("x:1".to_owned()), cpu_s: 1.0, ..worker(0, 0.0, Program::default()) };
        let collected = collected(vec![started], vec![there.clone()], None);
        let collected = Collected { ended_at: "1970-01-01T00:00:02.2Z".parse().unwrap(), ..collected };
        let used = |column: &str, machine: &Machine, watched: &[Machine]| {
            used_by_others_there(&samples(column), machine, &here, watched, &collected)
        };
        let both = [here.clone(), there.clone()];
        // Two processors for two seconds, of which a worker used one for a second.
        assert_eq!(used("cpu_others", &there, &both), Some(1.5));
        assert_eq!(used("cpu", &there, &both), None, "this monitor does not tell others apart");
        assert_eq!(used("cpu_others", &here, &both), None);
        assert_eq!(used("cpu_others", &there, &[there.clone(), there.clone()]), None);
    }

    #[test]
    fn a_worker_that_stalled_or_was_lost_voids_a_run() {
        let collected = |stall_ms: f64, lost: Option<&str>| {
            let workers = vec![worker(0, 3.0, Program::default()), worker(1, stall_ms, Program::default())];
            collected(workers, Vec::new(), lost)
        };
        let reasons = |collected: &Collected| reasons_of_workers(collected).collect::<Vec<_>>();
        assert!(reasons(&collected(100.0, None)).is_empty());
        let stalled = "Worker 1 did nothing for 101 ms: others used its processor.";
        assert_eq!(reasons(&collected(101.0, None)), [stalled]);
        assert_eq!(reasons(&collected(101.0, Some("worker 1: it is silent"))), ["worker 1: it is silent", stalled]);
    }

    #[test]
    fn whatever_is_measured_and_whatever_measures_has_a_repository() {
        let inputs = inputs();
        let started = || Measured::Candidate(Box::new(Candidate::shipped("null").unwrap()));
        let candidate = |sha256: &str, repository: Option<&str>| CandidateRecord {
            program: Program { repository: repository.map(str::to_owned), ..program(sha256) },
            command: Some(Vec::new()),
            configuration: Some(String::new()),
            facts: facts(),
            ..CandidateRecord::default()
        };
        let url = || Measured::Url("http://127.0.0.1".to_owned(), None);
        let missing =
            |measured: Measured, candidate: &CandidateRecord| runner(&inputs, measured).missing(candidate, "none");
        for sha256 in ["another", "the testbed"] {
            assert_eq!(missing(started(), &candidate(sha256, None)), ["the candidate's repository"], "{sha256}");
        }
        assert_eq!(missing(url(), &candidate("another", None)), ["the candidate's repository"]);
        let known = candidate("another", Some("https://example.org/"));
        assert!(missing(started(), &known).is_empty() && missing(url(), &known).is_empty());
        let mut built_without = runner(&inputs, url());
        built_without.program.repository = None;
        assert_eq!(built_without.missing(&known, "none"), ["the testbed's repository"]);
    }

    #[test]
    fn a_candidate_without_a_name_facts_or_preparation_is_a_gap() {
        let inputs = inputs();
        let candidate = CandidateRecord {
            program: Program { name: String::new(), ..program("another") },
            command: Some(Vec::new()),
            configuration: Some(String::new()),
            facts: facts(),
            ..CandidateRecord::default()
        };
        let url = Measured::Url("http://127.0.0.1".to_owned(), None);
        assert_eq!(runner(&inputs, url).missing(&candidate, "none"), ["the candidate's name"]);
        let url = Measured::Url("http://127.0.0.1".to_owned(), None);
        let unprepared = CandidateRecord { facts: Vec::new(), ..candidate };
        let wanted = ["name", "nodes", "copies", "consistency"].map(|what| format!("the candidate's {what}"));
        let wanted = [&wanted[..], &["how the candidate was prepared".to_owned()]].concat();
        assert_eq!(runner(&inputs, url).missing(&unprepared, ""), wanted);
    }

    /// A machine of which all is known but its disk.
    fn machine(name: &str) -> Machine {
        Machine {
            name: name.to_owned(),
            processor: Some("Example 9000".to_owned()),
            processors: 2,
            memory_bytes: Some(1 << 30),
            kernel: Some("Linux 6.12".to_owned()),
            clock_source: Some("tsc".to_owned()),
            limits: vec![("open files".to_owned(), "1024".to_owned())],
            is_container: Some(false),
            busy_before: Some(0.0),
            ..Machine::default()
        }
    }

    #[test]
    fn a_candidate_on_an_unknown_machine_and_data_on_an_unknown_disk_are_gaps() {
        let inputs = inputs();
        let url = |pid: Option<u32>| Measured::Url("http://127.0.0.1".to_owned(), pid);
        let (here, there) = (machine("here"), machine("there"));
        let with_disk = |machine: &Machine| Machine { disk: Some("ext4".to_owned()), ..machine.clone() };
        let missing = |measured: Measured, watched: &[&Machine], here: &Machine| {
            let record = MonitorRecord { address: "x:1".to_owned(), ..MonitorRecord::default() };
            let watched: Vec<_> = watched.iter().map(|machine| (&record, *machine)).collect();
            runner(&inputs, measured).missing_of_place(&watched, here)
        };
        let of_data = ["the disk and the file system of the candidate's data"];
        assert_eq!(missing(url(Some(7)), &[], &here), of_data);
        let started = Measured::Candidate(Box::new(Candidate::shipped("null").unwrap()));
        assert_eq!(missing(started, &[], &here), of_data);
        assert!(missing(url(Some(7)), &[], &with_disk(&here)).is_empty());

        assert_eq!(missing(url(None), &[], &here), ["the machine of the candidate"]);
        assert!(missing(url(None), &[&with_disk(&there)], &here).is_empty());
        let of_there = "the disk and the file system of the data on the machine of monitor x:1";
        assert_eq!(missing(url(None), &[&there], &here), [of_there]);
        let unknown = Machine { busy_before: None, ..with_disk(&there) };
        let of_others = "the processors that others used on the machine of monitor x:1 before the run";
        assert_eq!(missing(url(None), &[&unknown], &here), [of_others]);
        // What is not known of the coordinator's machine is named already.
        let unknown = Machine { busy_before: None, ..with_disk(&here) };
        assert!(missing(url(None), &[&unknown], &here).is_empty());
    }

    #[test]
    fn a_machine_with_several_programs_of_the_run_is_described_once() {
        let mut known = Machine { roles: vec!["worker 0".to_owned()], busy_before: Some(1.5), ..machine("there") };
        let of_monitor = Machine { disk: Some("ext4".to_owned()), busy_before: Some(0.5), ..machine("there") };
        let roles = ["candidate", "monitor x:1"].map(str::to_owned);
        add_look(&mut known, roles.to_vec(), &of_monitor);
        let unknown = Machine { busy_before: None, disk: Some("xfs".to_owned()), ..machine("there") };
        add_look(&mut known, ["candidate", "monitor x:2"].map(str::to_owned).to_vec(), &unknown);
        assert_eq!(known.roles, ["worker 0", "candidate", "monitor x:1", "monitor x:2"]);
        // The worker took the candidate, which the monitor knows, for one of the others.
        assert_eq!((known.busy_before, known.disk.as_deref()), (Some(0.5), Some("ext4")));
    }

    #[test]
    fn each_shipped_candidate_has_a_repository_or_is_this_program() {
        for name in Candidate::shipped_names() {
            let spec = Candidate::shipped(name).unwrap().spec;
            let is_this = spec
                .program
                .as_ref()
                .or(spec.start.first())
                .is_some_and(|program| ["${self}", "${penates}"].contains(&program.as_str()));
            assert!(is_this || spec.repository.is_some(), "{name}");
        }
    }

    #[test]
    fn workers_of_another_program_and_on_another_machine_have_gaps_of_their_own() {
        let inputs = inputs();
        let runner = runner(&inputs, Measured::Url(String::new(), None));
        let (here, elsewhere) = (machine("here"), machine("elsewhere"));
        let elsewhere = Machine { memory_bytes: None, kernel: None, busy_before: None, ..elsewhere };
        let own = worker(0, 0.0, runner.program.clone());
        let other = worker(1, 0.0, Program { commit: None, ..program("another") });
        let missing = |workers: &[WorkerRecord], machine: &Machine| {
            runner.missing_of_workers(workers, std::slice::from_ref(machine), &here)
        };
        assert!(missing(std::slice::from_ref(&own), &here).is_empty());
        assert_eq!(missing(std::slice::from_ref(&other), &here), ["worker 1's commit"]);
        let of_machine = ["memory", "kernel"].map(|what| format!("the {what} of the machine of worker 0"));
        let of_others = "the processors that others used on the machine of worker 0 before the run".to_owned();
        assert_eq!(missing(std::slice::from_ref(&own), &elsewhere), [&of_machine[..], &[of_others]].concat());
    }
}
