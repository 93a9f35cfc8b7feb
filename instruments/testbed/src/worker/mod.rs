//! A worker: waits for a coordinator, makes its part of the load, and sends what it has measured.
//! It has one thread for the load, and one that writes events.
//!
//! - `generator.rs` sends users on their way, by `alarm.rs`; `user.rs`: what one user does.
//! - `fill.rs`: users that make units before the load. `here.rs`: a load without a coordinator.
//! - `target.rs`: where the candidate answers; `connection.rs`: connections to it, over `http.rs` (with
//!   `slots.rs` for HTTP/2) or `resp.rs`; `failure.rs`: how a request fails.
//! - `log.rs`: where events go; `stall.rs`: how long the thread of the load did nothing, and how much of
//!   a processor it used.

pub mod alarm;
mod connection;
pub mod failure;
mod fill;
mod generator;
pub mod here;
mod http;
mod log;
mod resp;
mod slots;
mod stall;
mod target;
mod user;

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};

use crate::caller::{CallerError, Host, clock, heard, instant};
use crate::coordinator::{PART_MAX, READY_MAX};
use crate::event::EventError;
use crate::inputs::Inputs;
use crate::link::ProxyThread;
use crate::monitor::{self, BUSY_WINDOW, Resident};
use crate::plan::{Keep, Plan, PlanError};
use crate::record::{Machine, Program};
use crate::replay;
use crate::scenario::{Protocol, Scenario};
use crate::tally::TallyError;
use crate::tls::Tls;
use crate::wire::{EVENTS_BYTES, Job, ToCoordinator, ToWorker, Wire, WireError};
use connection::Connector;
use fill::Filling;
use generator::{Arrivals, Generator};
use log::Log;
pub(crate) use resp::Extent;
pub use resp::RespConnection;
use stall::StallMeter;
pub use target::Target;
use user::Shared;

/// How long a coordinator may be silent before the load.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// How long it waits if no coordinator can be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// How many graphs are compared at once, on threads that are not the one of the load.
const COMPARISONS: usize = 2;
/// Large answers and graphs that are looked at at the same time. More threads would take the
/// processors from the one that sends requests, in a run of a candidate that was silent for a while.
const CHECKING_THREADS_MAX: usize = 16;
/// How often it reports what it has done.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Why a worker has ended.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// Its coordinator is not served to the end.
    #[error(transparent)]
    Caller(#[from] CallerError),
    /// The job cannot be done.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The address of the candidate is wrong.
    #[error("{url}: {message}")]
    Address {
        /// The address.
        url: String,
        /// What is wrong.
        message: String,
    },
    /// Events cannot be written.
    #[error("events: {0}")]
    Events(#[from] EventError),
    /// Events cannot be counted.
    #[error(transparent)]
    Tally(#[from] TallyError),
    /// The operating system refuses something.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<WireError> for WorkerError {
    fn from(error: WireError) -> Self {
        CallerError::from(error).into()
    }
}

/// A worker.
pub struct Worker {
    /// Coordinators must know this.
    pub token: String,
    /// Its program, for the record.
    pub program: Program,
    /// Its machine, for the record.
    pub machine: Machine,
}

impl Worker {
    /// Does the jobs of coordinators, one after the other.
    ///
    /// # Errors
    /// Connections cannot be accepted.
    pub fn serve(&self, listener: std::net::TcpListener, mut report: impl FnMut(&WorkerError)) -> std::io::Result<()> {
        loop {
            // A job has a runtime of its own, so that nothing of it is left when it ends.
            match self.serve_once(listener.try_clone()?, &mut report) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => report(&error),
                // A coordinator that has gone, or no file is free for a moment.
                Err(error) => {
                    report(&error.into());
                    std::thread::sleep(AFTER_FAILURE);
                }
            }
        }
    }

    /// Does the job of one coordinator. `report` gets why others are refused before.
    ///
    /// # Errors
    /// Connections cannot be accepted.
    pub fn serve_once(
        &self,
        listener: std::net::TcpListener,
        report: &mut dyn FnMut(&WorkerError),
    ) -> std::io::Result<Result<(), WorkerError>> {
        listener.set_nonblocking(true)?;
        let runtime = runtime()?;
        LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::from_std(listener)?;
            let host = Host { token: &self.token, program: &self.program, machine: &self.machine };
            let mut wire = host.wait_for_one(&listener, |error| report(&error.into())).await?;
            let worked = work(&mut wire).await;
            if let Err(error) = &worked {
                // It may have gone: that is why, then.
                let _ = wire.send(&ToCoordinator::Refused(error.to_string())).await;
            }
            Ok(worked)
        })
    }
}

