//! Fedora 6 in jetty-runner, both from Maven Central.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::subject::{Kind, Subject};
use crate::rig::client::{Client, Request};
use crate::rig::process::Process;

const WAR: &str = "org.fcrepo:fcrepo-webapp:6.1.0:war";
const RUNNER: &str = "org.eclipse.jetty:jetty-runner:9.4.53.v20231009:jar";

/// Its web.xml requires a realm of this name.
const JETTY_XML: &str = r#"<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN" "http://www.eclipse.org/jetty/configure_9_3.dtd">
<Configure class="org.eclipse.jetty.server.Server">
  <Call name="addBean"><Arg><New class="org.eclipse.jetty.security.HashLoginService">
    <Set name="name">fcrepo</Set><Set name="config">REALM</Set>
  </New></Arg></Call>
</Configure>
"#;

/// `fedoraAdmin:fedoraAdmin`
const FIELDS: [(&str, &str); 1] = [("authorization", "Basic ZmVkb3JhQWRtaW46ZmVkb3JhQWRtaW4=")];

/// Starts it over a new store. `peers` keeps downloaded files.
pub fn start(peers: &Path, folder: TempDir) -> Result<Subject> {
    let (war, runner) = (fetch(peers, WAR, "fedora.war")?, fetch(peers, RUNNER, "jetty-runner.jar")?);
    let realm = folder.path().join("realm.properties");
    fs::write(&realm, "fedoraAdmin: fedoraAdmin,fedoraAdmin\n")?;
    let configuration = folder.path().join("jetty.xml");
    fs::write(&configuration, JETTY_XML.replace("REALM", &realm.display().to_string()))?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut command = Command::new("java");
    command.args(["--add-opens", "java.base/java.lang=ALL-UNNAMED", "--add-opens", "java.base/java.util=ALL-UNNAMED"]);
    command.arg(format!("-Dfcrepo.home={}", folder.path().join("home").display())).arg("-jar").arg(runner);
    command.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
    command.arg("--config").arg(configuration).arg(war);
    let process = Process::start(&mut command, &folder.path().join("log"))?;
    let mut subject =
        Subject { kind: Kind::Fedora, process, address, root: "/rest/", container_suffix: "", fields: &FIELDS, folder };
    // Its log does not show when it is ready, because its logger is not in the archive.
    let root = subject.authorized(Request::get("/rest/"));
    subject.process.wait_for(|_| Client::connect(address).ok()?.fetch(&root).ok())?;
    Ok(subject)
}

/// The file of an artifact, fetched once.
fn fetch(peers: &Path, artifact: &str, name: &str) -> Result<std::path::PathBuf> {
    let file = peers.join(name);
    if file.exists() {
        return Ok(file);
    }
    let fetched = tempfile::tempdir_in(peers)?;
    let mut command = Command::new("mvn");
    command.args(["--quiet", "--batch-mode", "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy"]);
    command.arg(format!("-Dartifact={artifact}")).arg(format!("-DoutputDirectory={}", fetched.path().display()));
    let output = command.current_dir(fetched.path()).output().context("Maven cannot be started")?;
    ensure!(output.status.success(), "{artifact} cannot be fetched: {}", String::from_utf8_lossy(&output.stdout));
    let found = fs::read_dir(fetched.path())?.next().context("Maven fetched nothing")??;
    fs::rename(found.path(), &file)?;
    Ok(file)
}
