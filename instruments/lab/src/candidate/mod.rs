//! A server of the Redis protocol that the testbed knows how to start, such as the records door of
//! Penates over its embedded engine, or Redis; or one with other doors of Penates. Its own settings
//! are the factors.
//!
//! Each run has a new server with a new folder. So no setting profits from what another one has left.

mod door;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::json;
use testbed::candidate::command::penates;
use testbed::candidate::{Candidate, RunningCandidate};
use testbed::record::Machine;
use testbed::worker::Target;
use walkdir::WalkDir;

use crate::estimate::Room;
use crate::factor::Setting;
use crate::load::doors::HttpDoor;
use crate::load::watch::Watched;
use crate::load::{self, Load, process};
use crate::page_cache;
use crate::plan::{CandidateName, Plan, Restart};
use crate::rig::{Baseline, Counters, Facts, Loaded, NODE_WRITTEN_BYTES, Rig, RigError};
use crate::workload::Workload;

use door::Connections;

/// Between two looks at what a server writes.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A server that writes less than this from look to look neither flushes nor compacts.
const QUIET_BYTES: f64 = 262_144.0;

/// So many looks in a row have to find it quiet.
const QUIET_LOOKS: u32 = 3;

/// How long flushes and compactions may take until it is quiet.
const QUIET_PATIENCE: Duration = Duration::from_secs(1_800);

/// Servers that the lab starts and stops. They end with the value.
pub struct Server {
    plan: Plan,
    candidate: Candidate,
    /// Where the data, the log and the files of the candidate are.
    folder: PathBuf,
    /// This program, which the candidate may be.
    program: PathBuf,
    running: Option<Running>,
    begun: Instant,
}

/// A server that runs.
struct Running {
    process: RunningCandidate,
    way: Way,
    pid: u32,
    /// What it was started with.
    settings: Vec<(String, String)>,
    /// The settings that the plan varies, as they were read back.
    in_force: BTreeMap<String, String>,
    /// The share of its files that was in memory after the prefill, if somebody says it.
    in_memory: Option<f64>,
    /// Whether a run was made since.
    is_used: bool,
}

/// How operations reach a server.
enum Way {
    Redis(Arc<Connections>),
    Http(Arc<HttpDoor>),
}

impl Way {
    fn address(&self) -> SocketAddr {
        match self {
            Self::Redis(door) => door.address(),
            Self::Http(door) => door.address(),
        }
    }
}

/// The first of these addresses that is one of HTTP: a server of several protocols names only one
/// of them as its own, and shows its metrics over HTTP.
fn of_http(urls: [Option<String>; 2]) -> Option<String> {
    urls.into_iter().flatten().find(|url| url.starts_with("http://"))
}

fn fatal(error: impl Display) -> RigError {
    RigError::Fatal(error.to_string())
}

fn failed(error: impl Display) -> RigError {
    RigError::Run(error.to_string())
}

impl Server {
    /// The server of a plan, with its data in a folder. It does not run yet. `program` is this program.
    ///
    /// # Errors
    /// There is no such candidate, or nobody can vary its settings.
    pub fn open(plan: &Plan, folder: &Path, program: &Path) -> Result<Self, RigError> {
        let candidate = match &plan.candidate {
            Some(CandidateName::Name(name)) => Candidate::shipped(name),
            Some(CandidateName::Folder(folder)) => Candidate::read(folder),
            None => return Err(fatal("the plan names no candidate")),
        };
        let candidate = candidate.map_err(fatal)?;
        let spec = &candidate.spec;
        if spec.setting.is_empty() || spec.setting_in_force.is_none() {
            let missing = "does not say how a setting is given and read back (`setting`, `setting_in_force`)";
            return Err(fatal(format!("candidate {} {missing}", spec.name)));
        }
        if plan.door.is_some() && of_http([Some(spec.url.clone()), spec.metrics.clone()]).is_none() {
            return Err(fatal(format!("candidate {} has no address over HTTP, where the door would be", spec.name)));
        }
        let (plan, folder, program) = (plan.clone(), folder.to_owned(), program.to_owned());
        Ok(Self { plan, candidate, folder, program, running: None, begun: Instant::now() })
    }