/// Does the job of a coordinator.
async fn work(wire: &mut Wire) -> Result<(), WorkerError> {
    let job = loop {
        match heard(wire, SILENCE_MAX).await? {
            ToWorker::Clock => wire.send(&clock()).await?,
            ToWorker::Prepare(job) => break job,
            _ => return Err(CallerError::Protocol("no job").into()),
        }
    };
    let prepared = Prepared::new(*job)?;
    if prepared.inputs.plan.is_replay() {
        prepared.receive_part(wire).await?;
    }
    wire.send(&ToCoordinator::Ready).await?;
    let patience = patience(&prepared.inputs.plan);
    let begin = loop {
        match heard(wire, patience).await? {
            ToWorker::Fill => prepared.fill(wire).await?,
            // Its part of the fill had ended already.
            ToWorker::StopFill => {}
            ToWorker::Clock => wire.send(&clock()).await?,
            ToWorker::Others => {
                let others = monitor::others_during(BUSY_WINDOW, Vec::new(), Vec::new()).await;
                wire.send(&ToCoordinator::Others(others)).await?;
            }
            ToWorker::Start { unix_us } => break instant(unix_us),
            _ => return Err(CallerError::Protocol("no start").into()),
        }
    };
    prepared.run(begin, wire).await
}

/// How long a coordinator may be silent while other workers get ready: one may need longer for its
/// job, for its part of an access log or for that of the fill.
fn patience(plan: &Plan) -> Duration {
    SILENCE_MAX + READY_MAX + PART_MAX + plan.fill.as_ref().map(|fill| fill.within).unwrap_or_default()
}

/// A job that is ready to begin.
struct Prepared {
    inputs: Inputs,
    worker: u32,
    connector: Rc<Connector>,
    scenarios: Arc<Vec<Scenario>>,
    /// The scheme and the host of the candidate.
    origin: String,
    /// For its files.
    folder: tempfile::TempDir,
    /// The link to the candidate, if it is a longer one.
    link: Option<ProxyThread>,
}

impl Prepared {
    fn new(job: Job) -> Result<Self, WorkerError> {
        let plan = Plan::parse(&job.plan)?;
        let (scenarios, fill, files) = (job.scenarios, job.fill, job.files);
        let inputs = Inputs { plan, scenarios, fill, files, folder: PathBuf::new(), log: None };
        let scenarios = Arc::new(inputs.compiled()?);
        let url = job.reach.url_of(job.worker);
        let mut target = Target::of_url(url)?;
        for scenario in scenarios.iter() {
            target.check(url, scenario.protocol)?;
        }
        let refuse = |message: String| WorkerError::Address { url: url.to_owned(), message };
        let headers = job.reach.fields()?;
        if target.protocol == Protocol::Resp && !headers.is_empty() {
            return Err(refuse(
                "the plan or the candidate has header fields, which the Redis protocol has not".to_owned(),
            ));
        }
        let tls = target.tls.clone().map(|server| Tls::new(&job.reach.trust, server, inputs.plan.connections.http));
        let tls = tls.transpose().map_err(|error| refuse(error.to_string()))?;
        raise_open_files()?;
        let link = inputs.plan.link.map(|link| ProxyThread::start(link, target.address)).transpose()?;
        if let Some(link) = &link {
            target.address = link.address();
        }
        let origin = origin(url);
        let connector = Connector::new(target, tls, headers, inputs.plan.connections.clone());
        let folder = tempfile::tempdir()?;
        Ok(Self { inputs, worker: job.worker, connector, scenarios, origin, folder, link })
    }

    /// Where its part of an access log is.
    fn part(&self) -> PathBuf {
        self.folder.path().join("part")
    }

