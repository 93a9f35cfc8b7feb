//! What comes before a load: the parts of an access log, the jobs of the workers, and the fill.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::try_join_all;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{BEYOND_PLAN, Connected, Coordinator, Filled, READY_MAX, RunError, ask, latest, next_word};
use crate::arrivals::Shape;
use crate::record::Machine;
use crate::replay::{self, Replay, ReplayRecord};
use crate::wire::{EVENTS_BYTES, Job, Progress, ToCoordinator, ToWorker};

impl Coordinator<'_> {
    /// Writes the parts of an access log, if the plan replays one.
    pub(super) async fn split_log(&self, workers: usize) -> Result<(Option<ReplayRecord>, Vec<PathBuf>), RunError> {
        let (Shape::Replay { format, keys, speed, methods, duration, .. }, Some(log)) =
            (&self.inputs.plan.load, &self.inputs.log)
        else {
            return Ok((None, Vec::new()));
        };
        let replay = Replay {
            path: log.path.clone(),
            format: *format,
            keys: keys.clone(),
            speed: *speed,
            seconds: duration.as_secs_f64(),
            warm_up_s: self.inputs.plan.warm_up.as_secs_f64(),
            methods: methods.clone(),
        };
        let parts: Vec<_> = (0..workers).map(|worker| self.folder.join(format!("part-{worker:03}"))).collect();
        let into = parts.clone();
        let split = tokio::task::spawn_blocking(move || replay::split(&replay, &into)).await;
        Ok((Some(split.map_err(std::io::Error::other)??), parts))
    }

    /// Lets the workers make the fill of the plan. The second is false if a unit has failed or was not made.
    /// The error says which worker was lost.
    pub(super) async fn fill(&self, all: &mut [Connected]) -> Result<(Option<Filled>, bool), String> {
        let Some(fill) = &self.inputs.plan.fill else { return Ok((None, true)) };
        let of_unit = self.inputs.compiled_fill().ok().flatten();
        let of_unit = of_unit.map(|scenario| scenario.longest(self.inputs.plan.connections.timeout));
        let made = fill.within.saturating_add(of_unit.unwrap_or_default()).saturating_add(BEYOND_PLAN);
        // As long again to send what was measured.
        let longest = made.saturating_mul(2);
        let begun_at = Timestamp::now();
        let events: Vec<_> =
            all.iter().map(|connected| self.folder.join(format!("fill-{:03}.csv.gz", connected.worker))).collect();
        let (failure, _) = watch::channel(false);
        let failure = &failure;
        let filling = all.iter_mut().zip(&events).map(|(connected, file)| async move {
            let worker = connected.worker;
            let filled = connected.fill(file, failure, longest, |progress| (self.on_progress)(worker, progress)).await;
            filled.map_err(|why| format!("worker {worker}: in the fill: {why}"))
        });
        let filled: Vec<(f64, Progress)> = try_join_all(filling).await?;
        let seconds = filled.iter().map(|(seconds, _)| *seconds).fold(0.0, f64::max);
        let units: u64 = filled.iter().map(|(_, progress)| progress.due).sum();
        let has_failed = filled.iter().any(|(_, progress)| progress.failed + progress.refused > 0);
        let is_whole = !has_failed && units == fill.units;
        Ok((Some(Filled { begun_at, seconds, units, events }), is_whole))
    }

    /// Gives a worker its job, with its part of an access log.
    pub(super) async fn prepare(&self, connected: &mut Connected, part: Option<&PathBuf>) -> Result<(), String> {
        let job = Job {
            plan: self.inputs.plan.to_toml(),
            scenarios: self.inputs.scenarios.clone(),
            files: self.inputs.files.clone(),
            fill: self.inputs.fill.clone(),
            reach: self.reach.clone(),
            worker: connected.worker,
        };
        let wire = &mut connected.wire;
        let mut question = ToWorker::Prepare(Box::new(job));
        if let Some(path) = part {
            wire.send(&question).await.map_err(|error| error.to_string())?;
            let mut part = File::open(path).map_err(|error| error.to_string())?;
            loop {
                let mut piece = Vec::with_capacity(EVENTS_BYTES);
                let read = (&mut part).take(EVENTS_BYTES as u64).read_to_end(&mut piece);
                if read.map_err(|error| error.to_string())? == 0 {
                    break;
                }
                wire.send(&ToWorker::Part(piece.into())).await.map_err(|error| error.to_string())?;
            }
            // The worker has it now.
            std::fs::remove_file(path).map_err(|error| error.to_string())?;
            question = ToWorker::PartEnd;
        }
        match ask(wire, &question).await? {
            ToCoordinator::Ready => Ok(()),
            _ => Err("it does not get ready".to_owned()),
        }
    }
}

/// Asks the workers on other machines what others use there: this machine is watched already.
pub(super) async fn ask_what_others_use(all: &mut [Connected]) -> Result<(), RunError> {
    let here = Machine::find(None);
    let elsewhere = all.iter_mut().filter(|connected| !connected.machine.is_same(&here));
    let asking = elsewhere.map(|connected| async move {
        let worker = connected.worker;
        let of_worker = move |message: String| RunError::Worker { worker, message };
        let asked = timeout(READY_MAX, ask(&mut connected.wire, &ToWorker::Others)).await;
        match asked.unwrap_or_else(|_| Err("it is silent".to_owned())).map_err(of_worker)? {
            ToCoordinator::Others(busy) => connected.machine.busy_before = busy,
            _ => return Err(of_worker("it does not say what others use".to_owned())),
        }
        Ok::<_, RunError>(())
    });
    try_join_all(asking).await.map(drop)
}

impl Connected {
    /// Lets the worker make its part of the fill, for so long at most. Returns how long that took, and what
    /// it has done. If a unit of any worker fails, `failure` becomes true, and all end.
    async fn fill(
        &mut self,
        file: &Path,
        failure: &watch::Sender<bool>,
        longest: Duration,
        on_progress: impl Fn(Progress),
    ) -> Result<(f64, Progress), String> {
        let mut file = File::create(file).map_err(|error| error.to_string())?;
        self.wire.send(&ToWorker::Fill).await.map_err(|error| error.to_string())?;
        let (mut failed, mut is_stopped, end) = (failure.subscribe(), false, latest(longest));
        loop {
            let said = tokio::select! {
                said = next_word(&mut self.wire, end) => said?,
                _ = failed.wait_for(|has_failed| *has_failed), if !is_stopped => {
                    is_stopped = true;
                    self.wire.send(&ToWorker::StopFill).await.map_err(|error| error.to_string())?;
                    continue;
                }
            };
            if let ToCoordinator::Progress(progress) | ToCoordinator::Filled { progress, .. } = &said
                && progress.failed + progress.refused > 0
            {
                failure.send_replace(true);
            }
            match said {
                ToCoordinator::Progress(progress) => on_progress(progress),
                ToCoordinator::Events(piece) => file.write_all(&piece).map_err(|error| error.to_string())?,
                ToCoordinator::Filled { seconds, progress } => return Ok((seconds, progress)),
                ToCoordinator::Refused(why) => return Err(why),
                _ => return Err("it does not keep to the protocol".to_owned()),
            }
        }
    }
}
