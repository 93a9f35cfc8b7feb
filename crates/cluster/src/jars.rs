//! Cassandra's jars: an installation, or fetched once from Maven Central.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cache;
use crate::error::{ClusterError, Doing, Result};
use crate::guard::Guarded;
use crate::java::{self, Java};
use crate::tail::tail;

/// The version that is fetched.
pub const CASSANDRA_VERSION: &str = "5.0.6";

/// What fetches it.
const COPY_DEPENDENCIES: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// How long fetching may take, and how long another process that is fetching is waited for.
const PATIENCE: Duration = Duration::from_secs(900);

/// Names and sizes of all jars of a complete folder; written last.
const CONTENTS: &str = "contents.json";

/// A folder with the jars of Cassandra and of all that it uses.
#[derive(Clone, Debug)]
pub struct Jars {
    /// The folder.
    pub folder: PathBuf,
    /// Among them the one that measures objects, which the Java machine must load as an agent.
    pub jamm: PathBuf,
}

impl Jars {
    /// Finds the jars: of the installation that `CASSANDRA_HOME` names, otherwise those that were fetched before, otherwise by
    /// fetching them (some 70 MB). Of several processes that want to fetch one does, and the others wait for it.
    pub fn find(java: &Java) -> Result<Self> {
        match std::env::var_os("CASSANDRA_HOME").filter(|home| !home.is_empty()) {
            Some(home) => Self::installed(home.as_ref()),
            None => Self::fetched(&cache::folder()?, java),
        }
    }

    /// Whether [`Jars::find`] has all it needs, without doing it.
    pub fn can_be_found() -> Result<()> {
        let is_there = std::env::var_os("CASSANDRA_HOME").is_some_and(|home| !home.is_empty())
            || Self::complete(&cache::folder()?.join(CASSANDRA_VERSION)).is_some()
            || java::on_path("mvn").is_some();
        if is_there { Ok(()) } else { Err(ClusterError::NoMaven) }
    }

    fn installed(home: &Path) -> Result<Self> {
        let missing = |missing: &str| ClusterError::BadInstallation { home: home.into(), missing: missing.to_owned() };
        let folder = home.join("lib");
        let names = jar_sizes(&folder).map_err(|_| missing("the folder lib"))?;
        if !names.keys().any(|name| name.starts_with("apache-cassandra-5.")) {
            return Err(missing("lib/apache-cassandra-5.*.jar"));
        }
        Self::in_folder(&folder).ok_or_else(|| missing("lib/jamm-*.jar"))
    }

    fn fetched(cache: &Path, java: &Java) -> Result<Self> {
        let folder = cache.join(CASSANDRA_VERSION);
        if let Some(jars) = Self::complete(&folder) {
            return Ok(jars);
        }
        let lock = cache.join(format!("{CASSANDRA_VERSION}.lock"));
        let Some(_lock) = cache::lock(&lock, PATIENCE)? else {
            return Err(ClusterError::FetchHeld { cache: cache.to_owned(), waited: PATIENCE });
        };
        // Whoever had the lock before may have fetched them.
        if let Some(jars) = Self::complete(&folder) {
            return Ok(jars);
        }
        let fresh = fetch(cache, java)?;
        if folder.exists() {
            std::fs::remove_dir_all(&folder).doing("removing the incomplete", &folder)?;
        }
        std::fs::rename(fresh.path(), &folder).doing("making", &folder)?;
        Self::complete(&folder).ok_or_else(|| incomplete("what it left is not complete", ""))
    }

    /// The jars of a folder in which nothing is missing or cut short.
    fn complete(folder: &Path) -> Option<Self> {
        let contents = std::fs::read_to_string(folder.join(CONTENTS)).ok()?;
        let expected: BTreeMap<String, u64> = serde_json::from_str(&contents).ok()?;
        if jar_sizes(folder).ok()? == expected { Self::in_folder(folder) } else { None }
    }

    fn in_folder(folder: &Path) -> Option<Self> {
        let names = jar_sizes(folder).ok()?;
        let jamm = names.keys().find(|name| name.starts_with("jamm-"))?;
        Some(Self { folder: folder.to_owned(), jamm: folder.join(jamm) })
    }
}

/// Has Maven copy the jars into a new folder beside the one where they will be.
fn fetch(cache: &Path, java: &Java) -> Result<tempfile::TempDir> {
    let maven = java::on_path("mvn").ok_or(ClusterError::NoMaven)?;
    let fresh = tempfile::Builder::new().prefix("fetching-").tempdir_in(cache).doing("making a folder in", cache)?;
    let pom = fresh.path().join("pom.xml");
    cache::write(&pom, &pom_xml())?;
    let log = fresh.path().join("maven.log");
    let output = File::create(&log).doing("making", &log)?;
    let arguments = ["--batch-mode", "--strict-checksums", COPY_DEPENDENCIES, "-DincludeScope=runtime"];
    let to = format!("-DoutputDirectory={}", fresh.path().display());
    let arguments = arguments.iter().map(OsStr::new).chain([to.as_ref(), "--file".as_ref(), pom.as_os_str()]);
    let mut maven = Guarded::spawn(maven.as_os_str(), arguments, output, |command| {
        command.current_dir(fresh.path());
        if let Some(home) = java.home() {
            command.env("JAVA_HOME", home);
        }
    })
    .doing("starting", &maven)?;
    let ended = maven.wait_for(PATIENCE).doing("waiting for Maven in", fresh.path())?;
    match ended {
        Some(status) if status.success() => {}
        Some(status) => return Err(incomplete(&status.to_string(), &tail(&log))),
        None => return Err(incomplete(&format!("not done within {PATIENCE:?}"), &tail(&log))),
    }
    let sizes = jar_sizes(fresh.path()).doing("listing", fresh.path())?;
    if !sizes.contains_key(&format!("cassandra-all-{CASSANDRA_VERSION}.jar")) {
        return Err(incomplete("cassandra-all is missing", &tail(&log)));
    }
    let contents = serde_json::to_string_pretty(&sizes).map_err(std::io::Error::from).doing("listing", fresh.path())?;
    cache::write(&fresh.path().join(CONTENTS), &contents)?;
    Ok(fresh)
}

fn incomplete(reason: &str, output: &str) -> ClusterError {
    ClusterError::Fetch { reason: reason.to_owned(), output: output.to_owned() }
}

/// A project that does nothing but depend on Cassandra.
fn pom_xml() -> String {
    format!(
        r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penates</groupId>
  <artifactId>cassandra-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>{CASSANDRA_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"#
    )
}

fn jar_sizes(folder: &Path) -> std::io::Result<BTreeMap<String, u64>> {
    let mut sizes = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".jar") {
            sizes.insert(name, entry.metadata()?.len());
        }
    }
    Ok(sizes)
}
