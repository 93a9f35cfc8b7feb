//! Cassandra's `nodetool`, which asks a node by JMX.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::config;
use crate::error::{ClusterError, Doing, Result};
use crate::guard::Guarded;
use crate::jars::Jars;
use crate::java::Java;
use crate::jvm;

/// How long it may take. Repairing a node takes long.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Runs Cassandra's `nodetool` with a command (such as `["flush"]`) against any node that takes JMX
/// without a password, and returns its output. It takes a second or more. The first time on a
/// machine it fetches Cassandra.
///
/// # Errors
/// The node cannot be asked or refuses; and errors for whatever is missing on the machine.
pub fn nodetool(jmx: SocketAddr, command: &[&str]) -> Result<String> {
    let java = Java::find()?;
    let jars = Jars::find(&java)?;
    let place = std::env::temp_dir();
    let folder = tempfile::tempdir_in(&place).doing("making a folder in", &place)?;
    config::write_logging(folder.path())?;
    run(jmx, command, [folder.path(), folder.path()], &jars, &java)
}

/// The same, with the folder of `logback.xml` and one for its own files.
pub(crate) fn run(
    jmx: SocketAddr,
    command: &[&str],
    [config, own]: [&Path; 2],
    jars: &Jars,
    java: &Java,
) -> Result<String> {
    let output = tempfile::NamedTempFile::new_in(own).doing("making a file in", own)?;
    let arguments = jvm::nodetool(jmx, command, [config, own], jars);
    let file = output.reopen().doing("opening", output.path())?;
    let nodetool = Guarded::spawn(java.program.as_os_str(), arguments, file, |_| {});
    let mut nodetool = nodetool.doing("starting", &java.program)?;
    let ended = nodetool.wait_for(PATIENCE).doing("waiting for", &java.program)?;
    let said = std::fs::read(output.path()).doing("reading", output.path())?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let how = match ended {
        Some(status) if status.success() => return Ok(said),
        Some(status) => status.to_string(),
        None => format!("not done within {PATIENCE:?}"),
    };
    Err(ClusterError::NodeTool { jmx, how, output: said })
}
