//! Runs a plan with its workers: gives all of them the same start instant, and collects what they
//! have measured. If a worker is lost, the run is void, and not smaller. `before.rs` has what comes
//! before the load.

mod before;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::handshake::{Greeted, greet};
use crate::inputs::Inputs;
use crate::plan::DURATION_MAX;
use crate::reach::Reach;
use crate::record::{Machine, WorkerRecord};
use crate::replay::{ReplayError, ReplayRecord};
use crate::wire::{Progress, ToCoordinator, ToWorker, Wire};

/// A worker says something each second. After this long without a word it is lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long a worker may take to be there, and to read a job.
pub(crate) const READY_MAX: Duration = Duration::from_secs(60);
/// How long a worker may take to receive its part of an access log.
pub(crate) const PART_MAX: Duration = Duration::from_secs(600);
/// How much longer than the plan says workers may take: for checks of answers, and to send what they have
/// measured.
pub(crate) const BEYOND_PLAN: Duration = Duration::from_secs(600);
/// No clock expresses much later instants.
const LONGEST: Duration = DURATION_MAX.saturating_mul(10);
/// The time between the last worker's readiness and the start instant.
const BEFORE_START: SignedDuration = SignedDuration::from_millis(500);
/// How long a worker of this machine may take to end once it has sent everything. It deletes its
/// files then.
const END_MAX: Duration = Duration::from_secs(10);
/// How often a worker is asked for its clock: the quickest answer is the best one.
const CLOCK_LOOKS: u32 = 11;

/// Where a worker is.
pub enum WorkerPlace {
    /// On this machine: the coordinator starts it by this command, which prints its address as the
    /// last word of its first line, and ends it.
    Here(Command),
    /// At an address where somebody has started it.
    At(String),
}

/// What is wrong with these workers and their machines, for people.
pub type Objections<'a> = dyn Fn(&[WorkerRecord], &[Machine]) -> Vec<String> + Sync + 'a;

/// A run to be made.
pub struct Coordinator<'a> {
    /// The plan with everything that it names.
    pub inputs: &'a Inputs,
    /// How the candidate is reached.
    pub reach: &'a Reach,
    /// The token of all workers.
    pub token: &'a str,
    /// A folder for the files of events.
    pub folder: &'a Path,
    /// Is called with the number of a worker and what it has done, once a second.
    pub on_progress: &'a (dyn Fn(u32, Progress) + Sync),
    /// Is called with the start instant, just before it.
    pub on_start: &'a (dyn Fn(Timestamp) + Sync),
    /// Is asked what keeps these workers on their machines from being used, before they begin.
    pub objections: &'a Objections<'a>,
}

/// What the workers have done.
pub struct Collected {
    /// The start instant.
    pub started_at: Timestamp,
    /// When the last worker was done.
    pub ended_at: Timestamp,
    /// The workers, in the order of their numbers.
    pub workers: Vec<WorkerRecord>,
    /// Their machines.
    pub machines: Vec<Machine>,
    /// Their files of events.
    pub events: Vec<PathBuf>,
    /// How many users were active at the end of each second, as the workers have reported: the second
    /// since the start instant, and users.
    pub users: Vec<(i64, u64)>,
    /// What was made before the load.
    pub fill: Option<Filled>,
    /// What is replayed of an access log.
    pub replay: Option<ReplayRecord>,
    /// The worker that was lost, and why. The others have not gone on.
    pub lost: Option<String>,
}

/// What workers have made before the load.
pub struct Filled {
    /// When they began.
    pub begun_at: Timestamp,
    /// How long the slowest took, in seconds.
    pub seconds: f64,
    /// Users that have begun.
    pub units: u64,
    /// Their files of events.
    pub events: Vec<PathBuf>,
}

