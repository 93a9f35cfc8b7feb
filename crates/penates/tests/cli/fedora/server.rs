//! A real Fedora 6.1, and requests to it or to Penates.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::harness::*;

pub const WAR: &str = "org.fcrepo:fcrepo-webapp:6.1.0:war";
pub const RUNNER: &str = "org.eclipse.jetty:jetty-runner:9.4.57.v20241219:jar";

/// Its web.xml requires a realm of this name.
const JETTY_XML: &str = r#"<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "http://www.eclipse.org/jetty/configure_9_3.dtd">
<Configure class="org.eclipse.jetty.server.Server">
  <Call name="addBean"><Arg><New class="org.eclipse.jetty.security.HashLoginService">
    <Set name="name">fcrepo</Set><Set name="config">REALM</Set>
  </New></Arg></Call>
</Configure>
"#;

/// A server with resources.
pub struct Site {
    /// The address of its root, with a slash at its end.
    pub root: String,
    /// The user and the password.
    login: Option<String>,
}

/// A Fedora that runs until it is stopped. Dropping the value kills it.
pub struct Fedora {
    process: Child,
    folder: TempDir,
    pub site: Site,
    /// The address of a server with content that it may link to.
    pub elsewhere: String,
}

impl Site {
    /// A server without users.
    pub fn open(root: String) -> Self {
        Self { root, login: None }
    }

    /// Sends a request that succeeds. Returns the body.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> String {
        let (status, answer) = self.answer(self.login.as_deref(), method, path, headers, body);
        assert!(status / 100 == 2, "{method} /{path}: {status}: {answer}");
        answer
    }

    /// The same as another user, whose password is the name.
    pub fn send_as(&self, user: &str, method: &str, path: &str, headers: &[&str], body: &str) {
        let status = self.answer(Some(&format!("{user}:{user}")), method, path, headers, body).0;
        assert!(status / 100 == 2, "{method} /{path}: {status}");
    }

    /// Deletes a resource.
    pub fn delete(&self, path: &str) {
        self.send("DELETE", path, &[], "");
    }

    /// Requests a resource. Returns the status and the body.
    pub fn get(&self, path: &str, headers: &[&str]) -> (u16, String) {
        self.answer(self.login.as_deref(), "GET", path, headers, "")
    }

    /// Begins a transaction.
    pub fn begin(&self) -> String {
        let head = self.send("POST", "fcr:tx", &["X-Print: head"], "");
        let location =
            head.lines().find_map(|line| line.to_lowercase().starts_with("location: ").then(|| line[10..].trim()));
        location.unwrap().to_owned()
    }

    /// Commits a transaction.
    pub fn commit(&self, transaction: &str) {
        self.send("PUT", transaction.strip_prefix(&self.root).unwrap(), &[], "");
    }

    /// Returns in the next second of the clock: Fedora names versions by seconds.
    pub fn next_second(&self) {
        let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let now = second();
        wait_until(|| second() > now);
    }

    fn answer(&self, login: Option<&str>, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, String) {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--globoff", "--path-as-is", "-X", method, "-w", "\n%{http_code}"]);
        if headers.contains(&"X-Print: head") {
            curl.arg("--include");
        }
        for header in headers {
            curl.args(["-H", header]);
        }
        if let Some(login) = login {
            curl.args(["--user", login]);
        }
        if method == "PUT" || method == "PATCH" {
            curl.args(["--data-binary", "@-"]);
            if !headers.iter().any(|header| header.starts_with("Content-Type")) {
                curl.args(["-H", "Content-Type:"]);
            }
        }
        let mut child = curl
            .arg(format!("{}{path}", self.root))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (answer, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), answer.to_owned())
    }
}

impl Fedora {
    /// Starts one over an empty folder, with further options for Java.
    pub fn start(options: &[&str]) -> Self {
        let (war, runner) = (fetched(WAR), fetched(RUNNER));
        let folder = tempfile::tempdir().unwrap();
        let within = |name: &str| folder.path().join(name);
        fs::write(within("realm"), "fedoraAdmin: fedoraAdmin,fedoraAdmin\nalice: alice,fedoraUser\n").unwrap();
        fs::write(within("jetty.xml"), JETTY_XML.replace("REALM", within("realm").to_str().unwrap())).unwrap();
        let [port, messages, stomp] = free_ports();
        let root = format!("http://127.0.0.1:{port}/rest/");
        let elsewhere = elsewhere();
        fs::write(within("allowed"), format!("{elsewhere}\n")).unwrap();
        let log = fs::File::create(within("log")).unwrap();
        let mut java = Command::new("java");
        java.args(["-Xmx384m", "--add-opens", "java.base/java.lang=ALL-UNNAMED"]);
        java.args(["--add-opens", "java.base/java.util=ALL-UNNAMED"]);
        java.arg(format!("-Dfcrepo.home={}", within("home").display()));
        java.arg(format!("-Dfcrepo.external.content.allowed={}", within("allowed").display()));
        java.args([format!("-Dfcrepo.dynamic.jms.port={messages}"), format!("-Dfcrepo.dynamic.stomp.port={stomp}")]);
        java.args(options).arg("-jar").arg(runner).args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        java.arg("--config").arg(within("jetty.xml")).arg(war).current_dir(folder.path());
        let process = java.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let site = Site { root, login: Some("fedoraAdmin:fedoraAdmin".to_owned()) };
        let started = Self { process, folder, site, elsewhere };
        wait_until(|| started.site.get("", &[]).0 == 200);
        started
    }

    /// Its storage root.
    pub fn storage_root(&self) -> PathBuf {
        self.folder.path().join("home/data/ocfl-root")
    }

    /// Stops it, so that its storage root stays as it is.
    pub fn stop(&mut self) {
        signal(&self.process, "TERM");
        wait_until(|| self.process.try_wait().unwrap().is_some());
    }
}

impl Drop for Fedora {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves one text, whatever is requested. Returns the address.
pub fn elsewhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut line = String::new();
            let mut lines = BufReader::new(&stream);
            let _ = lines.read_line(&mut line);
            let is_head = line.starts_with("HEAD");
            // The rest of the request has to be read before the connection is closed.
            while lines.read_line(&mut line).is_ok_and(|read| read > 2) {}
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\nConnection: close\r\n\r\n";
            let _ = write!(stream, "{head}{}", if is_head { "" } else { "elsewhere" });
        }
    });
    address
}

fn free_ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// The file of an artifact of Maven Central, fetched once.
pub fn fetched(artifact: &str) -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("maven");
    fs::create_dir_all(&kept).unwrap();
    let parts: Vec<_> = artifact.split(':').collect();
    let file = kept.join(format!("{}-{}.{}", parts[1], parts[2], parts[3]));
    if !file.exists() {
        let folder = tempfile::tempdir_in(&kept).unwrap();
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy"]);
        maven.arg(format!("-Dartifact={artifact}")).arg(format!("-DoutputDirectory={}", folder.path().display()));
        assert!(maven.current_dir(folder.path()).status().unwrap().success(), "{artifact}");
        let found = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
        fs::rename(found.path(), &file).unwrap();
    }
    file
}
