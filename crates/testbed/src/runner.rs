//! One run from the beginning to the archive: starts the candidate, watches it, lets the workers
//! make the load, counts, judges, and files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::archive::{ArchiveError, Outcome, RunWriter, marks_csv, seconds_csv, write_file};
use crate::beside::{self, Beside, EventRecord, FillRecord, marks};
use crate::candidate::{self, Candidate, CandidateError, RunningCandidate};
use crate::coordinator::{Collected, Coordinator, RunError, WorkerPlace};
use crate::export::{self, svg::DrawError};
use crate::inputs::Inputs;
use crate::machine;
use crate::monitor::{self, CgroupWatch, MetricsSource, MonitorError, Watch, Watcher};
use crate::plan::{PlanError, invalid};
use crate::reach::Reach;
use crate::record::{CandidateRecord, FORMAT, Input, Machine, Program, RunRecord};
use crate::report;
use crate::results::{Summary, Verdict};
use crate::samples::{Marked, Samples};
use crate::saturation::{self, Saturation};
use crate::scenario::Scenario;
use crate::tally::{self, TallyError, Window};
use crate::verdict::judge;
use crate::wire::Progress;

/// How long the machine is watched before a run, to see whether it is busy with something else.
const BUSY_WINDOW: Duration = Duration::from_secs(1);
/// A run on a machine where others use more than this share of all processors is void.
const BUSY_MAX: f64 = 0.1;
/// From sample to sample of the monitor.
const MONITOR_INTERVAL: Duration = Duration::from_secs(1);
/// So many bytes of the end of the candidate's log are kept.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// What is measured.
pub enum Measured {
    /// What answers at an address, with the id of its process if it is on this machine.
    Url(String, Option<u32>),
    /// A candidate that is started for the run.
    Candidate(Box<Candidate>),
}

/// A run to be made.
pub struct Runner<'a> {
    /// The plan with everything that it names.
    pub inputs: &'a Inputs,
    /// What is measured.
    pub measured: Measured,
    /// The archive.
    pub archive: &'a Path,
    /// Where a candidate keeps its data, if not in a temporary folder: runs on the disk that matters.
    pub data: Option<&'a Path>,
    /// The folder of the control group of a server that runs already.
    pub cgroup: Option<&'a Path>,
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
        "the run could not be traced later: it is not known {}; give what is missing, or --untraceable to \
         run all the same, which marks the run",
        .0.join(", ")
    )]
    Untraceable(Vec<String>),
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

/// What the monitor has sampled, as it is kept and as it is shown.
struct Sampled {
    /// The name of its file, without the ending.
    name: String,
    csv: Vec<u8>,
    samples: Samples,
}

impl Sampled {
    fn new(name: String, csv: Vec<u8>) -> Result<Self, MonitorError> {
        Ok(Self { samples: monitor::read(&name, csv.as_slice())?, name, csv })
    }
}

/// What was seen beside the load.
struct Seen {
    sampled: Result<Sampled, MonitorError>,
    /// By the monitors on other machines.
    elsewhere: Vec<Result<Sampled, String>>,
    watchers: Vec<Watcher>,
    events: Vec<EventRecord>,
    marks: Vec<Marked>,
}

/// What a run is made in.
struct Work {
    scenarios: Vec<Scenario>,
    fill: Option<Scenario>,
    reach: Reach,
    cgroup: Option<PathBuf>,
    candidate: CandidateRecord,
    candidate_files: Vec<Input>,
    /// It ends before its folder is deleted.
    running: Option<RunningCandidate>,
    folder: tempfile::TempDir,
}

