//! nginx in front of servers, as a load balancer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::*;

/// nginx in front of servers. Dropping it ends it.
pub struct Nginx {
    folder: tempfile::TempDir,
    process: Child,
}

/// The line of the log about a worker that has ended.
const WORKER_ENDED: &str = "exited with code 0";

impl Nginx {
    /// Starts it in front of servers.
    pub fn before(servers: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::configure(folder.path(), servers);
        let process = Self::command(folder.path(), &["-g", "daemon off;"]).spawn().unwrap();
        wait_until(|| folder.path().join("socket").exists());
        Self { folder, process }
    }

    /// The Unix socket at which clients find it.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn command(folder: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("nginx");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").arg("-p").arg(folder).args(["-c", "nginx.conf"]);
        command.args(["-e", "error.log"]).args(args).stderr(Stdio::null());
        command
    }

    fn configure(folder: &Path, servers: &[&str]) {
        let servers: String = servers.iter().map(|url| format!("server {};", &url["http://".len()..])).collect();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {kind};"))
            .collect();
        // It tries no second server, so each failure would show.
        let config = format!(
            "worker_processes 1; pid nginx.pid; error_log error.log notice; events {{}}\n\
             http {{ access_log off; {temporary} upstream penates {{ {servers} keepalive 4; }}\n\
             server {{ listen unix:{}/socket; location / {{ proxy_pass http://penates; proxy_http_version 1.1;\n\
             proxy_set_header Connection ''; proxy_set_header Host localhost; proxy_next_upstream off; }} }} }}\n",
            folder.display()
        );
        fs::write(folder.join("nginx.conf"), config).unwrap();
    }

    /// Sends requests to these servers only, once the worker that knew others has ended.
    pub fn send_to(&self, servers: &[&str]) {
        let log = self.folder.path().join("error.log");
        let ended = || fs::read_to_string(&log).unwrap().matches(WORKER_ENDED).count();
        let before = ended();
        Self::configure(self.folder.path(), servers);
        assert!(Self::command(self.folder.path(), &["-s", "reload"]).status().unwrap().success());
        wait_until(|| ended() > before);
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = Self::command(self.folder.path(), &["-s", "stop"]).status();
        let _ = self.process.wait();
    }
}
