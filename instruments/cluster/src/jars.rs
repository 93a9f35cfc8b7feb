//! Cassandra's jars: an installation, or fetched once from Maven Central.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cache;
use crate::error::{ClusterError, Doing, Result};
use crate::guard::Guarded;
use crate::java::Java;
use crate::programs;
use crate::tail::tail;

/// The version that is fetched.
pub const CASSANDRA_VERSION: &str = "5.0.6";

/// The Maven goal that fetches it.
const COPY_DEPENDENCIES: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// How long fetching may take, and how long another process that is fetching is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

/// What Maven says.
const LOG: &str = "maven.log";

/// Names and sizes of all jars of a complete folder; written last.
const CONTENTS: &str = "contents.json";

/// A folder with the jars of Cassandra and of its dependencies.
#[derive(Clone, Debug)]
pub struct Jars {
    /// The folder.
    pub folder: PathBuf,
    /// The jar among them that measures objects. The Java machine must load it as an agent.
    pub jamm: PathBuf,
}

impl Jars {
    /// Finds the jars: those of the installation that `CASSANDRA_HOME` names, or those that were
    /// fetched before. Otherwise it fetches them (about 70 MB). If several processes need them, one
    /// fetches, and the others wait.
    pub fn find(java: &Java) -> Result<Self> {
        match home() {
            Some(home) => Self::installed(&home),
            None => Self::fetched(&cache::folder()?, programs::program("mvn").as_deref(), java),
        }
    }

    /// Whether [`Jars::find`] would fetch them.
    pub fn are_to_be_fetched() -> Result<bool> {
        Ok(home().is_none() && Self::complete(&cache::folder()?.join(CASSANDRA_VERSION)).is_none())
    }