    async fn receive_part(&self, wire: &mut Wire) -> Result<(), WorkerError> {
        let mut part = File::create(self.part())?;
        loop {
            match heard(wire, SILENCE_MAX).await? {
                ToWorker::Part(piece) => part.write_all(&piece)?,
                ToWorker::PartEnd => return Ok(part.flush()?),
                _ => return Err(CallerError::Protocol("no part of the log").into()),
            }
        }
    }

    /// Makes its part of the fill.
    async fn fill(&self, wire: &mut Wire) -> Result<(), WorkerError> {
        let (plan, begun) = (&self.inputs.plan, Instant::now());
        let (Some(fill), Some(scenario)) = (&plan.fill, self.inputs.compiled_fill()?) else {
            return Err(CallerError::Protocol("a fill that the plan does not have").into());
        };
        let file = self.folder.path().join("fill.csv.gz");
        let names = vec![scenario.names()];
        // Users follow each other at once: they share connections, as one client would.
        let shared = Rc::new(Shared {
            scenarios: Arc::new(vec![scenario]),
            connector: self.connector.with_keep(Keep::Worker),
            log: Log::create(&file, names)?,
            timeout: plan.connections.timeout,
            start: begun,
            seed: plan.seed,
            users: 0,
            origin: self.origin.clone(),
            link: self.link.as_ref().map(ProxyThread::lack),
            comparisons: Arc::new(Semaphore::new(COMPARISONS)),
        });
        shared.log.count(|progress| progress.is_fill = true);
        let (concurrency, active) = fill.share(self.worker, plan.workers);
        let is_stopped = Rc::new(Cell::new(false));
        let filling = Filling {
            shared: shared.clone(),
            concurrency,
            first: u64::from(self.worker),
            step: u64::from(active),
            units: fill.units,
            end: begun + fill.within,
            is_stopped: is_stopped.clone(),
        };
        attend(spawn_local(filling.run()), &shared, wire, Some(&*is_stopped)).await?;
        let seconds = begun.elapsed().as_secs_f64();
        ship(&shared, &file, wire).await?;
        Ok(wire.send(&ToCoordinator::Filled { seconds, progress: shared.log.progress() }).await?)
    }

    /// Where the events of its part of the load go.
    fn events(&self) -> PathBuf {
        self.folder.path().join("events.csv.gz")
    }

    /// Its part of the load, which begins at an instant.
    fn generator(&self, begin: Instant) -> Result<Generator, WorkerError> {
        let plan = &self.inputs.plan;
        let names = self.scenarios.iter().map(Scenario::names).collect();
        let arrivals: Arrivals = match plan.is_replay() {
            true => {
                let entries = replay::entries(&self.part())?;
                Box::new(entries.map(|entry| entry.map(|(after, entry)| (after, Some(entry)))))
            }
            false => Box::new(plan.load.arrivals(self.worker, plan.workers, plan.seed).map(|after| Ok((after, None)))),
        };
        let shared = Rc::new(Shared {
            scenarios: self.scenarios.clone(),
            connector: self.connector.clone(),
            log: Log::create(&self.events(), names)?,
            timeout: plan.connections.timeout,
            start: begin + plan.warm_up,
            seed: plan.seed,
            users: plan.load.closed_users(plan.workers),
            origin: self.origin.clone(),
            link: self.link.as_ref().map(ProxyThread::lack),
            comparisons: Arc::new(Semaphore::new(COMPARISONS)),
        });
        Ok(Generator { plan: plan.clone(), worker: self.worker, shared, arrivals, load_share: Rc::default() })
    }

    async fn run(&self, begin: Instant, wire: &mut Wire) -> Result<(), WorkerError> {
        let generator = self.generator(begin)?;
        let (shared, load_share) = (generator.shared.clone(), generator.load_share.clone());
        let before = Rc::new(Cell::new(Before::now()));
        let (start, at_start) = (shared.start, before.clone());
        // What the warm-up takes does not count.
        let warming_up = spawn_local(async move {
            sleep_until(start.into()).await;
            at_start.set(Before::now());
        });
        let stalls = StallMeter::default();
        let measuring = spawn_local(stalls.clone().run());
        attend(spawn_local(generator.run()), &shared, wire, None).await?;
        measuring.abort();
        warming_up.abort();
        let before = before.get();
        let finished = ToCoordinator::Finished {
            cpu_s: cpu_s() - before.cpu_s,
            load_share: load_share.get(),
            longest_stall_ms: stalls.longest().as_secs_f64() * 1e3,
            memory_at_start_bytes: before.memory_bytes,
            memory_peak_bytes: resident().map(|memory| memory.peak_bytes as u64).max(before.memory_bytes),
        };
        wire.send(&finished).await?;
        ship(&shared, &self.events(), wire).await?;
        Ok(wire.send(&ToCoordinator::End).await?)
    }
}

