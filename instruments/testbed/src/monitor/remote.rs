//! Monitors on other machines: what a coordinator and a monitor say to each other. Samples and lines of logs
//! stay on the monitor's machine, in files, until the load has ended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{BUSY_WINDOW, MonitorError, Settings, answering, others_during, run};
use crate::beside::{Kept, LOG_BYTES_MAX, LOGS_MAX, Tail, keep};
use crate::caller::{CallerError, Host, clock, instant};
use crate::coordinator::{BEYOND_PLAN, ask, compare_clocks, latest, next_word};
use crate::handshake::{Greeted, greet};
use crate::record::{Machine, MonitorRecord, ProcessRecord, Program};
use crate::wire::{EVENTS_BYTES, Progress, ToCoordinator, ToWorker, Wire, WireError};

/// How long a monitor may take to be there. It asks nodes of Cassandra first, and then computes digests of
/// programs and watches its machine.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// A monitor says something each second. After this long without a word it is lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long it waits if no coordinator can be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// A monitor that waits for coordinators.
pub struct RemoteMonitor {
    /// Coordinators must know this.
    pub token: String,
    /// Its program, for the record.
    pub program: Program,
    /// Its machine, for the record.
    pub machine: Machine,
    /// What it samples.
    pub settings: Settings,
    /// Logs of the candidate that it follows while a load runs, [`LOGS_MAX`] at most. Coordinators get what is
    /// added to them.
    pub logs: Vec<PathBuf>,
}

/// Why a monitor has not served a coordinator.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The coordinator is not served to the end.
    #[error(transparent)]
    Caller(#[from] CallerError),
    /// It cannot sample.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// The operating system refuses something.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<WireError> for RemoteError {
    fn from(error: WireError) -> Self {
        CallerError::from(error).into()
    }
}

impl RemoteMonitor {
    /// Serves coordinators, one after the other.
    pub async fn serve(&self, listener: TcpListener, mut report: impl FnMut(&RemoteError)) -> std::convert::Infallible {
        loop {
            let host = Host { token: &self.token, program: &self.program, machine: &self.machine };
            let served = match host.wait_for_one(&listener, |error| report(&error.into())).await {
                Ok(wire) => self.serve_one(wire).await,
                Err(error) => {
                    tokio::time::sleep(AFTER_FAILURE).await;
                    Err(error.into())
                }
            };
            if let Err(error) = &served {
                report(error);
            }
        }
    }

    async fn serve_one(&self, mut wire: Wire) -> Result<(), RemoteError> {
        let watched = self.watch(&mut wire).await;
        if let Err(error) = &watched {
            // It may have gone: that is why, then.
            let _ = wire.send(&ToCoordinator::Refused(error.to_string())).await;
        }
        watched
    }

    /// Processors that others use now, if this monitor can tell them apart from the candidate.
    async fn others(&self) -> Option<f64> {
        let Settings { watches, cgroups, others, .. } = &self.settings;
        match others {
            true => others_during(BUSY_WINDOW, watches.clone(), cgroups.clone()).await,
            false => None,
        }
    }

    /// What the processes of the candidate show.
    async fn processes(&self) -> Result<Vec<ProcessRecord>, RemoteError> {
        let pids: Vec<u32> = self.settings.watches.iter().map(|watch| watch.pid).collect();
        let find = move || pids.into_iter().map(ProcessRecord::find).collect::<Vec<_>>();
        Ok(tokio::task::spawn_blocking(find).await.map_err(io::Error::other)?)
    }

