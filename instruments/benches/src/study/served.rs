//! Servers as separate processes: the study's own binary again, with other arguments.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use tempfile::TempDir;

use super::client::Protocol;
use crate::rig::penates::{listening, without_settings};
use crate::rig::process::Process;

/// With this first argument, the study's binary is `penates serve`.
pub const SERVE: &str = "serve";
/// With this first argument, the study's binary only sends a finished ZIP.
pub const SERVE_ZIP: &str = "serve-zip";

/// A server that runs until the value is dropped.
pub struct Served {
    _process: Process,
    /// The folder of its log. It follows the process, so that it is deleted after that has ended.
    _folder: TempDir,
    http: SocketAddr,
    https: SocketAddr,
    certificate: PathBuf,
}

impl Served {
    /// `penates serve` over a data folder. It makes no selections of requests, which would fill up
    /// over the trials.
    pub fn penates(binary: &Path, store: &Path) -> Result<Self> {
        let mut command = without_settings(binary);
        command.args([SERVE, "--init", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"]);
        command.args(["--set", "data.post_selection=false", "--set", "log.level=warn", "--store"]).arg(store);
        Self::start(command, store.join("tls").join("cert.pem"))
    }

    /// A server that sends a finished ZIP from its memory; its certificate is made in `folder`.
    pub fn finished_zip(binary: &Path, zip: &Path, folder: &Path) -> Result<Self> {
        let certificate = folder.join("cert.pem");
        let mut command = without_settings(binary);
        command.arg(SERVE_ZIP).args([zip, &certificate]);
        Self::start(command, certificate)
    }

    /// Starts a command and waits until it prints its addresses.
    fn start(mut command: Command, certificate: PathBuf) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut process = Process::start(&mut command, &folder.path().join("log"))?;
        let http = process.wait_for(|said| listening(said, "http"))?;
        let https = process.wait_for(|said| listening(said, "https"))?;
        Ok(Self { _process: process, _folder: folder, http, https, certificate })
    }

    /// Its address.
    pub fn address(&self, protocol: Protocol) -> SocketAddr {
        match protocol {
            Protocol::Http => self.http,
            Protocol::Https => self.https,
        }
    }

    /// Its certificate, PEM.
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }
}
