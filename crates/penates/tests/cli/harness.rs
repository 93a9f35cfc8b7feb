//! Runs the binary: commands that end, servers that run, and the sample volumes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpSocket;

/// A small sample volume: 24 pages.
pub const SMALL: &str = "psia.ark:/13960/t0ks80527";
/// Another small one: 92 pages.
pub const OTHER: &str = "uc2.ark:/13960/t8ff3zh99";
/// The time limit of any step before a test gives up: far longer than it takes, on any machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The root of the repository. Tests of the instruments have this file too.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pairtree of the sample volumes.
pub fn samples() -> PathBuf {
    workspace().join("samples/pairtree")
}

/// The folder of one sample volume.
pub fn sample_folder(id: &str) -> PathBuf {
    samples().join(hathi::pairtree_path(&hathi::VolumeId::parse(id).unwrap()))
}

/// A command of Penates with a clean environment.
pub fn penates<S: AsRef<str>>(args: &[S]) -> Command {
    command(crate::penates_program(), args)
}

/// A command with a clean environment.
pub fn command<S: AsRef<str>>(program: &Path, args: &[S]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PENATES_")) {
        command.env_remove(name);
    }
    command.args(args.iter().map(AsRef::as_ref)).stdin(Stdio::null());
    command
}

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    /// Runs a command.
    pub fn of(mut command: Command) -> Self {
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code().unwrap_or(-1), stdout: output.stdout, stderr }
    }

    /// Fails the test unless the exit code is `code`.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", String::from_utf8_lossy(&self.stdout), self.stderr);
        self
    }

    /// Its standard output.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Its standard output as one JSON value per line.
    pub fn json_lines(&self) -> Vec<Value> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
            .collect()
    }

    /// Its standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        let mut lines = self.json_lines();
        assert_eq!(lines.len(), 1, "{}", self.text());
        lines.remove(0)
    }
}

/// A store in a temporary folder.
pub struct TestStore {
    folder: TempDir,
}

impl TestStore {
    /// A path without a store.
    pub fn vacant() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A store with these sample volumes.
    pub fn with(ids: &[&str]) -> Self {
        let store = Self::vacant();
        for id in ids {
            store.run(&["import", sample_folder(id).to_str().unwrap()]).ends_with(0);
        }
        store
    }

    /// Its data folder.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A path beside the data folder for other files.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command on this store. One that writes makes the store if there is none.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = penates(args);
        command.arg("--store").arg(self.path());
        if matches!(args, ["import" | "load" | "put" | "synth", ..] | ["records", "import" | "set", ..]) {
            command.arg("--init");
        }
        command
    }

    /// Runs a command on this store.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args))
    }

    /// The listed ids, sorted.
    pub fn ids(&self) -> Vec<String> {
        sorted_lines(self.run(&["ls"]).ends_with(0).text())
    }

    /// Serves this store on a free port. If there is none, it is made.
    pub fn serve(&self, more: &[&str]) -> Served {
        Served::start(
            self.command(&[&["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "off"], more].concat()),
        )
    }
}

pub fn sorted_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A server that runs until it is stopped. Dropping the value kills it.
pub struct Served {
    pub child: Child,
    /// Its address, e.g. `http://127.0.0.1:41234`.
    pub url: String,
    /// What it wrote to standard error until it printed its address. The log is written beside that, so
    /// a line may be here or in what follows.
    pub said_first: String,
    /// Its later output on standard error.
    said_later: Gathered,
}

impl Served {
    /// Starts a command and waits until it prints its address.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let url = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before it listened: {said}");
            said.push_str(&line);
            // A line of the log begins with its time, and may name other addresses.
            let is_logged = line.starts_with(|first: char| first.is_ascii_digit() || first == '{');
            if let Some((_, rest)) = line.split_once("http://").filter(|_| !is_logged) {
                break format!("http://{}", rest.split('/').next().unwrap().trim());
            }
        };
        Self { child, url, said_first: said, said_later: Gathered::of(stderr) }
    }

    /// Its address with TLS, once it is printed.
    pub fn tls_url(&self) -> String {
        wait_until(|| self.said_later.text().contains("https://"));
        format!("https://{}", self.said_later.text().split("https://").nth(1).unwrap().split('/').next().unwrap())
    }

    /// Its address of the Redis protocol, once it is printed.
    pub fn records_address(&self) -> String {
        wait_until(|| self.said_later.text().contains("redis://"));
        self.said_later.text().split("redis://").nth(1).unwrap().split('/').next().unwrap().to_owned()
    }

    /// What it wrote to standard error since it listened.
    pub fn said(&self) -> String {
        self.said_later.text()
    }

    /// Its present memory in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// The most memory that it had, in bytes. A later answer can be smaller than an earlier one: Linux
    /// counts the pages of each processor apart, and does not add them up exactly (proc(5)).
    pub fn peak_memory_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// A number of bytes that the system says of it (proc(5)).
    fn status_bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let number = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        number.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        self::signal(&self.child, name);
    }

    /// Stops it with a signal. Returns its exit code and its output meanwhile.
    pub fn stop(self, signal: &str) -> (i32, String) {
        self::signal(&self.child, signal);
        self.ended()
    }

    /// Kills it, as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.ended();
    }

    fn ended(mut self) -> (i32, String) {
        wait_until(|| self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), self.said_later.rest())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of a process, read as it arrives, so that it never fills the pipe.
pub struct Gathered {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Gathered {
    /// Reads to the end, on a thread of its own.
    pub fn of(stream: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let gathering = text.clone();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                gathering.lock().unwrap().push_str(&(line.unwrap() + "\n"));
            }
        });
        Self { text, reader: Some(reader) }
    }

    /// The output so far.
    pub fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// The whole output, once the process has ended.
    pub fn rest(&mut self) -> String {
        self.reader.take().unwrap().join().unwrap();
        self.text()
    }
}

/// An address where nothing listens, and where no other program can listen while the socket exists.
pub fn closed_address() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Waits until a condition holds.
#[track_caller]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited for too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process.
pub fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

/// A running command whose standard output the test holds.
pub fn piped(mut command: Command) -> (Child, ChildStdout) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    (child, stdout)
}

/// The files of a ZIP, by name. Reading them checks their CRCs.
pub fn unzip(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut files = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        if !entry.is_dir() {
            files.insert(entry.name().unwrap().into_owned(), content);
        }
    }
    files
}

/// The expected entries of a download of a whole volume, page by page, made from its source alone.
pub fn expected_entries(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = hathi::discover(folder).next().unwrap().unwrap();
    let mut volume = hathi::VolumeReader::new(files.open().unwrap()).unwrap();
    let cleaned = volume.id().cleaned().to_string();
    (0..volume.page_count())
        .map(|index| volume.read_page(index).unwrap())
        .map(|page| (format!("{cleaned}/{}", page.seq.file_name()), page.text))
        .collect()
}

/// Copies a folder with its contents.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The only file in a folder with this suffix.
pub fn file_with_suffix(folder: &Path, suffix: &str) -> PathBuf {
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    found.into_iter().find(|path| path.to_string_lossy().ends_with(suffix)).unwrap()
}