    async fn watch(&self, wire: &mut Wire) -> Result<(), RemoteError> {
        let (nodes, not_sampled) = answering(self.settings.nodes.clone()).await;
        let settings = Settings { nodes, ..self.settings.clone() };
        let start: Instant = loop {
            // Workers may make a fill first, which may take days. A coordinator that has vanished meanwhile
            // is found by the keepalive of its connection.
            match wire.receive().await? {
                ToWorker::Clock => wire.send(&clock()).await?,
                ToWorker::Others => wire.send(&ToCoordinator::Others(self.others().await)).await?,
                ToWorker::Processes => wire.send(&ToCoordinator::Processes(self.processes().await?)).await?,
                ToWorker::Watch { unix_us } => break instant(unix_us).into(),
                _ => return Err(CallerError::Protocol("a monitor makes no load").into()),
            }
        };
        let (end, ended) = watch::channel(false);
        let mut also_ended = ended.clone();
        let tails = self.logs.iter().take(LOGS_MAX).cloned().map(Tail::new).collect::<io::Result<Vec<_>>>()?;
        // A file without a name: it goes with its value.
        let mut csv = tempfile::tempfile()?;
        let sampling = async {
            let until = async {
                // If the sender has gone, it is over too.
                let _ = also_ended.wait_for(|is_over| *is_over).await;
            };
            Ok::<_, RemoteError>(run(&settings, start, &csv, until).await?)
        };
        let talking = async {
            let mut ticks = interval(Duration::from_secs(1));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                tokio::select! {
                    _ = ticks.tick() => wire.send(&ToCoordinator::Progress(Progress::default())).await?,
                    said = wire.receive() => match said? {
                        ToWorker::EndWatch => break,
                        _ => return Err(CallerError::Protocol("it speaks while the load runs").into()),
                    },
                }
            }
            // They wait for this.
            end.send_replace(true);
            Ok(())
        };
        let following = async { Ok::<_, RemoteError>(keep(tails, start, ended).await) };
        // Whatever fails first ends the others.
        let (_, (), tails) = tokio::try_join!(sampling, talking, following)?;
        let not_kept = tails.iter().flat_map(Tail::not_kept);
        wire.send(&ToCoordinator::NotSampled(not_sampled.into_iter().chain(not_kept).collect())).await?;
        csv.seek(SeekFrom::Start(0))?;
        ship(wire, csv, ToCoordinator::Events).await?;
        for tail in tails {
            let (name, lengths) = (tail.name(), tail.lengths().clone());
            wire.send(&ToCoordinator::Log { name, lengths }).await?;
            ship(wire, tail.into_reader()?, ToCoordinator::LogPiece).await?;
        }
        Ok(wire.send(&ToCoordinator::End).await?)
    }
}

/// Sends a file in pieces.
async fn ship(
    wire: &mut Wire,
    mut file: impl Read,
    message: impl Fn(Bytes) -> ToCoordinator,
) -> Result<(), RemoteError> {
    loop {
        let mut piece = Vec::with_capacity(EVENTS_BYTES);
        if (&mut file).take(EVENTS_BYTES as u64).read_to_end(&mut piece)? == 0 {
            return Ok(());
        }
        wire.send(&message(piece.into())).await?;
    }
}

/// A log of the candidate that a monitor has followed.
pub(crate) struct ShippedLog {
    /// Its file on the monitor's machine.
    pub name: String,
    /// What was added to it while the load ran.
    pub kept: Kept,
    bytes: u64,
}

impl ShippedLog {
    fn new(name: String, lengths: Vec<(f64, u64)>) -> io::Result<Self> {
        Ok(Self { name, kept: Kept { lengths, ..Kept::new()? }, bytes: 0 })
    }

    /// Adds a piece. Whatever a monitor sends, it fills no disk.
    fn add(&mut self, piece: &[u8]) -> Result<(), String> {
        self.bytes += piece.len() as u64;
        if self.bytes > LOG_BYTES_MAX {
            return Err(format!("it sends more than {LOG_BYTES_MAX} bytes of a log"));
        }
        self.kept.file.write_all(piece).map_err(|error| error.to_string())
    }
}

/// A monitor on another machine, as the coordinator sees it.
pub(crate) struct Watcher {
    wire: Wire,
    /// For the record.
    pub record: MonitorRecord,
    /// Its machine.
    pub machine: Machine,
}

impl Watcher {
    /// Connects to a monitor.
    pub async fn connect(address: &str, token: &str) -> Result<Self, String> {
        let connecting = async {
            let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
            let mut wire = Wire::new(stream).map_err(|error| error.to_string())?;
            let Greeted { program, machine, .. } = greet(&mut wire, token).await?;
            let (clock_offset_us, clock_error_us) = compare_clocks(&mut wire).await?;
            let ToCoordinator::Processes(processes) = ask(&mut wire, &ToWorker::Processes).await? else {
                return Err("it does not say which processes it watches".to_owned());
            };
            let ToCoordinator::Others(busy_before) = ask(&mut wire, &ToWorker::Others).await? else {
                return Err("it does not say what others use".to_owned());
            };
            let machine = Machine { busy_before, ..machine };
            let record = MonitorRecord {
                address: address.to_owned(),
                machine: machine.name.clone(),
                clock_offset_us,
                clock_error_us,
                program,
                busy_during: None,
                not_sampled: Vec::new(),
                processes,
            };
            Ok(Self { wire, record, machine })
        };
        timeout(HELLO_TIMEOUT, connecting).await.unwrap_or_else(|_| Err("it does not answer in time".to_owned()))
    }