/// Why a run cannot begin.
#[derive(Debug, Error)]
pub enum RunError {
    /// A worker cannot be started, reached or used.
    #[error("worker {worker}: {message}")]
    Worker {
        /// Its number.
        worker: u32,
        /// What is wrong.
        message: String,
    },
    /// There are objections to the workers.
    #[error("the workers cannot be used: {}", .0.join(", "))]
    Objections(Vec<String>),
    /// The access log cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A file cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What a worker says of itself in the end.
#[derive(Clone, Copy, Debug, Default)]
struct Finished {
    at: Option<Timestamp>,
    cpu_s: f64,
    load_share: f64,
    longest_stall_ms: f64,
    memory_at_start_bytes: Option<u64>,
    memory_peak_bytes: Option<u64>,
}

/// How many users are active. It grows by a few bytes each second, however many workers report.
#[derive(Default)]
struct ActiveUsers {
    /// What each worker has reported last.
    of_workers: BTreeMap<u32, u64>,
    /// The second, and the sum over all workers at its end.
    seconds: Vec<(i64, u64)>,
}

impl ActiveUsers {
    fn add(&mut self, at_s: f64, worker: u32, users: u64) {
        self.of_workers.insert(worker, users);
        let (second, sum) = (at_s.floor() as i64, self.of_workers.values().sum::<u64>());
        match self.seconds.last_mut() {
            Some((last, known)) if *last == second => *known = sum,
            _ => self.seconds.push((second, sum)),
        }
    }
}

/// A worker that the coordinator talks to.
struct Connected {
    worker: u32,
    wire: Wire,
    record: WorkerRecord,
    machine: Machine,
    /// Ends with this value.
    process: Option<Child>,
}

impl Coordinator<'_> {
    /// Makes the run.
    ///
    /// # Errors
    /// [`RunError`]: it has not begun.
    pub async fn run(&self, places: Vec<WorkerPlace>) -> Result<Collected, RunError> {
        let (replay, parts) = self.split_log(places.len()).await?;
        let connecting = (0..).zip(places).map(|(worker, place)| {
            let part = parts.get(worker as usize);
            let of_worker = move |message| RunError::Worker { worker, message };
            async move {
                let late = |_| of_worker("it is not ready in time; it may serve another coordinator".to_owned());
                let connected = timeout(READY_MAX, self.connect(worker, place)).await.map_err(late)?;
                let mut connected = connected.map_err(of_worker)?;
                let ready = timeout(READY_MAX + PART_MAX, self.prepare(&mut connected, part)).await.map_err(late)?;
                ready.map_err(of_worker)?;
                Ok::<_, RunError>(connected)
            }
        });
        let mut all = try_join_all(connecting).await?;
        before::ask_what_others_use(&mut all).await?;
        let workers: Vec<_> = all.iter().map(|connected| connected.record.clone()).collect();
        let machines: Vec<_> = all.iter().map(|connected| connected.machine.clone()).collect();
        let objections = (self.objections)(&workers, &machines);
        if !objections.is_empty() {
            return Err(RunError::Objections(objections));
        }
        let (fill, begun_at) = match self.fill(&mut all).await {
            Ok((fill, true)) => (fill, begin(&mut all).await),
            Ok((fill, false)) => (fill, Err("There was no load, because the fill is not whole.".to_owned())),
            // What a lost worker has left of the fill is no file that could be read.
            Err(lost) => (None, Err(lost)),
        };
        let begun_at = match begun_at {
            Ok(begun_at) => begun_at,
            Err(why) => {
                let now = Timestamp::now();
                (self.on_start)(now);
                return Ok(Collected {
                    started_at: now,
                    ended_at: now,
                    workers,
                    machines,
                    events: Vec::new(),
                    users: Vec::new(),
                    fill,
                    replay,
                    lost: Some(why),
                });
            }
        };
        // The warm-up is before the start instant.
        let warm_up = SignedDuration::try_from(self.inputs.plan.warm_up).unwrap_or_default();
        let started_at = begun_at + warm_up;
        (self.on_start)(started_at);
        let workers: Vec<_> = all.iter().map(|connected| connected.record.clone()).collect();
        let events: Vec<_> = all.iter().map(|connected| self.file(connected.worker)).collect();
        let users = parking_lot::Mutex::new(ActiveUsers::default());
        let longest = self.longest_load();
        let collecting = all.into_iter().map(|connected| {
            let worker = connected.worker;
            let (users, on_progress) = (&users, self.on_progress);
            async move {
                let file = File::create(self.file(worker)).map_err(|error| format!("worker {worker}: {error}"))?;
                let collected = connected.collect(file, longest, |progress| {
                    users.lock().add(seconds_since(started_at), worker, progress.users);
                    on_progress(worker, progress);
                });
                collected.await.map_err(|why| format!("worker {worker}: {why}"))
            }
        });
        // The first that is lost ends the others: their connections are dropped.
        let collected: Result<Vec<Finished>, String> = try_join_all(collecting).await;
        let (finished, lost) = match collected {
            Ok(finished) => (finished, None),
            Err(why) => (vec![Finished::default(); workers.len()], Some(why)),
        };
        // What workers ship afterwards is no part of the run.
        let ended_at = finished.iter().filter_map(|finished| finished.at).max().unwrap_or_else(Timestamp::now);
        let with_figures = workers.into_iter().zip(finished).map(|(record, finished)| WorkerRecord {
            cpu_s: finished.cpu_s,
            load_share: finished.load_share,
            longest_stall_ms: finished.longest_stall_ms,
            memory_at_start_bytes: finished.memory_at_start_bytes,
            memory_peak_bytes: finished.memory_peak_bytes,
            ..record
        });
        let workers = with_figures.collect();
        let users = users.into_inner().seconds;
        Ok(Collected { started_at, ended_at, workers, machines, events, users, fill, replay, lost })
    }

