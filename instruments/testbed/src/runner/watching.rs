//! The load, and what is watched meanwhile.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::work::Work;
use super::{Measured, Runner, RunnerError};
use crate::archive::CANDIDATE;
use crate::beside::marks::Marks;
use crate::beside::{self, EventRecord, Log, LogExcerpt};
use crate::coordinator::{Collected, Coordinator, RunError, WorkerPlace};
use crate::monitor::{self, BUSY_WINDOW, CgroupWatch, MetricsSource, MonitorError, ShippedLog, Watch, Watcher};
use crate::record::{Machine, WorkerRecord};
use crate::samples::Samples;

/// From sample to sample of the monitor.
const MONITOR_INTERVAL: Duration = Duration::from_secs(1);

/// What the monitor has sampled, as it is kept and as it is shown.
pub(super) struct Sampled {
    /// The name of its file, without the ending.
    pub name: String,
    pub csv: PathBuf,
    pub samples: Samples,
    /// The machine that was watched.
    pub machine: Machine,
    /// Logs of the candidate there, if that is another machine.
    pub logs: Vec<ShippedLog>,
}

impl Sampled {
    fn new(name: String, csv: PathBuf, machine: Machine) -> Result<Self, MonitorError> {
        let file = File::open(&csv).map_err(csv::Error::from)?;
        Ok(Self { samples: monitor::read(&name, file)?, name, csv, machine, logs: Vec::new() })
    }

    /// What the logs say around an instant, in seconds since the start instant.
    pub fn logs_around(&self, at_s: f64) -> impl Iterator<Item = LogExcerpt> {
        let source = |log: &ShippedLog| format!("{}: {}", self.machine.name, log.name);
        self.logs.iter().filter_map(move |log| log.kept.around(at_s, source(log)))
    }
}

/// A file for the samples of a monitor: a long load needs no more memory than a short one.
fn samples_file(folder: &Path, name: &str) -> Result<(File, PathBuf), csv::Error> {
    let path = folder.join(format!("monitor-{name}.csv"));
    Ok((File::create(&path)?, path))
}

/// What was seen beside the load.
pub(super) struct Seen {
    pub sampled: Result<Sampled, MonitorError>,
    /// What could not be sampled, and why.
    pub not_sampled: Vec<String>,
    /// By the monitors on other machines.
    pub elsewhere: Vec<Result<Sampled, String>>,
    pub watchers: Vec<Watcher>,
    pub events: Vec<EventRecord>,
    pub marks: Marks,
    /// The logs of the candidate on this machine. What its processes print is the first.
    pub logs: Vec<Log>,
}