/// What this process had used when its load began to count.
#[derive(Clone, Copy, Debug)]
struct Before {
    cpu_s: f64,
    memory_bytes: Option<u64>,
}

impl Before {
    fn now() -> Self {
        // From now on the kernel keeps the peak. One that does not keeps it since the process has started.
        let _ = Resident::reset_peak(std::process::id());
        Self { cpu_s: cpu_s(), memory_bytes: resident().map(|memory| memory.now_bytes as u64) }
    }
}

/// The memory of this process, if the kernel reports it.
fn resident() -> Option<Resident> {
    Resident::of(std::process::id()).ok()
}

/// Requests and the alarm share a thread: it looks at the alarm often. The others look at large
/// answers and graphs, and wait for the log.
fn runtime() -> std::io::Result<Runtime> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().event_interval(11).max_blocking_threads(CHECKING_THREADS_MAX).build()
}

/// Waits for users, which run in a task of their own: they do not wait for a coordinator that is slow to
/// read. Reports meanwhile what they have done.
async fn attend(
    mut running: JoinHandle<std::io::Result<()>>,
    shared: &Shared,
    wire: &mut Wire,
    is_stopped: Option<&Cell<bool>>,
) -> Result<(), WorkerError> {
    let mut ticks = progress_ticks();
    loop {
        tokio::select! {
            ended = &mut running => return Ok(ended.map_err(std::io::Error::other)??),
            _ = ticks.tick() => {
                if !shared.log.is_written() {
                    return Ok(());
                }
                wire.send(&ToCoordinator::Progress(shared.log.progress())).await?;
            }
            // If it goes, the load ends.
            said = wire.receive::<ToWorker>() => match (said?, is_stopped) {
                (ToWorker::StopFill, Some(is_stopped)) => is_stopped.set(true),
                _ => return Err(CallerError::Protocol("it speaks while the load runs").into()),
            },
        }
    }
}

/// Ends a file of events, and sends it.
async fn ship(shared: &Shared, file: &Path, wire: &mut Wire) -> Result<(), WorkerError> {
    let mut ticks = progress_ticks();
    let mut finishing = std::pin::pin!(shared.log.finish());
    loop {
        tokio::select! {
            written = &mut finishing => break written?,
            _ = ticks.tick() => wire.send(&ToCoordinator::Progress(shared.log.progress())).await?,
        }
    }
    let mut events = File::open(file)?;
    loop {
        let mut piece = Vec::with_capacity(EVENTS_BYTES);
        if (&mut events).take(EVENTS_BYTES as u64).read_to_end(&mut piece)? == 0 {
            return Ok(());
        }
        wire.send(&ToCoordinator::Events(piece.into())).await?;
    }
}

fn progress_ticks() -> Interval {
    let mut ticks = interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// The scheme, the host and the port of an address, without a slash at the end.
fn origin(url: &str) -> String {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[host..].find(['/', '?', '#']).map_or(url.len(), |end| host + end);
    url[..end].to_owned()
}

/// Each user may have a connection: as many files as this process may have.
fn raise_open_files() -> std::io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Processor time of this process so far, in seconds.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_worker_waits_as_long_as_another_one_may_take_to_get_ready() {
        let replay = "name = \"x\"\nscenarios = [{ scenario = \"replay\" }]\n\
                      load = { shape = \"replay\", file = \"access.log\", duration = \"1s\" }\n";
        let filled = format!("{replay}fill = {{ scenario = \"get\", units = 1, within = \"1h\" }}\n");
        let patience_for = |plan: &str| patience(&Plan::parse(plan).unwrap());
        // The coordinator reaches the other one, which then gets ready.
        let longest = READY_MAX + (READY_MAX + PART_MAX);
        assert!(patience_for(replay) > longest);
        assert_eq!(patience_for(&filled), patience_for(replay) + Duration::from_secs(3_600));
    }
}