    /// What a server is started with.
    fn settings(&self, setting: &Setting) -> Vec<(String, String)> {
        let factors = self.plan.factors.iter();
        factors.filter_map(|factor| Some((factor.name.clone(), setting.value(factor)?.to_owned()))).collect()
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn running(&self) -> Result<&Running, RigError> {
        self.running.as_ref().ok_or_else(|| failed("the server does not run"))
    }

    /// Starts a server on an empty folder. One that runs is ended.
    async fn start(&mut self, setting: &Setting) -> Result<(), RigError> {
        if let Some(running) = self.running.take() {
            running.process.end().await;
        }
        let (data, settings) = (self.data(), self.settings(setting));
        match std::fs::remove_dir_all(&data) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fatal(error)),
            _ => {}
        }
        std::fs::create_dir_all(&data).map_err(fatal)?;
        let candidate = self.candidate.clone().with_settings(settings.clone()).map_err(fatal)?;
        let process = RunningCandidate::start(&candidate, &data, &self.folder, &self.program).await.map_err(failed)?;
        let way = self.way(&process)?;
        let pid = process.id().ok_or_else(|| failed("the server has ended"))?;
        self.running =
            Some(Running { process, way, pid, settings, in_force: BTreeMap::new(), in_memory: None, is_used: false });
        Ok(())
    }

    /// How a server is reached that has started.
    fn way(&self, process: &RunningCandidate) -> Result<Way, RigError> {
        let address = |url: &str| Target::of_url(url).map(|target| target.address).map_err(fatal);
        let Some(door) = self.plan.door else {
            return Ok(Way::Redis(Arc::new(Connections::new(address(&process.url())?))));
        };
        let url = of_http([Some(process.url()), process.metrics_url()]);
        let url = url.ok_or_else(|| fatal("the server has no address over HTTP"))?;
        Ok(Way::Http(Arc::new(HttpDoor::new(door, address(&url)?))))
    }

    /// Fails if the disk has no room for a run.
    fn has_room(&self) -> Result<(), RigError> {
        std::fs::create_dir_all(&self.folder).map_err(fatal)?;
        let free = rustix::fs::statvfs(&self.folder).map_err(fatal)?;
        Room::of(&self.plan).fits(free.f_bavail as f64 * free.f_frsize as f64).map_err(fatal)
    }

    fn files(&self) -> impl Iterator<Item = (PathBuf, u64)> + use<> {
        // Files may be deleted meanwhile.
        WalkDir::new(self.data()).into_iter().flatten().filter_map(|file| {
            let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((file.into_path(), metadata.len()))
        })
    }

    /// Waits until the server writes next to nothing.
    async fn wait_until_quiet(&self) -> Result<(), RigError> {
        let pid = self.running()?.pid;
        let written = || process::used(pid).get(NODE_WRITTEN_BYTES).copied();
        let deadline = Instant::now() + QUIET_PATIENCE;
        let (mut before, mut quiet_looks) = (written(), 0);
        while quiet_looks < QUIET_LOOKS {
            tokio::time::sleep(LOOK_AGAIN).await;
            let now = written();
            // What a process writes may not be readable; then nobody can wait for it.
            let is_quiet = now.zip(before).is_none_or(|(now, before)| now - before < QUIET_BYTES);
            quiet_looks = if is_quiet { quiet_looks + 1 } else { 0 };
            before = now;
            if Instant::now() > deadline {
                return Err(failed(format!("the server still writes after {QUIET_PATIENCE:?}")));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Rig for Server {
    async fn facts(&mut self) -> Result<Facts, RigError> {
        self.has_room()?;
        self.plan.data.page_cache.can_be_read_back().map_err(fatal)?;
        if self.running.is_none() {
            self.start(&Setting::default()).await.map_err(fatal)?;
        }
        let record = self.running()?.process.record().await.map_err(fatal)?;
        let machine = Machine::find(Some(&self.folder));
        let program = record.program;
        let known = [
            ("candidate", Some(program.name)),
            ("version", Some(program.version)),
            ("program", program.sha256.map(|sha256| format!("sha256:{sha256}"))),
            ("commit", program.commit),
            ("machine", Some(machine.name)),
            ("simulated", Some("false".to_owned())),
            ("processors", Some(machine.processors.to_string())),
            ("processor", machine.processor),
            ("memory_bytes", machine.memory_bytes.map(|bytes| bytes.to_string())),
            ("disk", machine.disk),
            ("kernel", machine.kernel),
        ];
        let facts = known.into_iter().filter_map(|(fact, value)| Some((fact.to_owned(), value?)));
        Ok(Facts { facts: facts.collect() })
    }

    async fn apply(&mut self, setting: &Setting, _restart: Restart) -> Result<bool, RigError> {
        let settings = self.settings(setting);
        if self.running.as_ref().is_some_and(|running| !running.is_used && running.settings == settings) {
            return Ok(false);
        }
        let started = self.start(setting).await;
        // Without the default there is nothing to compare with.
        started.map_err(|error| if setting.is_default() { fatal(error) } else { error })?;
        Ok(true)
    }

    async fn recreate(&mut self, _setting: &Setting) -> Result<Baseline, RigError> {
        // It began with an empty folder.
        if let Some(running) = &mut self.running {
            running.is_used = true;
        }
        Ok(Baseline::default())
    }

    async fn read_back(&mut self) -> Result<BTreeMap<String, String>, RigError> {
        let process = &self.running()?.process;
        let mut read = BTreeMap::new();
        for factor in &self.plan.factors {
            let value = process.setting(&factor.name).await.map_err(failed)?;
            read.extend(value.map(|value| (factor.name.clone(), value)));
        }
        if let Some(running) = &mut self.running {
            running.in_force.clone_from(&read);
        }
        Ok(read)
    }

    async fn prefill(&mut self, seed: u64) -> Result<(), RigError> {
        self.has_room()?;
        match &self.running()?.way {
            Way::Redis(door) => load::prefill(door.as_ref(), &self.plan.data, seed).await?,
            Way::Http(door) => door.prefill(&self.plan.data, seed, &penates(&self.program)).await?,
        }
        self.wait_until_quiet().await?;
        let (files, pid) = (self.files().map(|(path, _)| path), self.running()?.pid);
        let share = self.plan.data.page_cache.reach(files, &[pid]).map_err(failed)?;
        if let Some(running) = &mut self.running {
            running.in_memory = share;
        }
        Ok(())
    }

    async fn counters(&mut self) -> Result<Counters, RigError> {
        let used = process::used(self.running()?.pid);
        Ok(Counters { at_s: self.begun.elapsed().as_secs_f64(), nodes: 1, used, ..Counters::default() })
    }

    async fn load(&mut self, workload: &Workload, seed: u64, folder: &Path) -> Result<Loaded, RigError> {
        let running = self.running()?;
        let record = running.process.record().await.map_err(failed)?;
        let kept = json!({
            "command": record.command,
            "configuration": record.configuration,
            "in_force": running.in_force,
        });
        let kept = serde_json::to_vec_pretty(&kept).map_err(fatal)?;
        std::fs::write(folder.join("candidate.json"), kept).map_err(fatal)?;
        let (pid, begun) = (running.pid, self.begun);
        let watched = Watched { data: self.data(), pids: vec![pid], addresses: vec![running.way.address()] };
        let watch = async |start, duration| watched.run(start, duration, folder).await;
        let at_window = async {
            Counters { at_s: begun.elapsed().as_secs_f64(), nodes: 1, used: process::used(pid), ..Counters::default() }
        };
        // Its records are in no series.
        let load = Load { data: &self.plan.data, workload, seed, after: Duration::ZERO };
        let (mut loaded, begun) = match &running.way {
            Way::Redis(door) => load.make(door, watch, folder, at_window).await?,
            Way::Http(door) => load.make(door, watch, folder, at_window).await?,
        };
        loaded.metrics.extend(running.in_memory.map(|share| (page_cache::SHARE.to_owned(), share)));
        Ok(Loaded { begun, ..loaded })
    }

    async fn drain(&mut self) -> Result<BTreeMap<String, f64>, RigError> {
        self.wait_until_quiet().await?;
        let disk_bytes = self.files().map(|(_, bytes)| bytes).sum::<u64>() as f64;
        let payload = self.plan.data.records as f64 * f64::from(self.plan.data.record_bytes);
        let state = [("disk_bytes", disk_bytes), ("space_amplification", disk_bytes / payload)];
        Ok(state.map(|(name, value)| (name.to_owned(), value)).into())
    }
}
