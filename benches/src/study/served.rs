//! Servers as separate processes: the study's own binary again, with other arguments.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::{Context, Result};

use super::client::Protocol;

/// With this first argument, the study's binary is `penates serve`.
pub const SERVE: &str = "serve";
/// With this first argument, the study's binary only sends a finished ZIP.
pub const SERVE_ZIP: &str = "serve-zip";

/// A server that runs until the value is dropped.
pub struct Served {
    child: Child,
    http: SocketAddr,
    https: SocketAddr,
    certificate: PathBuf,
}

impl Served {
    /// `penates serve` over a data folder. It makes no selections of requests, which would fill up
    /// over the trials.
    pub fn penates(binary: &Path, store: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args([SERVE, "--init", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"]);
        command.args(["--set", "data.post_selection=false", "--set", "log.level=warn", "--store"]).arg(store);
        Self::start(command, store.join("tls").join("cert.pem"))
    }

    /// A server that sends a finished ZIP from its memory; its certificate is made in `folder`.
    pub fn finished_zip(binary: &Path, zip: &Path, folder: &Path) -> Result<Self> {
        let certificate = folder.join("cert.pem");
        let mut command = Command::new(binary);
        command.arg(SERVE_ZIP).args([zip, &certificate]);
        Self::start(command, certificate)
    }

    /// Starts a command and waits until it prints its address.
    fn start(mut command: Command, certificate: PathBuf) -> Result<Self> {
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PENATES_")) {
            command.env_remove(name);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let printed = child.stderr.take().context("no standard error").and_then(addresses);
        let mut said = match printed {
            Ok(said) => said,
            Err(error) => {
                // It may have ended already.
                let _ = child.kill();
                child.wait()?;
                return Err(error);
            }
        };
        // Its later output is for people, and must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said.stderr, &mut std::io::stderr()));
        Ok(Self { child, http: said.http, https: said.https, certificate })
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

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Said {
    http: SocketAddr,
    https: SocketAddr,
    stderr: BufReader<ChildStderr>,
}

/// Reads until both addresses are printed.
fn addresses(stderr: ChildStderr) -> Result<Said> {
    let mut stderr = BufReader::new(stderr);
    let (mut http, mut https, mut text) = (None, None, String::new());
    loop {
        if let Some((http, https)) = http.zip(https) {
            return Ok(Said { http, https, stderr });
        }
        let mut line = String::new();
        let read = stderr.read_line(&mut line)?;
        text.push_str(&line);
        anyhow::ensure!(read > 0, "a server ended before it listened: {text}");
        http = http.or_else(|| address(&line, "http://"));
        https = https.or_else(|| address(&line, "https://"));
    }
}

/// The address of `Listening on http://127.0.0.1:41234/`.
fn address(line: &str, scheme: &str) -> Option<SocketAddr> {
    line.split_once(scheme)?.1.split('/').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_from_its_line() {
        let expected = "127.0.0.1:41234".parse().ok();
        assert_eq!(address("Listening on http://127.0.0.1:41234/\n", "http://"), expected);
        assert_eq!(address("Listening on https://127.0.0.1:41234/\n", "http://"), None);
        assert_eq!(address("Something else\n", "https://"), None);
    }
}
