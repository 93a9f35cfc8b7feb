//! Candidates: what is measured. A candidate is a folder with a file `candidate.toml`, which says how
//! it is started, when it is ready, and how its version and its configuration are read.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::machine::sha256_of_file;
use crate::plan::{PlanError, from_toml, invalid};
use crate::record::{CandidateRecord, Program};

/// The variables that commands of candidates inherit: settings of the person that measures do not
/// reach what is measured.
pub const INHERITED: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "JAVA_HOME"];

/// How long one look at a candidate may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The most bytes of an answer or of a program's output.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The most bytes of the end of its log that an error shows.
const LAST_WORDS_BYTES: usize = 2_000;
/// How long a candidate may take to end by itself.
const END_MAX: Duration = Duration::from_secs(30);

/// A candidate, as its file describes it. In commands, `${data}` is an empty folder, `${port}` a free
/// port on loopback, `${folder}` the candidate's own folder, and `${self}` this program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateSpec {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    #[serde(default)]
    pub description: String,
    /// Where its source is.
    #[serde(default)]
    pub repository: Option<String>,
    /// Commands that prepare it, one after the other.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// The command that runs it.
    pub start: Vec<String>,
    /// The path that answers with 2xx when it is ready.
    #[serde(default = "root")]
    pub ready: String,
    /// How long that may take.
    #[serde(default = "a_minute", with = "humantime_serde")]
    pub ready_within: Duration,
    /// The command that prints its version; otherwise the header field `Server` says it.
    #[serde(default)]
    pub version: Option<Vec<String>>,
    /// The command that prints the commit from which it was built.
    #[serde(default)]
    pub commit: Option<Vec<String>>,
    /// The command that prints its configuration in force.
    #[serde(default)]
    pub configuration: Option<Vec<String>>,
    /// The path of its metrics, in Prometheus's text format.
    #[serde(default)]
    pub metrics: Option<String>,
    /// Variables of its environment. It inherits [`INHERITED`] and nothing else.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Further facts for the record: nodes, copies, consistency.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

/// The candidates that come with the program.
const SHIPPED: [(&str, &str); 2] = [
    ("null", include_str!("../candidates/null/candidate.toml")),
    ("penates", include_str!("../candidates/penates/candidate.toml")),
];

/// Why a candidate cannot be measured.
#[derive(Debug, Error)]
pub enum CandidateError {
    /// Its file is invalid.
    #[error(transparent)]
    Spec(#[from] PlanError),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A command fails.
    #[error("candidate {name}: `{command}`: {message}")]
    Command {
        /// The candidate.
        name: String,
        /// The command.
        command: String,
        /// What is wrong.
        message: String,
    },
    /// It is not ready in time, or has ended.
    #[error("candidate {name} {message}; its log ends with:\n{log}")]
    NotReady {
        /// The candidate.
        name: String,
        /// What is wrong.
        message: String,
        /// The end of its log.
        log: String,
    },
}

impl CandidateSpec {
    /// A candidate that comes with the program.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn shipped(name: &str) -> Result<Self, CandidateError> {
        let known = || SHIPPED.map(|(name, _)| name).join(", ");
        let text = SHIPPED.iter().find_map(|(known, text)| (*known == name).then_some(*text));
        let text = text
            .ok_or_else(|| invalid("candidate", format!("name a folder with candidate.toml, or one of {}", known())))?;
        Self::parse(text)
    }