    /// How long workers may take for the load, and once more to send what they have measured: until the
    /// last user has arrived and has taken all its steps.
    fn longest_load(&self) -> Duration {
        // What cannot be compiled is refused by the workers.
        let scenarios = self.inputs.compiled().unwrap_or_default();
        let timeout = self.inputs.plan.connections.timeout;
        let of_user = scenarios.iter().map(|scenario| scenario.longest(timeout)).max().unwrap_or_default();
        self.inputs.plan.load.duration().saturating_add(of_user).saturating_add(BEYOND_PLAN)
    }

    fn file(&self, worker: u32) -> PathBuf {
        self.folder.join(format!("worker-{worker:03}.csv.gz"))
    }

    async fn connect(&self, worker: u32, place: WorkerPlace) -> Result<Connected, String> {
        let (address, process) = match place {
            WorkerPlace::Here(mut command) => {
                // What it keeps goes with the folder of the run, also if it is killed.
                command.env("TMPDIR", self.folder);
                let (process, address) = start(command).await.map_err(|error| format!("cannot start: {error}"))?;
                (address, Some(process))
            }
            WorkerPlace::At(address) => (address, None),
        };
        let stream = TcpStream::connect(&address).await.map_err(|error| format!("{address}: {error}"))?;
        let mut wire = Wire::new(stream).map_err(|error| error.to_string())?;
        let Greeted { program, machine, command } = greet(&mut wire, self.token).await?;
        let (address, command) = (process.is_none().then_some(address), Some(command));
        let record = WorkerRecord { number: worker, address, program, command, ..WorkerRecord::default() };
        Ok(Connected { worker, wire, record, machine, process })
    }
}

impl Connected {
    /// Receives everything. The load takes so long at most, and so does what follows.
    async fn collect(
        mut self,
        mut file: File,
        longest: Duration,
        on_progress: impl Fn(Progress),
    ) -> Result<Finished, String> {
        let (mut finished, mut end) = (Finished::default(), latest(longest));
        loop {
            match next_word(&mut self.wire, end).await? {
                ToCoordinator::Progress(progress) => on_progress(progress),
                ToCoordinator::Finished {
                    cpu_s,
                    load_share,
                    longest_stall_ms,
                    memory_at_start_bytes,
                    memory_peak_bytes,
                } if finished.at.is_none() => {
                    finished = Finished {
                        at: Some(Timestamp::now()),
                        cpu_s,
                        load_share,
                        longest_stall_ms,
                        memory_at_start_bytes,
                        memory_peak_bytes,
                    };
                    end = latest(longest);
                }
                ToCoordinator::Events(piece) => file.write_all(&piece).map_err(|error| error.to_string())?,
                ToCoordinator::End => {
                    if let Some(process) = &mut self.process {
                        // What does not end is killed with this value.
                        let _ = timeout(END_MAX, process.wait()).await;
                    }
                    return Ok(finished);
                }
                ToCoordinator::Refused(why) => return Err(why),
                _ => return Err("it does not keep to the protocol".to_owned()),
            }
        }
    }
}

/// Starts a worker. Returns it with its address.
async fn start(mut command: Command) -> std::io::Result<(Child, String)> {
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut line = String::new();
    if let Some(out) = process.stdout.take() {
        BufReader::new(out).read_line(&mut line).await?;
    }
    match line.split_whitespace().last().filter(|word| word.parse::<SocketAddr>().is_ok()) {
        Some(address) => Ok((process, address.to_owned())),
        None => Err(std::io::Error::other("it prints no address")),
    }
}

