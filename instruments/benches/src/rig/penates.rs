//! Penates itself: the real program as a child process.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use cluster::{ControlGroup, Limits};

use super::client::{Client, Request};
use super::process::Process;
use super::tls::Identity;

/// The program.
#[derive(Clone, Debug)]
pub struct Penates {
    program: PathBuf,
    /// The arguments before its own: that program may be a shell that enters a control group.
    before: Vec<String>,
}

impl Penates {
    /// The program at `program`, or, without one, that of this workspace, built now in the profile
    /// of this benchmark.
    pub fn find(program: Option<&Path>) -> Result<Self> {
        if let Some(program) = program {
            return Ok(Self { program: program.to_path_buf(), before: Vec::new() });
        }
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "penates"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        let beside = std::env::current_exe()?.with_file_name("penates");
        ensure!(build.status().context("cannot start cargo")?.success(), "penates could not be built");
        ensure!(beside.exists(), "{} is not there; say where it is with --penates", beside.display());
        Ok(Self { program: beside, before: Vec::new() })
    }

    /// Its file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The same program within a control group.
    pub fn within(&self, group: &ControlGroup) -> Self {
        let (program, before) = group.within(&self.program.to_string_lossy(), &self.before);
        Self { program: program.into(), before }
    }

    /// A control group with so many bytes of memory, for one server of this process.
    pub fn group(memory_bytes: u64) -> Result<ControlGroup> {
        let limits = Limits { memory_bytes: Some(memory_bytes), cpus: None };
        let group = ControlGroup::new(&format!("penates-benchmark-{}", std::process::id()), limits);
        group.context("no control group can be made (run it as root)")
    }

    /// Runs a command, without settings from the environment. Returns its output.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String> {
        let mut command = self.command();
        let output = command.args(arguments).stdin(Stdio::null()).output().context("cannot start penates")?;
        ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    fn command(&self) -> Command {
        let mut command = without_settings(&self.program);
        command.args(&self.before);
        command
    }

    /// Serves a store (a folder, or an address) on free ports of loopback, with its log in a file.
    /// Two settings differ from the defaults, so that repetitions neither differ nor are refused:
    /// any number of selections, and anybody may delete them. `more` are more settings, such as
    /// `store.call_timeout=60s`.
    pub fn serve(&self, store: &OsStr, log: &Path, identity: Option<&Identity>, more: &[&str]) -> Result<Server> {
        let mut command = self.command();
        command.args(["serve", "--init"]).arg("--store").arg(store).args(["--listen", "127.0.0.1:0"]);
        command.args(["--set", "data.selections_max=0", "--set", "auth.write=open"]);
        more.iter().for_each(|setting| {
            command.args(["--set", setting]);
        });
        match identity {
            None => command.args(["--tls-listen", "off"]),
            Some(identity) => command
                .args(["--tls-listen", "127.0.0.1:0"])
                .arg("--tls-cert")
                .arg(&identity.certificate_file)
                .arg("--tls-key")
                .arg(&identity.key_file),
        };
        let mut process = Process::start(&mut command, log)?;
        let http = process.wait_for(|said| listening(said, "http"))?;
        let https = identity.map(|_| process.wait_for(|said| listening(said, "https"))).transpose()?;
        Ok(Server { process, http, https })
    }
}

/// A command that runs a program without settings of Penates from the environment.
pub fn without_settings(program: &Path) -> Command {
    let mut command = Command::new(program);
    let set = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PENATES_"));
    set.for_each(|(name, _)| {
        command.env_remove(name);
    });
    command
}

/// The address in a whole line `Listening on http://127.0.0.1:8080/`.
pub fn listening(said: &str, scheme: &str) -> Option<SocketAddr> {
    let start = format!("Listening on {scheme}://");
    said.split_inclusive('\n').find_map(|line| line.strip_prefix(&start)?.strip_suffix("/\n")?.parse().ok())
}

/// A running server.
pub struct Server {
    /// Its process.
    pub process: Process,
    /// Its HTTP address.
    pub http: SocketAddr,
    /// Its HTTPS address, if it has one.
    pub https: Option<SocketAddr>,
}

impl Server {
    /// Creates a selection of volumes. Returns its path.
    pub fn select(&self, ids: &str) -> Result<String> {
        let received = Client::connect(self.http)?.fetch(&Request::post("/selections", ids))?;
        Ok(received.head.header("location").context("a selection without a location")?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_from_a_whole_line_only() {
        let said = "INFO listening\nListening on http://127.0.0.1:3618/\nListening on https://127.0.0.1:36";
        assert_eq!(listening(said, "http"), Some(SocketAddr::from(([127, 0, 0, 1], 3618))));
        assert_eq!(listening(said, "https"), None);
    }
}
