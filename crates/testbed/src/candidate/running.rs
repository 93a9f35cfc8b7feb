//! A candidate that runs.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::command::{self, Places, command, command_error, output};
use super::look::look;
use super::{Candidate, CandidateError, CandidateSpec};
use crate::machine::sha256_of_file;
use crate::record::{CandidateRecord, Program};

/// The pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The most bytes of the end of its log that an error shows.
const LAST_WORDS_BYTES: usize = 2_000;
/// How long a candidate may take to end by itself.
const END_MAX: Duration = Duration::from_secs(30);
/// Variables with one of these in their names are secrets.
const SECRETS: [&str; 4] = ["PASSWORD", "SECRET", "TOKEN", "KEY"];

/// A candidate that runs. It ends with this value.
pub struct RunningCandidate {
    pub(super) spec: CandidateSpec,
    pub(super) places: Places,
    process: Child,
    /// The group of its processes, which may outlive the one that was started.
    group: Option<Pid>,
    /// The groups of what events have left running.
    pub(super) groups: Mutex<Vec<Pid>>,
    log: PathBuf,
}

impl RunningCandidate {
    /// Prepares and starts a candidate, and waits until it is ready. `data` is its folder, which is made
    /// if it is missing. `work` gets its log.
    ///
    /// # Errors
    /// [`CandidateError`] says what is wrong, with the end of its log.
    pub async fn start(
        candidate: &Candidate,
        data: &Path,
        work: &Path,
        program: &Path,
    ) -> Result<Self, CandidateError> {
        let spec = candidate.spec.clone();
        let programs = command::missing(&spec.needs);
        if !programs.is_empty() {
            return Err(CandidateError::Missing { name: spec.name, programs, install: spec.install });
        }
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| CandidateError::Io { path, error }
        };
        let folder = candidate.folder(work)?;
        std::fs::create_dir_all(data).map_err(failed(data))?;
        let ports = free_ports().map_err(failed(work))?;
        // Programs may run in another folder.
        let data = std::path::absolute(data).map_err(failed(data))?;
        let places = Places { data, folder, program: program.to_owned(), ports };
        for command in &spec.prepare {
            output(&spec, &places.words(command)).await?;
        }
        let log = work.join("candidate.log");
        let out = File::create(&log).map_err(failed(&log))?;
        let words = places.words(&spec.start);
        let started = command(&spec, &words)
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(failed(&log))?)
            .stderr(out)
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let process = started.map_err(|error| command_error(&spec.name, &words, &error.to_string()))?;
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let mut running = Self { spec, places, process, group, groups: Mutex::default(), log };
        running.wait_until_ready().await?;
        Ok(running)
    }

    async fn wait_until_ready(&mut self) -> Result<(), CandidateError> {
        let deadline = Instant::now() + self.spec.ready_within;
        let url = self.address(self.spec.ready.as_deref().unwrap_or_default());
        loop {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(self.not_ready(&format!("has ended ({status})")));
            }
            if timeout_at(deadline, look(&url)).await.is_ok_and(|seen| seen.is_ok_and(|seen| seen.is_success)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(self.not_ready(&format!("is not ready within {:?}", self.spec.ready_within)));
            }
            sleep_until(Instant::now() + LOOK_AGAIN).await;
        }
    }

    fn not_ready(&self, message: &str) -> CandidateError {
        let said = std::fs::read(&self.log).unwrap_or_default();
        let end = &said[said.len().saturating_sub(LAST_WORDS_BYTES)..];
        let log = String::from_utf8_lossy(end).into_owned();
        CandidateError::NotReady { name: self.spec.name.clone(), message: message.to_owned(), log }
    }

    /// Where it answers.
    pub fn url(&self) -> String {
        self.places.fill(&self.spec.url)
    }

    /// A whole address, or a path where it answers.
    fn address(&self, place: &str) -> String {
        match place.contains("://") {
            true => self.places.fill(place),
            false => format!("{}{place}", self.url()),
        }
    }

    /// Its process id.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Where its metrics are.
    pub fn metrics_url(&self) -> Option<String> {
        Some(self.address(self.spec.metrics.as_ref()?))
    }

    /// What is known about it.
    ///
    /// # Errors
    /// A command that should print something fails.
    pub async fn record(&self) -> Result<CandidateRecord, CandidateError> {
        let spec = &self.spec;
        let of = async |command: &Option<Vec<String>>| -> Result<Option<String>, CandidateError> {
            let Some(command) = command else { return Ok(None) };
            let printed = output(spec, &self.places.words(command)).await?;
            Ok(Some(printed).filter(|printed| !printed.is_empty()))
        };
        let commit = of(&spec.commit).await?;
        let version = match of(&spec.version).await? {
            Some(version) => version,
            None => look(&self.url()).await.ok().and_then(|seen| seen.server).unwrap_or_default(),
        };
        let exe = self.id().map(|id| PathBuf::from(format!("/proc/{id}/exe")));
        let program = Program {
            name: spec.name.clone(),
            version,
            sha256: exe.and_then(|exe| sha256_of_file(&exe).ok()),
            is_dirty: commit.as_ref().map(|commit| commit.ends_with("-dirty")),
            commit,
            repository: spec.repository.clone(),
        };
        Ok(CandidateRecord {
            program,
            url: self.url(),
            command: Some(self.places.words(&spec.start)),
            configuration: of(&spec.configuration).await?,
            facts: spec.facts.clone().into_iter().chain(environment(spec)).collect(),
        })
    }

    /// Asks it to end, and waits for it.
    pub async fn end(mut self) {
        for group in self.groups.get_mut().iter().copied().chain(self.group) {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::TERM);
        }
        // What does not end is killed with this value.
        let _ = timeout(END_MAX, self.process.wait()).await;
    }
}

impl Drop for RunningCandidate {
    /// Processes that it has started end with it.
    fn drop(&mut self) {
        for group in self.groups.get_mut().iter().copied().chain(self.group) {
            // There may be none left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// The variables that the candidate's file sets, as facts. Those that look like secrets are hidden.
fn environment(spec: &CandidateSpec) -> impl Iterator<Item = (String, String)> {
    spec.environment.iter().map(|(name, value)| {
        let is_secret = SECRETS.iter().any(|word| name.to_uppercase().contains(word));
        let value = if is_secret { "(hidden)" } else { value.as_str() };
        (format!("environment {name}"), value.to_owned())
    })
}

/// What is known about a candidate that somebody else has started.
pub async fn found(url: &str) -> CandidateRecord {
    let server = look(url).await.ok().and_then(|seen| seen.server).unwrap_or_default();
    let (name, version) = server.split_once('/').unwrap_or((&server, ""));
    let program = Program { name: name.to_owned(), version: version.to_owned(), ..Program::default() };
    CandidateRecord { program, url: url.to_owned(), ..CandidateRecord::default() }
}

impl CandidateRecord {
    /// Adds what the process of a candidate shows: its program and its command line.
    pub(crate) fn describe_process(&mut self, id: u32) {
        self.program.sha256 = sha256_of_file(Path::new(&format!("/proc/{id}/exe"))).ok();
        let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words = words.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        self.command = (!words.is_empty()).then_some(words);
    }
}

/// Two ports that nobody uses now.
fn free_ports() -> std::io::Result<[u16; 2]> {
    let listeners = [TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?];
    let [one, two] = listeners.map(|listener| listener.local_addr().map(|address| address.port()));
    Ok([one?, two?])
}
