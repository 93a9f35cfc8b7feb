//! Servers as separate processes: the study's own binary again, with other arguments.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::client::Protocol;
use crate::rig::process::{Process, free_address};

/// With this first argument, the study's binary is `penates serve`.
pub const SERVE: &str = "serve";
/// With this first argument, the study's binary only sends a finished ZIP.
pub const SERVE_ZIP: &str = "serve-zip";

/// A server that runs until the value is dropped.
pub struct Served {
    _process: Process,
    http: SocketAddr,
    https: SocketAddr,
    certificate: PathBuf,
}

impl Served {
    /// `penates serve` over a data folder. It makes no selections of requests, which would fill up
    /// over the trials.
    pub fn penates(binary: &Path, store: &Path) -> Result<Self> {
        let (http, https) = (free_address()?, free_address()?);
        let words = [binary.display().to_string(), SERVE.to_owned(), "--init".to_owned()].into_iter();
        let words = words.chain([format!("--store={}", store.display()), format!("--listen={http}")]);
        let words = words.chain([format!("--tls-listen={https}")]);
        let settings = ["data.post_selection=false", "log.level=warn"].map(|setting| format!("--set={setting}"));
        let process = Process::start(words.chain(settings).collect(), http, "/readyz")?;
        Ok(Self { _process: process, http, https, certificate: store.join("tls").join("cert.pem") })
    }

    /// A server that sends a finished ZIP from its memory; its certificate is made in `folder`.
    pub fn finished_zip(binary: &Path, zip: &Path, folder: &Path) -> Result<Self> {
        let (http, https, certificate) = (free_address()?, free_address()?, folder.join("cert.pem"));
        let files = [zip, &certificate].map(|file| file.display().to_string());
        let words = [binary.display().to_string(), SERVE_ZIP.to_owned()].into_iter().chain(files);
        let words = words.chain([http, https].map(|address| address.to_string()));
        let process = Process::start(words.collect(), http, "/")?;
        Ok(Self { _process: process, http, https, certificate })
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
