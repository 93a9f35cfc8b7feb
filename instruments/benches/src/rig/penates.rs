//! Penates itself: the real program as a child process.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::client::{Client, Request};
use super::process::{Process, free_address};

/// The program.
#[derive(Clone, Debug)]
pub struct Penates {
    program: PathBuf,
}

impl Penates {
    /// The program at `program`, or the one that `PENATES_PROGRAM` names, or, without one, that of this
    /// workspace, built now in the profile of this benchmark.
    pub fn find(program: Option<&Path>) -> Result<Self> {
        let named = || std::env::var_os("PENATES_PROGRAM").map(PathBuf::from);
        if let Some(program) = program.map(Path::to_path_buf).or_else(named) {
            return Ok(Self { program });
        }
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "penates"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let beside = std::env::current_exe()?.with_file_name("penates");
        ensure!(build.status().context("cannot start cargo")?.success(), "penates could not be built");
        ensure!(beside.exists(), "{} is not there; say where it is with --penates", beside.display());
        Ok(Self { program: beside })
    }

    /// Runs a command, without settings from the environment. Returns its output.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PENATES_")) {
            command.env_remove(name);
        }
        let output = command.args(arguments).stdin(Stdio::null()).output().context("cannot start penates")?;
        ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Serves a store (a folder, or an address). Two settings differ from the defaults, so that
    /// repetitions neither differ nor are refused: any number of selections, and anybody may delete
    /// them. `more` are more settings, such as `store.call_timeout=60s`.
    pub fn serve(&self, store: &str, more: &[&str]) -> Result<Server> {
        let http = free_address()?;
        let words = [&self.program.to_string_lossy(), "serve", "--init", "--store", store, "--tls-listen=off"];
        let words = words.map(str::to_owned).into_iter().chain([format!("--listen={http}")]);
        let settings = [&["data.selections_max=0", "auth.write=open"], more].concat();
        let settings = settings.iter().map(|setting| format!("--set={setting}"));
        let process = Process::start(words.chain(settings).collect(), http, "/readyz")?;
        Ok(Server { process, http })
    }
}

/// A running server.
pub struct Server {
    /// Its process.
    pub process: Process,
    /// Its HTTP address.
    pub http: SocketAddr,
}

impl Server {
    /// Creates a selection of volumes. Returns its path.
    pub fn select(&self, ids: &str) -> Result<String> {
        let received = Client::connect(self.http)?.fetch(&Request::post("/selections", ids))?;
        Ok(received.header("location").context("a selection without a location")?.to_owned())
    }
}