impl Runner<'_> {
    /// Makes the run.
    ///
    /// # Errors
    /// [`RunnerError`]: there is no run. A run that says nothing is no error, but void.
    pub async fn run(&self, places: Vec<WorkerPlace>) -> Result<Filed, RunnerError> {
        let mut coordinating = Machine::find(Some(self.archive));
        coordinating.roles.push("coordinator".to_owned());
        // Before the candidate starts: what it does then is not the work of others.
        coordinating.busy_before = machine::busy(BUSY_WINDOW).await;
        let work = self.prepare().await?;
        coordinating.disk = Machine::find(Some(self.data_folder(&work))).disk;
        let missing = self.missing(&work.candidate);
        if !missing.is_empty() && !self.is_untraceable {
            return Err(RunnerError::Untraceable(missing));
        }
        // The place in the archive is taken before the load: a run is not made to be lost.
        let id = free_id(self.archive, &self.inputs.plan.name);
        let run = RunWriter::create(self.archive, &id)?;
        let (collected, seen) = match self.measure(&work, places).await {
            Ok(measured) => measured,
            Err(error) => {
                run.discard();
                return Err(error);
            }
        };
        let fill = self.count_fill(&collected, &work)?;
        let (mut elsewhere, mut lost) = (Vec::new(), Vec::new());
        for (sampled, address) in seen.elsewhere.into_iter().zip(self.monitors) {
            match sampled {
                Ok(sampled) => elsewhere.push(sampled),
                Err(why) => lost.push(format!("The monitor {address} was lost: {why}.")),
            }
        }
        let mut void: Vec<_> = fill.iter().filter_map(FillRecord::void).collect();
        void.extend(collected.lost.iter().cloned());
        void.extend(lost);
        void.extend(seen.events.iter().filter_map(EventRecord::void));
        let sampled = match seen.sampled {
            Ok(sampled) => Some(sampled),
            Err(error) => {
                void.push(format!("The monitor was lost: {error}."));
                None
            }
        };
        let stalls = collected.workers.iter().filter(|worker| worker.longest_stall_ms * 1e3 > tally::LATE_US as f64);
        void.extend(stalls.map(|worker| {
            format!(
                "Worker {} did nothing for {:.0} ms: others used its processor.",
                worker.number, worker.longest_stall_ms
            )
        }));
        let busy = coordinating.busy_before.unwrap_or_default();
        if busy > BUSY_MAX * coordinating.processors as f64 && !self.may_be_busy {
            void.push(format!("Others used {busy:.2} of {} processors before the run.", coordinating.processors));
        }
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
            machines: machines(coordinating, &collected, &seen.watchers, work.running.is_some()),
            preparation: plan.preparation.clone(),
            missing,
            beside: Beside {
                events: seen.events,
                fill,
                replay: collected.replay.clone(),
                monitors: seen.watchers.into_iter().map(|watcher| watcher.record).collect(),
                link: plan.link,
            },
        };
        let filed = self.file(run, &work, record, &collected, (sampled, elsewhere, seen.marks), void);
        if let Some(running) = work.running {
            running.end().await;
        }
        // What was measured is not thrown away because it could not be counted or kept.
        filed.map_err(|error| RunnerError::NotFiled { events: work.folder.keep(), error: Box::new(error) })
    }

    async fn prepare(&self) -> Result<Work, RunnerError> {
        let (scenarios, fill) = (self.inputs.compiled()?, self.inputs.compiled_fill()?);
        let folder = tempfile::tempdir()?;
        let (reach, candidate, candidate_files, running) = match &self.measured {
            Measured::Url(url, id) => {
                if !self.inputs.plan.events.is_empty() {
                    let message = "they are commands of a candidate that the testbed starts; name it by --candidate";
                    return Err(invalid("plan: events", message).into());
                }
                let reach = Reach::of_plan(self.inputs, url)?;
                let mut record = candidate::found(&reach).await;
                if let Some(id) = id {
                    record.describe_process(*id);
                }
                (reach, record, Vec::new(), None)
            }
            Measured::Candidate(candidate) => {
                candidate.check_events(&self.inputs.plan.events)?;
                let data = match self.data {
                    Some(data) => data.to_owned(),
                    None => folder.path().join("data"),
                };
                let running = RunningCandidate::start(candidate, &data, folder.path(), self.program_path).await?;
                let reach = running.reach().clone().with_plan(self.inputs)?;
                (reach, running.record().await?, candidate.digests()?, Some(running))
            }
        };
        let (workers, addresses) = (self.inputs.plan.workers as usize, reach.urls.len());
        if workers < addresses {
            let message = format!("at least {addresses}: the candidate has {addresses} addresses");
            return Err(invalid("plan: workers", message).into());
        }
        let cgroup = match &running {
            Some(running) => running.cgroup().await?,
            None => self.cgroup.map(Path::to_owned),
        };
        Ok(Work { scenarios, fill, reach, cgroup, candidate, candidate_files, running, folder })
    }

    /// What was made before the load.
    fn count_fill(&self, collected: &Collected, work: &Work) -> Result<Option<FillRecord>, RunnerError> {
        let (Some(filled), Some(scenario)) = (&collected.fill, &work.fill) else { return Ok(None) };
        let window = Window {
            started_at: filled.begun_at,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs_f64(filled.seconds.max(1e-6)),
        };
        let names = vec![scenario.names()];
        let measured = tally::count(&filled.events, &names, window, &[], &mut std::io::sink())?;
        let (scenario, seconds) = (scenario.name.clone(), filled.seconds);
        Ok(Some(FillRecord { scenario, units: filled.units, seconds, summary: measured.summary }))
    }

    /// What should be known and is not.
    fn missing(&self, candidate: &CandidateRecord) -> Vec<String> {
        let of = |who: &str, program: &Program| {
            let known = [
                ("version", !program.version.is_empty()),
                ("digest of the program", program.sha256.is_some()),
                ("commit", program.commit.is_some()),
            ];
            let missing = known.into_iter().filter(|(_, is_known)| !is_known);
            missing.map(|(what, _)| format!("the {who}'s {what}")).collect::<Vec<_>>()
        };
        let mut missing = of("testbed", &self.program);
        missing.extend(of("candidate", &candidate.program));
        if candidate.command.is_none() {
            missing.push("the candidate's command line".to_owned());
        }
        if candidate.configuration.is_none() {
            missing.push("the candidate's configuration".to_owned());
        }
        if self.who.is_empty() {
            missing.push("who measures".to_owned());
        }
        missing
    }

    /// Makes the load and the events, and watches the candidate meanwhile.
    async fn measure(&self, work: &Work, places: Vec<WorkerPlace>) -> Result<(Collected, Seen), RunnerError> {
        let (start, mut started) = watch::channel(None);
        let (end, mut ended) = watch::channel(false);
        let (mut also_started, is_over) = (started.clone(), ended.clone());
        let (started_there, ended_there) = (started.clone(), ended.clone());
        let connecting = self.monitors.iter().map(|address| async move {
            let connected = Watcher::connect(address, self.token).await;
            connected.map_err(|message| RunnerError::Monitor { address: address.clone(), message })
        });
        let mut watchers = try_join_all(connecting).await?;
        let on_start = |at: Timestamp| {
            let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
            start.send_replace(Some(Instant::now() + left));
        };
        let coordinator = Coordinator {
            inputs: self.inputs,
            reach: &work.reach,
            token: self.token,
            folder: work.folder.path(),
            on_progress: self.on_progress,
            on_start: &on_start,
        };
        let settings = self.monitor_settings(work);
        let monitoring = async {
            let start = started.wait_for(Option::is_some).await.ok().and_then(|start| *start);
            let mut csv = Vec::new();
            let until = async {
                // If the sender has gone, it is over too.
                let _ = ended.wait_for(|is_over| *is_over).await;
            };
            let run = monitor::run(&settings, start.unwrap_or_else(Instant::now), &mut csv, until).await;
            run.and_then(|_| Sampled::new("candidate".to_owned(), csv))
        };
        let (also_start, is_over_there) = (started_there.clone(), ended_there.clone());
        let watching = watchers.iter_mut().enumerate().map(|(number, watcher)| {
            let (mut start, is_over) = (also_start.clone(), is_over_there.clone());
            async move {
                let start = start.wait_for(Option::is_some).await.ok().and_then(|start| *start);
                let csv = watcher.watch(start.unwrap_or_else(Instant::now), is_over).await?;
                let name = format!("{number}-{}", plain(&watcher.machine.name));
                Sampled::new(name, csv).map_err(|error| error.to_string())
            }
        });
        let watching = join_all(watching);
        let running = async {
            let collected = coordinator.run(places).await;
            end.send_replace(true);
            // Without a start there is nothing to watch.
            if collected.is_err() {
                start.send_replace(Some(Instant::now()));
            }
            collected
        };
        let beside = async {
            let start = also_started.wait_for(Option::is_some).await.ok().and_then(|start| *start);
            let (Some(start), Some(candidate)) = (start, &work.running) else { return (Vec::new(), Vec::new()) };
            let events = &self.inputs.plan.events;
            let events = beside::events::run(events, candidate, start, work.folder.path(), &is_over);
            tokio::join!(events, beside::watch(candidate, start, is_over.clone()))
        };
        let (collected, sampled, elsewhere, (events, marks)) = tokio::join!(running, monitoring, watching, beside);
        Ok((collected?, Seen { sampled, elsewhere, watchers, events, marks }))
    }

    /// Where the candidate keeps its data, as far as is known.
    fn data_folder<'b>(&'b self, work: &'b Work) -> &'b Path {
        self.data.unwrap_or(work.folder.path())
    }

    /// Whether the candidate runs on this machine.
    fn is_candidate_here(&self) -> bool {
        matches!(self.measured, Measured::Candidate(_) | Measured::Url(_, Some(_)))
    }

    fn monitor_settings(&self, work: &Work) -> monitor::Settings {
        let (id, metrics) = match (&self.measured, &work.running) {
            (_, Some(running)) => (running.id(), running.metrics_url()),
            (Measured::Url(_, id), None) => (*id, None),
            (Measured::Candidate(_), None) => (None, None),
        };
        monitor::Settings {
            data: Some(self.data_folder(work).to_owned()),
            watches: id.map(|pid| Watch { name: "server".to_owned(), pid }).into_iter().collect(),
            cgroups: work.cgroup.iter().map(|folder| CgroupWatch::new("container", folder)).collect(),
            metrics: metrics.map(|url| MetricsSource { url, token: None, prefixes: vec![String::new()] }),
            interval: MONITOR_INTERVAL,
        }
    }

    /// Counts, judges and files.
    fn file(
        &self,
        mut run: RunWriter,
        work: &Work,
        record: RunRecord,
        collected: &Collected,
        (sampled, elsewhere, mut marks): (Option<Sampled>, Vec<Sampled>, Vec<Marked>),
        void: Vec<String>,
    ) -> Result<Filed, RunnerError> {
        let plan = &self.inputs.plan;
        if let (Some(sampled), Some(running)) = (&sampled, &work.running) {
            marks.extend(marks::of_counters(running.marks(), &sampled.samples));
        }
        marks.extend(record.beside.events.iter().flat_map(EventRecord::marks));
        marks.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        let names = work.scenarios.iter().map(Scenario::names).collect();
        let window = Window {
            started_at: record.started_at,
            warm_up: plan.warm_up,
            duration: plan.load.duration() - plan.warm_up,
        };
        // What a lost worker has left is no file that could be read.
        let events: &[PathBuf] = if collected.lost.is_none() { &collected.events } else { &[] };
        let mut log = Vec::new();
        let mut measured = tally::count(events, &names, window, &collected.users, &mut log)?;
        // Workers count from the beginning of the warm-up.
        let since_start_s = record.ended_at.duration_since(record.started_at).as_secs_f64();
        let seconds_of_run = (since_start_s + plan.warm_up.as_secs_f64()).max(1e-3);
        measured.summary.worker_cpu_shares =
            collected.workers.iter().map(|worker| worker.cpu_s / seconds_of_run).collect();
        let mut judgement = judge(plan, &measured, void);
        if let Some(sampled) = sampled.as_ref().filter(|_| judgement.verdict != Verdict::Held) {
            let nothing = Samples::default();
            // What the machine of the coordinator does says nothing of a candidate elsewhere.
            let samples = if self.is_candidate_here() { &sampled.samples } else { &nothing };
            judgement.reasons.extend(saturated(samples, &record, &measured.summary));
        }
        let outcome = Outcome { judgement, summary: measured.summary };

        run.add("plan.toml", plan.to_toml().as_bytes())?;
        for (name, text) in &self.inputs.scenarios {
            let name = name.strip_suffix(".toml").unwrap_or(name).replace('/', "-");
            run.add(&format!("scenarios/{name}.toml"), text.as_bytes())?;
        }
        if let Some((name, text)) = &self.inputs.fill {
            let name = name.strip_suffix(".toml").unwrap_or(name).replace('/', "-");
            run.add(&format!("fill/{name}.toml"), text.as_bytes())?;
        }
        run.add_json("record.json", &record)?;
        run.add_json("summary.json", &outcome)?;
        run.add("seconds.csv", &seconds_csv(&measured.seconds))?;
        run.add("latencies.hlog", &log)?;
        for (worker, path) in collected.fill.iter().flat_map(|fill| &fill.events).enumerate() {
            run.add_copy(&format!("fill/worker-{worker:03}.csv.gz"), path)?;
        }
        for (worker, path) in events.iter().enumerate() {
            run.add_copy(&format!("events/worker-{worker:03}.csv.gz"), path)?;
        }
        for sampled in sampled.iter().chain(&elsewhere) {
            run.add(&format!("monitor/{}.csv", sampled.name), &sampled.csv)?;
        }
        if !marks.is_empty() {
            run.add("marks.csv", &marks_csv(&marks))?;
        }
        if let Some(running) = &work.running {
            run.add_copy("candidate.log", &end_of(running.log(), work.folder.path())?)?;
        }
        run.add_json("k6-summary.json", &export::k6::summary(&outcome.summary))?;
        run.add("junit.xml", &export::junit::report(&record, &outcome.judgement, &outcome.summary)?)?;
        run.add("requests.svg", export::svg::requests(&record.id, &measured.seconds)?.as_bytes())?;
        run.add("durations.svg", export::svg::durations(&record.id, &measured.seconds)?.as_bytes())?;
        let page = report::page(&report::Inputs {
            record: &record,
            judgement: &outcome.judgement,
            summary: &outcome.summary,
            seconds: &measured.seconds,
            monitors: &sampled.into_iter().chain(elsewhere).map(|sampled| sampled.samples).collect::<Vec<_>>(),
            events: &marks,
            plan_toml: &plan.to_toml(),
        });
        run.add("report.html", page.as_bytes())?;
        let folder = run.finish(&record)?;
        Ok(Filed { folder, record, outcome })
    }
}

