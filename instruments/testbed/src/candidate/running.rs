//! A candidate that runs.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::command::{self, Lifeline, Places, command_error, guarded, output};
use super::look::{Seen, look, look_for_version};
use super::{Candidate, CandidateError, CandidateSpec, FolderSpec, Versions};
use crate::beside::{Lengths, Log};
use crate::machine::sha256_of_file;
use crate::monitor::Groups;
use crate::plan::PlanError;
use crate::reach::{self, Reach};
use crate::record::{CandidateRecord, ProcessRecord, Program};

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
    /// The group of its processes, which may outlive the one that was started, and those of events that run
    /// or have left something running.
    pub(super) groups: Groups,
    /// Its processes do not outlive these: the first is its own, and the others are those of events that have
    /// left something running.
    pub(super) lifelines: Mutex<Vec<Lifeline>>,
    log: PathBuf,
    reach: Reach,
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
        let mut spec = candidate.spec.clone();
        if let Some(reason) = spec.not_run {
            return Err(CandidateError::NotRun { name: spec.name, reason });
        }
        let folders = spec.folders.values().filter_map(FolderSpec::missing);
        let programs: Vec<_> = command::missing(&spec.needs).into_iter().chain(folders).collect();
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
        let named =
            |(name, spec): (&String, &FolderSpec)| Some((name.clone(), std::path::absolute(spec.folder()?).ok()?));
        let folders = spec.folders.iter().filter_map(named).collect();
        let places = Places { data, folder, program: program.to_owned(), ports, folders };
        // So its record has them too.
        let given = |(name, value): &(String, String)| places.setting(&candidate.spec.setting, name, value);
        spec.start.extend(candidate.settings.iter().flat_map(given));
        for command in &spec.prepare {
            output(&spec, &places.words(command)).await?;
        }
        let log = work.join("candidate.log");
        let out = File::create(&log).map_err(failed(&log))?;
        let words = places.words(&spec.start);
        let not_started = |error: std::io::Error| command_error(&spec.name, &words, &error.to_string());
        let command = guarded(&spec, &words).map_err(not_started)?;
        let (process, lifeline) = command::start(command, out).await.map_err(not_started)?;
        let (groups, reach) = (Groups::default(), Reach::default());
        if let Some(group) = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            groups.add(group);
        }
        let lifelines = Mutex::new(vec![lifeline]);
        let mut running = Self { spec, places, process, groups, lifelines, log, reach };
        running.wait_until_ready().await?;
        Ok(running)
    }

    async fn wait_until_ready(&mut self) -> Result<(), CandidateError> {
        let deadline = Instant::now() + self.spec.ready_within;
        let looked_at = self.ready_urls();
        loop {
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(self.not_ready(&format!("has ended ({status})")));
            }
            // The candidate may make its certificate when it starts.
            let why = match self.reach_of_spec() {
                Err(error) => error.to_string(),
                Ok(reach) => match timeout_at(deadline, are_ready(&looked_at, &reach)).await {
                    Ok(Ok(())) => {
                        self.reach = reach;
                        return Ok(());
                    }
                    Ok(Err(why)) => why,
                    Err(_) => "no answer".to_owned(),
                },
            };
            if Instant::now() >= deadline {
                let message = format!("is not ready within {:?} ({why})", self.spec.ready_within);
                return Err(self.not_ready(&message));
            }
            sleep_until(Instant::now() + LOOK_AGAIN).await;
        }
    }

    /// The addresses that answer when it is ready.
    fn ready_urls(&self) -> Vec<String> {
        let place = self.spec.ready.as_deref().unwrap_or_default();
        let further = self.spec.further_urls.iter().filter(|_| !place.contains("://"));
        let further = further.map(|url| format!("{}{place}", self.places.fill(url)));
        std::iter::once(self.address(place)).chain(further).collect()
    }

    fn reach_of_spec(&self) -> Result<Reach, PlanError> {
        let Self { spec, places, .. } = self;
        let path = |name: &str| places.folder.join(places.fill(name));
        let urls = std::iter::once(&spec.url).chain(&spec.further_urls).map(|url| places.fill(url));
        Ok(Reach {
            urls: urls.collect(),
            headers: reach::values("candidate: headers", &spec.headers, |name| Ok(path(name)))?,
            trust: spec.tls.trust("candidate: tls", path)?,
        })
    }

    /// How it is reached.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The folder of its control group.
    ///
    /// # Errors
    /// The command that should print it fails.
    pub async fn cgroup(&self) -> Result<Option<PathBuf>, CandidateError> {
        let Some(command) = &self.spec.cgroup else { return Ok(None) };
        let printed = output(&self.spec, &self.places.words(command)).await?;
        Ok(Some(printed).filter(|printed| !printed.is_empty()).map(PathBuf::from))
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

    /// The groups of its processes. Events change them.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its logs: what its processes print, and further ones, which may not be there.
    pub(crate) fn logs(&self) -> impl Iterator<Item = Log> {
        let further = self.spec.logs.iter().map(|log| {
            let path = PathBuf::from(self.places.fill(log));
            // The folder of its data is often another one in each run.
            let name = path.strip_prefix(&self.places.data).unwrap_or(&path).display().to_string();
            Log { source: Some(name), path, lengths: Lengths::new() }
        });
        std::iter::once(Log { source: None, path: self.log.clone(), lengths: Lengths::new() }).chain(further)
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
        let (commit, tag) = (self.printed(spec.commit.as_deref()).await?, self.printed(spec.tag.as_deref()).await?);
        let seen = self.seen().await;
        let versions = self.versions_with(seen.as_ref()).await?;
        let version = versions.program.clone().or(versions.served.clone()).unwrap_or_default();
        let exe = match &spec.program {
            Some(program) => Some(PathBuf::from(self.places.fill(program))),
            None => self.id().map(|id| PathBuf::from(format!("/proc/{id}/exe"))),
        };
        let mut program = Program {
            name: spec.name.clone(),
            version,
            tag,
            sha256: exe.and_then(|exe| sha256_of_file(&exe).ok()),
            repository: spec.repository.clone(),
            ..Program::default()
        };
        program.set_commit(commit);
        Ok(CandidateRecord {
            program,
            url: self.url(),
            command: Some(self.places.words(&spec.start)),
            configuration: self.printed(spec.configuration.as_deref()).await?,
            facts: {
                let own = spec.facts.clone().into_iter().chain(environment(spec)).chain(versions.facts(&spec.name));
                own.chain(facts(&self.reach, seen)).collect()
            },
        })
    }

    /// Its versions now.
    ///
    /// # Errors
    /// The command that should print it fails.
    pub async fn versions(&self) -> Result<Versions, CandidateError> {
        self.versions_with(self.seen().await.as_ref()).await
    }

    /// What it shows now, with the version that it reports.
    async fn seen(&self) -> Option<Seen> {
        look_for_version(&self.url(), self.metrics_url().as_deref(), &self.reach).await
    }

    async fn versions_with(&self, seen: Option<&Seen>) -> Result<Versions, CandidateError> {
        let program = self.printed(self.spec.version.as_deref()).await?;
        Ok(Versions { program, served: seen.and_then(|seen| seen.server.clone()) })
    }

    /// What a command prints, if there is one and it prints something.
    async fn printed(&self, command: Option<&[String]>) -> Result<Option<String>, CandidateError> {
        let Some(command) = command else { return Ok(None) };
        let printed = output(&self.spec, &self.places.words(command)).await?;
        Ok(Some(printed).filter(|printed| !printed.is_empty()))
    }

    /// The value of a setting that is in force; `None` if it does not say.
    ///
    /// # Errors
    /// The command that should print it fails.
    pub async fn setting(&self, name: &str) -> Result<Option<String>, CandidateError> {
        let Some(command) = &self.spec.setting_in_force else { return Ok(None) };
        let printed = output(&self.spec, &self.places.setting(command, name, "")).await?;
        let last = printed.lines().last().map(|line| line.trim().to_owned());
        Ok(last.filter(|value| !value.is_empty()))
    }

    /// Asks it to end, and waits for it.
    pub async fn end(mut self) {
        if let Some(stop) = &self.spec.stop {
            // If that fails, the signal asks again.
            let _ = timeout(END_MAX, output(&self.spec, &self.places.words(stop))).await;
        }
        for group in self.groups.all().into_iter().rev() {
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
        for group in self.groups.all().into_iter().rev() {
            // There may be none left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Whether all addresses answer with success; otherwise, which one does not.
async fn are_ready(urls: &[String], reach: &Reach) -> Result<(), String> {
    for url in urls {
        match look(url, reach).await {
            Ok(seen) if seen.is_success => {}
            Ok(_) => return Err(format!("{url}: no success")),
            Err(error) => return Err(format!("{url}: {error}")),
        }
    }
    Ok(())
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
pub async fn found(reach: &Reach) -> CandidateRecord {
    let seen = look_at_stranger(reach).await;
    let server = seen.as_ref().and_then(|seen| seen.server.clone()).unwrap_or_default();
    let (name, version) = server.split_once('/').unwrap_or((&server, ""));
    let program = Program { name: name.to_owned(), version: version.to_owned(), ..Program::default() };
    let facts = facts(reach, seen).collect();
    CandidateRecord { program, url: reach.url().to_owned(), facts, ..CandidateRecord::default() }
}

/// The version that a server reports, if it answers.
pub(crate) async fn served_version(reach: &Reach) -> Option<String> {
    look_at_stranger(reach).await?.server
}

/// What a server shows that somebody else has started. Its metrics may be where they usually are.
async fn look_at_stranger(reach: &Reach) -> Option<Seen> {
    let url = reach.url();
    let metrics = url.starts_with("http").then(|| format!("{}/metrics", url.trim_end_matches('/')));
    look_for_version(url, metrics.as_deref(), reach).await
}

/// How it is reached, as facts.
fn facts(reach: &Reach, seen: Option<Seen>) -> impl Iterator<Item = (String, String)> {
    let tls = seen.and_then(|seen| seen.tls).map(|tls| ("TLS negotiated".to_owned(), tls));
    reach.facts().into_iter().chain(tls)
}

impl CandidateRecord {
    /// Adds what a process of the candidate shows: its program and its command line. A server that does not
    /// name itself has the name of the program.
    pub(crate) fn describe(&mut self, process: &ProcessRecord) {
        self.program.sha256.clone_from(&process.sha256);
        if self.program.name.is_empty() {
            self.program.name.clone_from(&process.name);
        }
        self.command.clone_from(&process.command);
    }

    /// The same of one of several processes: of the first whose program has the name that the server
    /// reports, or else of the first.
    pub(crate) fn describe_one_of(&mut self, processes: &[&ProcessRecord]) {
        let named = processes.iter().find(|process| process.name == self.program.name);
        if let Some(process) = named.or(processes.first()) {
            self.describe(process);
        }
    }
}

/// Four ports that nobody uses now.
fn free_ports() -> std::io::Result<[u16; 4]> {
    let listeners = (0..4).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>()?;
    let mut ports = [0; 4];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_processes_the_candidate_is_the_one_that_has_the_name_of_the_server_or_else_the_first() {
        let process = |pid: u32, name: &str| ProcessRecord {
            pid,
            name: name.to_owned(),
            sha256: Some(format!("{pid:02x}")),
            command: Some(vec![name.to_owned(), "serve".to_owned()]),
        };
        let (java, penates) = (process(1, "java"), process(2, "penates"));
        let described = |name: &str, processes: &[&ProcessRecord]| {
            let program = Program { name: name.to_owned(), ..Program::default() };
            let mut record = CandidateRecord { program, ..CandidateRecord::default() };
            record.describe_one_of(processes);
            (record.program.name, record.program.sha256, record.command.map(|words| words.join(" ")))
        };
        let known = |name: &str, sha256: &str, command: &str| {
            (name.to_owned(), Some(sha256.to_owned()), Some(command.to_owned()))
        };
        assert_eq!(described("penates", &[&java, &penates]), known("penates", "02", "penates serve"));
        assert_eq!(described("", &[&java, &penates]), known("java", "01", "java serve"));
        assert_eq!(described("nginx", &[&java, &penates]), known("nginx", "01", "java serve"));
        assert_eq!(described("nginx", &[]), ("nginx".to_owned(), None, None));
    }
}
