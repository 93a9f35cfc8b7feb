//! The load, and what is watched meanwhile.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::work::Work;
use super::{Measured, Runner, RunnerError};
use crate::beside::{self, EventRecord};
use crate::coordinator::{Collected, Coordinator, WorkerPlace};
use crate::monitor::{self, CgroupWatch, MetricsSource, MonitorError, Watch, Watcher};
use crate::samples::{Marked, Samples};

/// From sample to sample of the monitor.
const MONITOR_INTERVAL: Duration = Duration::from_secs(1);

/// What the monitor has sampled, as it is kept and as it is shown.
pub(super) struct Sampled {
    /// The name of its file, without the ending.
    pub name: String,
    pub csv: Vec<u8>,
    pub samples: Samples,
}

impl Sampled {
    fn new(name: String, csv: Vec<u8>) -> Result<Self, MonitorError> {
        Ok(Self { samples: monitor::read(&name, csv.as_slice())?, name, csv })
    }
}

/// What was seen beside the load.
pub(super) struct Seen {
    pub sampled: Result<Sampled, MonitorError>,
    /// By the monitors on other machines.
    pub elsewhere: Vec<Result<Sampled, String>>,
    pub watchers: Vec<Watcher>,
    pub events: Vec<EventRecord>,
    pub marks: Vec<Marked>,
}

impl Runner<'_> {
    /// Makes the load and the events, and watches the candidate meanwhile.
    pub(super) async fn measure(
        &self,
        work: &Work,
        places: Vec<WorkerPlace>,
    ) -> Result<(Collected, Seen), RunnerError> {
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
}

/// A name of a machine as a part of the name of a file: what a stranger calls itself may be anything.
fn plain(name: &str) -> String {
    let is_plain = |char: &char| char.is_ascii_alphanumeric() || *char == '-';
    name.chars().filter(is_plain).take(60).collect()
}
