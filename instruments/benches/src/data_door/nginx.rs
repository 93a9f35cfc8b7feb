//! nginx sending finished files.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::rig::process::Process;
use crate::rig::tls::{CIPHER_SUITE, Identity};

/// How to install it.
pub const HOW_TO_GET: &str = "nginx is not installed (apt-get install nginx-light)";

/// Its version, if it is installed.
pub fn version() -> Option<String> {
    let output = Command::new("nginx").arg("-v").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// A server of the files of a folder.
pub struct Nginx {
    /// Its process (the workers are its children).
    pub process: Process,
    /// Its HTTP address.
    pub http: SocketAddr,
    /// Its HTTPS address.
    pub https: SocketAddr,
}

impl Nginx {
    /// Serves `files` with sendfile. Its configuration and log are in `folder`.
    pub fn start(folder: &Path, files: &Path, identity: &Identity) -> Result<Self> {
        let (http, https) = (free_address()?, free_address()?);
        let file = folder.join("nginx.conf");
        fs::write(&file, configuration(folder, files, identity, http, https)?)?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&file).arg("-e").arg("stderr");
        let mut process = Process::start(&mut command, &folder.join("nginx.log"))?;
        process.wait_for(|_| TcpStream::connect(http).is_ok().then_some(()))?;
        Ok(Self { process, http, https })
    }
}

/// A loopback address that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// As nginx's documentation advises for large static files, without a log of requests.
fn configuration(
    folder: &Path,
    files: &Path,
    identity: &Identity,
    http: SocketAddr,
    https: SocketAddr,
) -> Result<String> {
    // Workers of root would run as a user that may not read a temporary folder. Only root may set
    // their user.
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    let user = if is_root { "user root;" } else { "" };
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path that is no text");
    Ok(format!(
        "{user}
daemon off;
worker_processes auto;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/nginx-1;
  proxy_temp_path {folder}/nginx-2;
  fastcgi_temp_path {folder}/nginx-3;
  uwsgi_temp_path {folder}/nginx-4;
  scgi_temp_path {folder}/nginx-5;
  default_type application/zip;
  sendfile on;
  tcp_nopush on;
  tcp_nodelay on;
  keepalive_requests 1000000;
  open_file_cache max=100;
  server {{
    listen {http};
    listen {https} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites {CIPHER_SUITE};
    root {files};
  }}
}}
",
        folder = text(folder)?,
        files = text(files)?,
        certificate = text(&identity.certificate_file)?,
        key = text(&identity.key_file)?,
    ))
}
