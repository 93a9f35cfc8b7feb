//! The Community Solid Server, from npm, with all access allowed.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::subject::{Kind, Subject};
use crate::rig::client::{Client, Request};
use crate::rig::process::Process;

const PACKAGE: &str = "@solid/community-server@7";

/// It answers only those who reach it as `http://localhost/`, and believes a proxy.
const FIELDS: [(&str, &str); 1] = [("x-forwarded-host", "localhost")];

/// Its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In files.
    File,
    /// In memory: nothing is durable.
    Memory,
}

/// Starts it over a new store. `peers` keeps downloaded files.
pub fn start(peers: &Path, folder: TempDir, backend: Backend) -> Result<Subject> {
    let package = fetch(peers)?;
    let (kind, example) = match backend {
        Backend::File => (Kind::SolidFile, "file-root.json"),
        Backend::Memory => (Kind::SolidMemory, "default.json"),
    };
    let example = fs::read_to_string(package.join("config").join(example)).context("its configuration")?;
    let allowing = example.replace("authorization/webacl.json", "authorization/allow-all.json");
    ensure!(allowing != example, "its configuration has no rule that could be replaced");
    let configuration = folder.path().join("config.json");
    fs::write(&configuration, allowing)?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut command = Command::new("node");
    command.arg(package.join("bin/server.js")).arg("-c").arg(configuration).arg("-f").arg(folder.path().join("data"));
    command.args(["-p", &address.port().to_string(), "-b", "http://localhost/", "-l", "warn"]);
    let process = Process::start(&mut command, &folder.path().join("log"))?;
    let mut subject = Subject { kind, process, address, root: "/", container_suffix: "/", fields: &FIELDS, folder };
    subject.process.wait_for(|_| Client::connect(address).ok()?.fetch(&Request::get("/")).ok())?;
    Ok(subject)
}

/// The folder of the package, downloaded once.
fn fetch(peers: &Path) -> Result<PathBuf> {
    let package = peers.join("solid/node_modules/@solid/community-server");
    if package.join("bin/server.js").exists() {
        return Ok(package);
    }
    let mut command = Command::new("npm");
    command.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(peers.join("solid")).arg(PACKAGE);
    let output = command.output().context("npm cannot be started")?;
    ensure!(output.status.success(), "{PACKAGE} cannot be fetched: {}", String::from_utf8_lossy(&output.stderr));
    Ok(package)
}