/// An id that no run of the archive has: the time and the name of the plan.
fn free_id(archive: &Path, plan: &str) -> String {
    let id = format!("{}-{plan}", Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ"));
    let ids = std::iter::once(id.clone()).chain((2..).map(|number| format!("{id}-{number}")));
    let is_free = |id: &String| !archive.join(id).exists() && !archive.join(format!("{id}.unfinished")).exists();
    ids.into_iter().find(is_free).unwrap_or(id)
}

/// What was saturated, as reasons. The machine of the coordinator is the one that was watched.
fn saturated(samples: &Samples, record: &RunRecord, summary: &Summary) -> Vec<String> {
    let Some(machine) = record.machines.first() else { return Vec::new() };
    let found = saturation::find(samples, machine, &summary.worker_cpu_shares);
    let reason = |(index, found): (usize, &Saturation)| match (index, found.from_s) {
        (0, Some(from_s)) => format!("Saturated first: {}, from second {from_s:.0} on.", found.what),
        (_, Some(from_s)) => format!("Then: {}, from second {from_s:.0} on.", found.what),
        (_, None) => format!("Saturated, at a time that is not known: {}.", found.what),
    };
    found.iter().enumerate().map(reason).collect()
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
    let workers = collected.machines.iter().enumerate().map(|(worker, machine)| (format!("worker {worker}"), machine));
    let monitors = watchers.iter().map(|watcher| (format!("monitor {}", watcher.record.address), &watcher.machine));
    for (role, machine) in workers.chain(monitors) {
        match all.iter_mut().find(|known| known.is_same(machine)) {
            Some(known) => known.roles.push(role),
            None => all.push(Machine { roles: vec![role], ..machine.clone() }),
        }
    }
    all
}

/// A name of a machine as a part of the name of a file: what a stranger calls itself may be anything.
fn plain(name: &str) -> String {
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || *char == '-';
    name.chars().filter(is_plain).take(60).collect()
}

/// The end of a log, as a file.
fn end_of(log: &Path, folder: &Path) -> Result<PathBuf, ArchiveError> {
    write_file(folder, "candidate-end.log", |out| {
        let mut file = File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LOG_BYTES_MAX)))?;
        std::io::copy(&mut file.take(LOG_BYTES_MAX), out).map(drop)
    })
}