/// The instant after so long.
pub(crate) fn latest(longest: Duration) -> Instant {
    Instant::now() + longest.min(LONGEST)
}

/// What a worker or a monitor says, which says something each second. One that goes on after `end` is lost,
/// too: it would keep the run from ending.
pub(crate) async fn next_word(wire: &mut Wire, end: Instant) -> Result<ToCoordinator, String> {
    if Instant::now() >= end {
        return Err("it does not end".to_owned());
    }
    let said = timeout(SILENCE_MAX, wire.receive()).await.map_err(|_| "it is silent".to_owned())?;
    said.map_err(|error| error.to_string())
}

pub(crate) async fn ask(wire: &mut Wire, question: &ToWorker) -> Result<ToCoordinator, String> {
    wire.send(question).await.map_err(|error| error.to_string())?;
    match wire.receive().await.map_err(|error| error.to_string())? {
        ToCoordinator::Refused(why) => Err(why),
        answer => Ok(answer),
    }
}

/// How far a worker's clock is ahead of this one, and how wrong that may be, in microseconds: it was
/// read between the question and the answer.
pub(crate) async fn compare_clocks(wire: &mut Wire) -> Result<(i64, u64), String> {
    let mut best = (0, u64::MAX);
    for _ in 0..CLOCK_LOOKS {
        let asked_us = Timestamp::now().as_microsecond();
        let ToCoordinator::Clock { unix_us } = ask(wire, &ToWorker::Clock).await? else {
            return Err("it does not say what its clock says".to_owned());
        };
        let answered_us = Timestamp::now().as_microsecond();
        let error_us = answered_us.abs_diff(asked_us).div_ceil(2);
        if error_us < best.1 {
            // Whatever it says that its clock says.
            best = (unix_us.saturating_sub(asked_us.midpoint(answered_us)), error_us);
        }
    }
    Ok(best)
}

/// Compares the clocks, and lets all workers begin at one instant. Returns it, or which worker was lost.
async fn begin(all: &mut [Connected]) -> Result<Timestamp, String> {
    let comparing = all.iter_mut().map(|connected| async move {
        let compared = compare_clocks(&mut connected.wire).await;
        let (offset_us, error_us) = compared.map_err(|why| format!("worker {}: {why}", connected.worker))?;
        (connected.record.clock_offset_us, connected.record.clock_error_us) = (offset_us, error_us);
        Ok::<_, String>(())
    });
    timeout(READY_MAX, try_join_all(comparing)).await.map_err(|_| "A worker is silent.".to_owned())??;
    let begun_at = Timestamp::now() + BEFORE_START;
    for connected in all {
        let unix_us = begun_at.as_microsecond().saturating_add(connected.record.clock_offset_us);
        let sent = connected.wire.send(&ToWorker::Start { unix_us }).await;
        sent.map_err(|error| format!("worker {}: {error}", connected.worker))?;
    }
    Ok(begun_at)
}