impl Runner<'_> {
    /// Processors that others use before the run. A candidate that the testbed starts has not begun: what it
    /// does when it starts is not their work either.
    pub(super) async fn busy_before(&self) -> Option<f64> {
        let pid = match &self.measured {
            Measured::Url(_, pid) => *pid,
            Measured::Candidate(_) => None,
        };
        let cgroups = self.cgroup.iter().map(|folder| CgroupWatch::new("container", folder)).collect();
        monitor::others_during(BUSY_WINDOW, watches(pid), cgroups).await
    }

    /// Connects to the monitors on other machines.
    pub(super) async fn watchers(&self) -> Result<Vec<Watcher>, RunnerError> {
        let connecting = self.monitors.iter().map(|address| async move {
            let connected = Watcher::connect(address, self.token).await;
            connected.map_err(|message| RunnerError::Monitor { address: address.clone(), message })
        });
        try_join_all(connecting).await
    }

    /// Makes the load and the events, and watches the candidate meanwhile.
    pub(super) async fn measure(
        &self,
        work: &Work,
        mut watchers: Vec<Watcher>,
        places: Vec<WorkerPlace>,
        coordinating: &Machine,
    ) -> Result<(Collected, Seen), RunnerError> {
        let (start, mut started) = watch::channel(None);
        let (end, mut ended) = watch::channel(false);
        let (mut also_started, is_over) = (started.clone(), ended.clone());
        let (started_there, ended_there) = (started.clone(), ended.clone());
        let on_start = |at: Timestamp| {
            let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
            start.send_replace(Some(Instant::now() + left));
        };
        let objections = |workers: &[WorkerRecord], machines: &[Machine]| match self.is_untraceable {
            true => Vec::new(),
            false => self.missing_of_workers(workers, machines, coordinating),
        };
        let coordinator = Coordinator {
            inputs: self.inputs,
            reach: &work.reach,
            token: self.token,
            folder: work.folder.path(),
            on_progress: self.on_progress,
            on_start: &on_start,
            objections: &objections,
        };
        let (nodes, silent) = monitor::answering(work.nodes.0.clone()).await;
        let not_sampled = [work.nodes.1.clone(), silent].concat();
        let settings = monitor::Settings { nodes, ..self.monitor_settings(work) };
        let groups = work.running.as_ref().map(|running| running.groups().clone()).unwrap_or_default();
        let monitoring = async {
            let start = started.wait_for(Option::is_some).await.ok().and_then(|start| *start);
            let name = CANDIDATE.to_owned();
            let (file, csv) = samples_file(work.folder.path(), &name)?;
            let until = async {
                // If the sender has gone, it is over too.
                let _ = ended.wait_for(|is_over| *is_over).await;
            };
            monitor::run_with(&settings, &groups, start.unwrap_or_else(Instant::now), file, until).await?;
            Sampled::new(name, csv, coordinating.clone())
        };
        let (also_start, is_over_there) = (started_there.clone(), ended_there.clone());
        let watching = watchers.iter_mut().enumerate().map(|(number, watcher)| {
            let (mut start, is_over) = (also_start.clone(), is_over_there.clone());
            async move {
                let start = start.wait_for(Option::is_some).await.ok().and_then(|start| *start);
                let name = format!("{number}-{}", plain(&watcher.machine.name));
                let (file, csv) = samples_file(work.folder.path(), &name).map_err(|error| error.to_string())?;
                let logs = watcher.watch(start.unwrap_or_else(Instant::now), is_over, file).await?;
                let sampled = Sampled::new(name, csv, watcher.machine.clone()).map_err(|error| error.to_string())?;
                Ok(Sampled { logs, ..sampled })
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
            let (Some(start), Some(candidate)) = (start, &work.running) else { return Default::default() };
            let events = &self.inputs.plan.events;
            let events = beside::events::run(events, candidate, start, work.folder.path(), &is_over);
            let marks = beside::watch(candidate, start, is_over.clone());
            tokio::join!(events, marks, beside::note_lengths(candidate.logs(), start, &is_over))
        };
        let (collected, sampled, elsewhere, beside) = tokio::join!(running, monitoring, watching, beside);
        let (events, marks, logs) = beside;
        let collected = collected.map_err(|error| match error {
            RunError::Objections(missing) => RunnerError::Untraceable(missing),
            error => error.into(),
        });
        Ok((collected?, Seen { sampled, not_sampled, elsewhere, watchers, events, marks, logs }))
    }

    fn monitor_settings(&self, work: &Work) -> monitor::Settings {
        let (id, metrics) = match (&self.measured, &work.running) {
            (_, Some(running)) => (running.id(), running.metrics_url()),
            (Measured::Url(_, id), None) => (*id, None),
            (Measured::Candidate(_), None) => (None, None),
        };
        monitor::Settings {
            data: self.data_folder(work).map(Path::to_owned),
            watches: watches(id),
            cgroups: work.cgroup.iter().map(|folder| CgroupWatch::new("container", folder)).collect(),
            // Without the candidate's process its time would be that of others.
            others: self.is_candidate_here(),
            metrics: metrics.map(|url| MetricsSource { url, token: None, prefixes: vec![String::new()] }),
            nodes: Vec::new(),
            interval: MONITOR_INTERVAL,
        }
    }
}

/// The process of the candidate, if it is known.
fn watches(pid: Option<u32>) -> Vec<Watch> {
    pid.map(|pid| Watch { name: "server".to_owned(), pid }).into_iter().collect()
}

/// A name of a machine as a part of the name of a file: what a stranger calls itself may be anything.
fn plain(name: &str) -> String {
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || *char == '-';
    name.chars().filter(is_plain).take(60).collect()
}