    /// Lets it sample from an instant on until `is_over` becomes true. Writes its samples as CSV. Returns the
    /// logs that it has followed.
    pub async fn watch(
        &mut self,
        start: Instant,
        mut is_over: watch::Receiver<bool>,
        mut csv: File,
    ) -> Result<Vec<ShippedLog>, String> {
        let message = |error: WireError| error.to_string();
        // Clocks drift while a fill is made.
        let compared = timeout(SILENCE_MAX, compare_clocks(&mut self.wire)).await;
        (self.record.clock_offset_us, self.record.clock_error_us) =
            compared.map_err(|_| "it is silent".to_owned())??;
        let left_us = start.saturating_duration_since(Instant::now()).as_micros() as i64;
        let there_us = Timestamp::now().as_microsecond() + left_us;
        let unix_us = there_us.saturating_add(self.record.clock_offset_us);
        self.wire.send(&ToWorker::Watch { unix_us }).await.map_err(message)?;
        // The load ends in any case. What was sampled is sent in no longer time.
        let (begun, mut is_ended, mut end) = (Instant::now(), false, latest(Duration::MAX));
        let mut logs = Vec::<ShippedLog>::new();
        loop {
            let said = tokio::select! {
                said = next_word(&mut self.wire, end) => said?,
                _ = is_over.wait_for(|is_over| *is_over), if !is_ended => {
                    is_ended = true;
                    end = latest(begun.elapsed().saturating_add(BEYOND_PLAN));
                    self.wire.send(&ToWorker::EndWatch).await.map_err(message)?;
                    continue;
                }
            };
            match said {
                ToCoordinator::Progress(_) => {}
                ToCoordinator::NotSampled(what) => self.record.not_sampled = what,
                ToCoordinator::Events(piece) => csv.write_all(&piece).map_err(|error| error.to_string())?,
                ToCoordinator::Log { name, lengths } if logs.len() < LOGS_MAX => {
                    logs.push(ShippedLog::new(name, lengths).map_err(|error| error.to_string())?);
                }
                ToCoordinator::LogPiece(piece) if !logs.is_empty() => {
                    logs.last_mut().map_or(Ok(()), |log| log.add(&piece))?;
                }
                ToCoordinator::End => return Ok(logs),
                ToCoordinator::Refused(why) => return Err(why),
                _ => return Err("it does not keep to the protocol".to_owned()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::monitor::Watch;

    /// A monitor of some processes, and its address.
    async fn monitor(watches: Vec<Watch>) -> (tokio::task::JoinHandle<()>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let monitor = RemoteMonitor {
            token: "secret".to_owned(),
            program: Program::default(),
            machine: Machine::default(),
            settings: Settings {
                data: None,
                others: !watches.is_empty(),
                watches,
                cgroups: Vec::new(),
                metrics: None,
                nodes: Vec::new(),
                interval: Duration::from_secs(1),
            },
            logs: Vec::new(),
        };
        (tokio::spawn(async move { match monitor.serve(listener, |_| {}).await {} }), address)
    }

    /// What is known of a process that was started just now. For a moment it has no command line.
    fn started(pid: u32) -> ProcessRecord {
        let begun = Instant::now();
        loop {
            let known = ProcessRecord::find(pid);
            if known.command.is_some() {
                return known;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{known:?}");
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_coordinator_learns_what_the_processes_of_the_candidate_are_and_what_others_use() {
        let mut process = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let known = started(process.id());
        let watches = [process.id(), u32::MAX].map(|pid| Watch { name: format!("process-{pid}"), pid });
        let (_kept, address) = monitor(watches.to_vec()).await;
        let watcher = Watcher::connect(&address, "secret").await;
        process.kill().unwrap();
        process.wait().unwrap();

        let Watcher { record, machine, .. } = watcher.unwrap();
        assert_eq!(known.command.as_deref().unwrap(), ["sleep", "600"]);
        assert!(!known.name.is_empty() && known.sha256.is_some(), "{known:?}");
        // There is no other one.
        assert_eq!(record.processes, [known, ProcessRecord { pid: u32::MAX, ..ProcessRecord::default() }]);
        assert!(machine.busy_before.is_some_and(|busy| busy >= 0.0), "{machine:?}");

        // Without processes it cannot tell others apart.
        let (_kept, address) = monitor(Vec::new()).await;
        let Watcher { record, machine, .. } = Watcher::connect(&address, "secret").await.unwrap();
        assert_eq!((record.processes.len(), machine.busy_before), (0, None));
    }

    #[tokio::test]
    async fn a_monitor_waits_for_the_load_however_long_a_fill_takes() {
        let (_kept, address) = monitor(Vec::new()).await;
        let mut watcher = Watcher::connect(&address, "secret").await.unwrap();
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60 * 24 * 3_600)).await;
        tokio::time::resume();
        compare_clocks(&mut watcher.wire).await.unwrap();
    }
}