fn seconds_since(start: Timestamp) -> f64 {
    Timestamp::now().duration_since(start).as_secs_f64()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::net::TcpListener;

    use super::*;
    use crate::plan::Plan;

    /// A worker at an address, which is known already.
    async fn connected(worker: u32, address: SocketAddr) -> Connected {
        let wire = Wire::new(TcpStream::connect(address).await.unwrap()).unwrap();
        let record = WorkerRecord { number: worker, ..WorkerRecord::default() };
        Connected { worker, wire, record, machine: Machine::default(), process: None }
    }

    /// A worker whose clock is ahead by so many microseconds. It ends with the start instant that it was given.
    async fn worker_with_clock(listener: TcpListener, ahead_us: i64) -> i64 {
        let mut wire = Wire::new(listener.accept().await.unwrap().0).unwrap();
        loop {
            match wire.receive().await.unwrap() {
                ToWorker::Clock => {
                    let unix_us = Timestamp::now().as_microsecond() + ahead_us;
                    wire.send(&ToCoordinator::Clock { unix_us }).await.unwrap();
                }
                ToWorker::Start { unix_us } => return unix_us,
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn workers_with_two_clocks_begin_at_one_instant() {
        // One clock is an hour ahead, and the other a day behind.
        let ahead_us = [3_600_000_000, -86_400_000_000];
        let (mut all, mut told) = (Vec::new(), Vec::new());
        for (number, ahead_us) in (0..).zip(ahead_us) {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            told.push(tokio::spawn(worker_with_clock(listener, ahead_us)));
            all.push(connected(number, address).await);
        }
        let begun_at = begin(&mut all).await.unwrap();
        for ((told, connected), ahead_us) in told.into_iter().zip(&all).zip(ahead_us) {
            let WorkerRecord { clock_offset_us, clock_error_us, .. } = connected.record;
            let told_us = told.await.unwrap();
            assert_eq!(told_us - clock_offset_us, begun_at.as_microsecond());
            // By the worker's own clock it is the same instant, as exactly as its clock is known.
            let instant_us = told_us - ahead_us;
            assert!(instant_us.abs_diff(begun_at.as_microsecond()) <= clock_error_us + 1, "{:?}", connected.record);
        }
    }

    #[tokio::test]
    async fn what_a_worker_of_this_machine_keeps_goes_with_the_folder_of_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\n\
                    load = { shape = \"constant\", rate = 1, duration = \"1s\" }\n";
        let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), Path::new("")).unwrap();
        let coordinator = Coordinator {
            inputs: &inputs,
            reach: &Reach::at("http://127.0.0.1"),
            token: "",
            folder: folder.path(),
            on_progress: &|_, _| {},
            on_start: &|_| {},
            objections: &|_, _| Vec::new(),
        };
        // It shows where its files would be, and no address.
        let mut command = Command::new("sh");
        command.args(["-c", "echo \"$TMPDIR\" > \"$TMPDIR/place\""]);
        assert!(coordinator.run(vec![WorkerPlace::Here(command)]).await.is_err());
        let place = std::fs::read_to_string(folder.path().join("place")).unwrap();
        assert_eq!(Path::new(place.trim()), folder.path());
    }

    #[tokio::test]
    async fn a_worker_that_reports_for_ever_is_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut wire = Wire::new(listener.accept().await.unwrap().0).unwrap();
            while wire.send(&ToCoordinator::Progress(Progress::default())).await.is_ok() {}
        });
        let connected = connected(0, address).await;
        let file = tempfile::tempfile().unwrap();
        let collected = connected.collect(file, Duration::from_millis(20), |_| {}).await;
        assert_eq!(collected.unwrap_err(), "it does not end");
    }

    #[test]
    fn a_load_may_last_until_its_last_user_has_taken_all_steps_and_a_little_longer() {
        let plan = "name = \"x\"\nscenarios = [{ scenario = \"own.toml\" }]\nconnections = { timeout = \"3s\" }\n\
                    load = { shape = \"constant\", rate = 1, duration = \"60s\" }\n";
        let longest = |step: &str| {
            let step = format!("[[steps]]\nname = \"get\"\npath = \"/\"\n{step}");
            let inputs = Inputs {
                plan: Plan::parse(plan).unwrap(),
                scenarios: vec![("own.toml".to_owned(), step)],
                fill: None,
                files: crate::inputs::Files::default(),
                folder: PathBuf::new(),
                log: None,
            };
            let coordinator = Coordinator {
                inputs: &inputs,
                reach: &Reach::at("http://127.0.0.1"),
                token: "",
                folder: Path::new(""),
                on_progress: &|_, _| {},
                on_start: &|_| {},
                objections: &|_, _| Vec::new(),
            };
            coordinator.longest_load()
        };
        assert_eq!(longest(""), Duration::from_secs(60 + 3) + BEYOND_PLAN);
        assert_eq!(longest("repeat = 10\npause = \"2s\"\n"), Duration::from_secs(60 + 50) + BEYOND_PLAN);
        // An instant so far away is none.
        assert!(latest(longest("repeat = 4294967295\npause = \"1 year\"\n")) > Instant::now() + DURATION_MAX);
    }

    #[test]
    fn each_second_has_one_number_of_users_whatever_so_many_workers_report() {
        let mut users = ActiveUsers::default();
        for second in 0..1_000 {
            (0..100).for_each(|worker| users.add(f64::from(second) - 0.7, worker, u64::from(worker)));
        }
        assert_eq!(users.seconds.len(), 1_000);
        assert_eq!((users.seconds[0], users.seconds[999]), ((-1, 4_950), (998, 4_950)));
    }
}