    /// Whether [`Jars::find`] has everything it needs. Fetches nothing.
    pub fn can_be_found() -> Result<()> {
        match programs::program("mvn") {
            None if Self::are_to_be_fetched()? => Err(ClusterError::NoMaven),
            _ => Ok(()),
        }
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

    fn fetched(cache: &Path, maven: Option<&Path>, java: &Java) -> Result<Self> {
        let folder = cache.join(CASSANDRA_VERSION);
        if let Some(jars) = Self::complete(&folder) {
            return Ok(jars);
        }
        let lock = cache.join(format!("{CASSANDRA_VERSION}.lock"));
        let Some(_lock) = cache::lock(&lock, PATIENCE)? else {
            return Err(ClusterError::FetchHeld { cache: cache.to_owned(), waited: PATIENCE });
        };
        // The previous holder of the lock may have fetched them.
        if let Some(jars) = Self::complete(&folder) {
            return Ok(jars);
        }
        let fresh = fetch(cache, maven.ok_or(ClusterError::NoMaven)?, java)?;
        if folder.exists() {
            std::fs::remove_dir_all(&folder).doing("removing the incomplete", &folder)?;
        }
        std::fs::rename(fresh.path(), &folder).doing("making", &folder)?;
        Self::complete(&folder).ok_or_else(|| incomplete("its folder is not complete", ""))
    }

    /// The jars of a folder in which no jar is missing or truncated.
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

/// The configured installation.
fn home() -> Option<PathBuf> {
    std::env::var_os("CASSANDRA_HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Copies the jars with Maven into a new folder beside their final place.
fn fetch(cache: &Path, maven: &Path, java: &Java) -> Result<tempfile::TempDir> {
    let fresh = tempfile::Builder::new().prefix("fetching-").tempdir_in(cache).doing("making a folder in", cache)?;
    let pom = fresh.path().join("pom.xml");
    cache::write(&pom, &pom_xml())?;
    let to = format!("-DoutputDirectory={}", fresh.path().display());
    let (file, log) = (pom.display().to_string(), fresh.path().join(LOG));
    run_maven(maven, java, fresh.path(), &[COPY_DEPENDENCIES, "-DincludeScope=runtime", &to, "--file", &file])?;
    let sizes = jar_sizes(fresh.path()).doing("listing", fresh.path())?;
    if !sizes.contains_key(&format!("cassandra-all-{CASSANDRA_VERSION}.jar")) {
        return Err(incomplete("cassandra-all is missing", &tail(&log)));
    }
    let contents = serde_json::to_string_pretty(&sizes).map_err(std::io::Error::from).doing("listing", fresh.path())?;
    cache::write(&fresh.path().join(CONTENTS), &contents)?;
    Ok(fresh)
}

/// Runs Maven in a folder, where its log stays.
pub(crate) fn run_maven(maven: &Path, java: &Java, folder: &Path, arguments: &[&str]) -> Result<()> {
    let log = folder.join(LOG);
    let output = File::create(&log).doing("making", &log)?;
    let arguments = ["--batch-mode", "--strict-checksums"].iter().chain(arguments).map(OsStr::new);
    let mut running = Guarded::spawn(maven.as_os_str(), arguments, output, |command| {
        command.current_dir(folder);
        if let Some(home) = java.home() {
            command.env("JAVA_HOME", home);
        }
    })
    .doing("starting", maven)?;
    match running.wait_for(PATIENCE).doing("waiting for Maven in", folder)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(incomplete(&status.to_string(), &tail(&log))),
        None => Err(incomplete(&format!("not done within {PATIENCE:?}"), &tail(&log))),
    }
}

fn incomplete(reason: &str, output: &str) -> ClusterError {
    ClusterError::Fetch { reason: reason.to_owned(), output: output.to_owned() }
}

/// A project that only depends on Cassandra.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;

    use super::*;

    /// A substitute for Maven: it records the call and leaves some jars.
    const MAVEN: &str = r#"#!/bin/sh
echo called >> "$(dirname "$0")/calls"
for argument; do
  case "$argument" in -DoutputDirectory=*) cd "${argument#*=}" ;; esac
done
echo all > cassandra-all-5.0.6.jar
echo jamm > jamm-0.4.0.jar
"#;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        /// A cache folder beside a substitute for Maven. A shell writes that program: if this
        /// process did, another test's child could hold it open for writing when it should run.
        fn with_maven(script: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("cache")).unwrap();
            let mut write = Command::new("sh");
            write.args(["-c", r#"printf %s "$1" > "$2" && chmod +x "$2""#, "sh", script]);
            assert!(write.arg(folder.path().join("mvn")).status().unwrap().success());
            Self { folder }
        }

        fn find(&self) -> Result<Jars> {
            let maven = self.folder.path().join("mvn");
            Jars::fetched(&self.cache(), Some(&maven), &Java { program: "java".into() })
        }

        fn cache(&self) -> PathBuf {
            self.folder.path().join("cache")
        }

        fn calls(&self) -> usize {
            std::fs::read_to_string(self.folder.path().join("calls")).unwrap().lines().count()
        }
    }

    #[test]
    fn several_processes_that_need_the_jars_fetch_them_once() {
        let place = Place::with_maven(MAVEN);
        std::thread::scope(|scope| {
            let finding: Vec<_> = (0..4).map(|_| scope.spawn(|| place.find().unwrap())).collect();
            for found in finding {
                let jars = found.join().unwrap();
                assert_eq!(std::fs::read_to_string(&jars.jamm).unwrap(), "jamm\n");
            }
        });
        assert_eq!(place.calls(), 1);
    }

    #[test]
    fn missing_and_truncated_jars_are_fetched_again() {
        let place = Place::with_maven(MAVEN);
        let jars = place.find().unwrap();
        std::fs::remove_file(&jars.jamm).unwrap();
        place.find().unwrap();
        assert_eq!(place.calls(), 2);
        std::fs::write(jars.folder.join("cassandra-all-5.0.6.jar"), "a").unwrap();
        place.find().unwrap();
        assert_eq!(place.calls(), 3);
        assert_eq!(std::fs::read_to_string(jars.folder.join("cassandra-all-5.0.6.jar")).unwrap(), "all\n");
    }

    #[test]
    fn a_maven_that_fails_leaves_nothing_and_is_quoted() {
        for script in ["#!/bin/sh\necho no route to host\nexit 1\n", "#!/bin/sh\necho no route to host\n"] {
            let place = Place::with_maven(script);
            let failed = place.find().unwrap_err();
            assert!(
                matches!(&failed, ClusterError::Fetch { output, .. } if output.contains("no route to host")),
                "{failed}"
            );
            let left = std::fs::read_dir(place.cache()).unwrap().map(|entry| entry.unwrap().file_name());
            assert_eq!(left.collect::<Vec<_>>(), ["5.0.6.lock"]);
        }
    }

    #[test]
    fn without_maven_existing_jars_suffice() {
        let place = Place::with_maven(MAVEN);
        let java = Java { program: "java".into() };
        assert!(matches!(Jars::fetched(&place.cache(), None, &java), Err(ClusterError::NoMaven)));
        place.find().unwrap();
        Jars::fetched(&place.cache(), None, &java).unwrap();
    }

    #[test]
    fn a_valid_installation_is_used() {
        let home = tempfile::tempdir().unwrap();
        let missing = |part: &str| match Jars::installed(home.path()) {
            Err(ClusterError::BadInstallation { missing, .. }) => assert_eq!(missing, part),
            other => panic!("{other:?}"),
        };
        missing("the folder lib");
        std::fs::create_dir(home.path().join("lib")).unwrap();
        std::fs::write(home.path().join("lib/apache-cassandra-4.1.3.jar"), "").unwrap();
        missing("lib/apache-cassandra-5.*.jar");
        std::fs::write(home.path().join("lib/apache-cassandra-5.0.2.jar"), "").unwrap();
        missing("lib/jamm-*.jar");
        std::fs::write(home.path().join("lib/jamm-0.4.0.jar"), "").unwrap();
        assert_eq!(Jars::installed(home.path()).unwrap().jamm, home.path().join("lib/jamm-0.4.0.jar"));
    }
}
