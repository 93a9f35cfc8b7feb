//! The agent of Jolokia, which shows a Java machine's MBeans over HTTP: fetched once from Maven
//! Central.

use std::path::{Path, PathBuf};

use crate::cache;
use crate::error::{ClusterError, Doing, Result};
use crate::jars::{PATIENCE, run_maven};
use crate::java::Java;
use crate::programs;

/// The version that is fetched.
pub const JOLOKIA_VERSION: &str = "2.1.2";

/// The Maven goal that fetches it.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";

/// The agent's jar: the one that was fetched before, or else it is fetched (650 kB). If several
/// processes need it, one fetches, and the others wait.
///
/// # Errors
/// It cannot be fetched.
pub fn jolokia_agent() -> Result<PathBuf> {
    fetched(&cache::folder()?, programs::program("mvn").as_deref(), &Java::find()?)
}

/// The option of Java that starts the agent in a node, with an answer at this port of the node's own
/// address. It answers two requests at once, so that a slow one does not hold up the others.
pub fn jolokia_option(jar: &Path, port: u16) -> String {
    let host = crate::jvm::ADDRESS;
    format!("-javaagent:{}=host={host},port={port},executor=fixed,threadNr=2,discoveryEnabled=false", jar.display())
}

fn fetched(cache: &Path, maven: Option<&Path>, java: &Java) -> Result<PathBuf> {
    let name = format!("jolokia-agent-jvm-{JOLOKIA_VERSION}-javaagent.jar");
    let jar = cache.join(&name);
    if jar.is_file() {
        return Ok(jar);
    }
    let Some(_lock) = cache::lock(&cache.join("jolokia.lock"), PATIENCE)? else {
        return Err(ClusterError::FetchHeld { cache: cache.to_owned(), waited: PATIENCE });
    };
    // The previous holder of the lock may have fetched it.
    if jar.is_file() {
        return Ok(jar);
    }
    let fresh = tempfile::Builder::new().prefix("fetching-").tempdir_in(cache).doing("making a folder in", cache)?;
    let artifact = format!("-Dartifact=org.jolokia:jolokia-agent-jvm:{JOLOKIA_VERSION}:jar:javaagent");
    let to = format!("-DoutputDirectory={}", fresh.path().display());
    run_maven(maven.ok_or(ClusterError::NoMaven)?, java, fresh.path(), &[COPY, &artifact, &to])?;
    let copied = fresh.path().join(&name);
    std::fs::rename(&copied, &jar).doing("moving", &copied)?;
    Ok(jar)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;

    use super::*;

    /// A substitute for Maven, which a shell writes: this process could still hold it open.
    fn maven(folder: &Path, script: &str) -> PathBuf {
        let mut write = Command::new("sh");
        write.args(["-c", r#"printf %s "$1" > "$2" && chmod +x "$2""#, "sh", script]);
        assert!(write.arg(folder.join("mvn")).status().unwrap().success());
        folder.join("mvn")
    }

    const COPIES: &str = r#"#!/bin/sh
for argument; do
  case "$argument" in -DoutputDirectory=*) cd "${argument#*=}" ;; esac
done
echo jar > jolokia-agent-jvm-2.1.2-javaagent.jar
"#;

    #[test]
    fn the_agent_is_fetched_once_and_a_failure_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let java = Java { program: "java".into() };
        let fails = maven(folder.path(), "#!/bin/sh\necho no route\nexit 1\n");
        let failed = fetched(folder.path(), Some(&fails), &java).unwrap_err();
        assert!(matches!(&failed, ClusterError::Fetch { output, .. } if output.contains("no route")), "{failed}");
        assert!(matches!(fetched(folder.path(), None, &java), Err(ClusterError::NoMaven)));
        let copies = maven(folder.path(), COPIES);
        let jar = fetched(folder.path(), Some(&copies), &java).unwrap();
        assert_eq!(std::fs::read_to_string(&jar).unwrap(), "jar\n");
        assert_eq!(fetched(folder.path(), None, &java).unwrap(), jar, "now it is there without Maven");
    }
}