    /// Reads the candidate of a folder.
    ///
    /// # Errors
    /// The file is missing or invalid.
    pub fn read(folder: &Path) -> Result<Self, CandidateError> {
        let path = folder.join("candidate.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| CandidateError::Io { path, error })?;
        Self::parse(&text)
    }

    /// Parses a candidate.
    ///
    /// # Errors
    /// [`CandidateError::Spec`] names the key.
    pub fn parse(text: &str) -> Result<Self, CandidateError> {
        Ok(from_toml("candidate", text)?)
    }
}

/// A candidate that runs. It ends with this value.
pub struct RunningCandidate {
    spec: CandidateSpec,
    places: Places,
    process: Child,
    log: PathBuf,
}

/// What commands are filled with.
#[derive(Clone, Debug)]
struct Places {
    data: PathBuf,
    folder: PathBuf,
    program: PathBuf,
    port: u16,
}

impl Places {
    fn fill(&self, words: &[String]) -> Vec<String> {
        let fill = |word: &String| {
            word.replace("${data}", &self.data.to_string_lossy())
                .replace("${folder}", &self.folder.to_string_lossy())
                .replace("${self}", &self.program.to_string_lossy())
                .replace("${port}", &self.port.to_string())
        };
        words.iter().map(fill).collect()
    }
}

impl RunningCandidate {
    /// Prepares and starts a candidate, and waits until it is ready. `data` is an empty folder, and
    /// `work` gets its log.
    ///
    /// # Errors
    /// [`CandidateError`] says what is wrong, with the end of its log.
    pub async fn start(
        spec: CandidateSpec,
        folder: &Path,
        data: &Path,
        work: &Path,
        program: &Path,
    ) -> Result<Self, CandidateError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| CandidateError::Io { path, error }
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed(work))?;
        let port = listener.local_addr().map_err(failed(work))?.port();
        drop(listener);
        let [data, folder, program] = [data, folder, program].map(Path::to_owned);
        let places = Places { data, folder, program, port };
        for command in &spec.prepare {
            output(&spec, &places.fill(command)).await?;
        }
        let log = work.join("candidate.log");
        let out = File::create(&log).map_err(failed(&log))?;
        let words = places.fill(&spec.start);
        let started = command(&spec, &words)
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(failed(&log))?)
            .stderr(out)
            .kill_on_drop(true)
            .spawn();
        let process = started.map_err(|error| command_error(&spec.name, &words, &error.to_string()))?;
        let mut running = Self { spec, places, process, log };
        running.wait_until_ready().await?;
        Ok(running)
    }

    async fn wait_until_ready(&mut self) -> Result<(), CandidateError> {
        let deadline = Instant::now() + self.spec.ready_within;
        let url = format!("{}{}", self.url(), self.spec.ready);
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
        format!("http://127.0.0.1:{}", self.places.port)
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
        Some(format!("{}{}", self.url(), self.spec.metrics.as_ref()?))
    }

    /// What is known about it.
    ///
    /// # Errors
    /// A command that should print something fails.
    pub async fn record(&self) -> Result<CandidateRecord, CandidateError> {
        let spec = &self.spec;
        let of = async |command: &Option<Vec<String>>| -> Result<Option<String>, CandidateError> {
            let Some(command) = command else { return Ok(None) };
            let printed = output(spec, &self.places.fill(command)).await?;
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
            command: Some(self.places.fill(&spec.start)),
            configuration: of(&spec.configuration).await?,
            facts: spec.facts.clone().into_iter().collect(),
        })
    }

    /// Asks it to end, and waits for it.
    pub async fn end(mut self) {
        let id = self.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(id) = id {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        if timeout(END_MAX, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
    }
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

struct Seen {
    is_success: bool,
    server: Option<String>,
}

/// One look at a candidate.
async fn look(url: &str) -> Result<Seen, Box<dyn std::error::Error + Send + Sync>> {
    let look = async {
        let uri: http::Uri = url.parse()?;
        let authority = uri.authority().ok_or("no host")?;
        let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = http::Request::get(path).header(http::header::HOST, authority.as_str());
        let response = sender.send_request(request.body(Empty::<bytes::Bytes>::new())?).await?;
        let server = response.headers().get(http::header::SERVER);
        let server = server.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let is_success = response.status().is_success();
        Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?;
        connection.abort();
        Ok(Seen { is_success, server })
    };
    timeout(LOOK_TIMEOUT, look).await.map_err(|_| "no answer")?
}

fn command(spec: &CandidateSpec, words: &[String]) -> Command {
    let (program, arguments) = words.split_first().map_or(("", [].as_slice()), |(first, rest)| (first.as_str(), rest));
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.envs(&spec.environment);
    command
}

fn command_error(name: &str, words: &[String], message: &str) -> CandidateError {
    let (name, command, message) = (name.to_owned(), words.join(" "), message.trim().to_owned());
    CandidateError::Command { name, command, message }
}

/// The output of a command that must succeed.
async fn output(spec: &CandidateSpec, words: &[String]) -> Result<String, CandidateError> {
    let done = command(spec, words).stdin(Stdio::null()).kill_on_drop(true).output().await;
    let done = done.map_err(|error| command_error(&spec.name, words, &error.to_string()))?;
    if !done.status.success() {
        return Err(command_error(&spec.name, words, &String::from_utf8_lossy(&done.stderr)));
    }
    let len = done.stdout.len().min(ANSWER_BYTES_MAX);
    Ok(String::from_utf8_lossy(&done.stdout[..len]).trim().to_owned())
}

fn root() -> String {
    "/".to_owned()
}

fn a_minute() -> Duration {
    Duration::from_secs(60)
}
