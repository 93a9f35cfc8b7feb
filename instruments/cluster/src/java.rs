//! Finds the Java that runs Cassandra.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{ClusterError, Result};
use crate::programs;

/// The version that Cassandra 5.0 is made for, and that is found.
const VERSION: u32 = 17;

/// The versions that Cassandra 5.0 runs on; it refuses 21. The options of a node are the same for both:
/// what Cassandra's classes use of Java's inner parts is exported or open, and what is open is exported
/// too.
const RUNS_ON: [u32; 2] = [11, VERSION];

/// Where Linux distributions install several versions of Java side by side.
const INSTALLED: &str = "/usr/lib/jvm";

/// A Java that Cassandra runs on.
#[derive(Clone, Debug)]
pub struct Java {
    /// The program.
    pub program: PathBuf,
}

impl Java {
    /// Finds a Java 17 in `JAVA_HOME`, on the `PATH`, or installed beside that.
    pub fn find() -> Result<Self> {
        let named = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()).map(|home| in_home(home.as_ref()));
        let mut tried = Vec::new();
        for program in named.into_iter().chain(programs::program("java")).chain(installed()) {
            match version(&program) {
                Some(VERSION) => return Ok(Self { program }),
                Some(other) => tried.push(format!("{} is Java {other}", program.display())),
                None => tried.push(format!("{} does not report its version", program.display())),
            }
        }
        let found = if tried.is_empty() { "there is no Java".to_owned() } else { tried.join(", ") };
        Err(ClusterError::NoJava { found })
    }

    /// The home that a text names: a path, or else the name of a folder in `/usr/lib/jvm`.
    pub fn home_named(text: &str) -> PathBuf {
        // An absolute path replaces the folder.
        Path::new(INSTALLED).join(text)
    }

    /// The Java of a home, which is asked for its version: 11 or 17.
    ///
    /// # Errors
    /// [`ClusterError::UnusableJava`] if the home has none, or one that Cassandra does not run on.
    pub fn in_home(home: &Path) -> Result<Self> {
        let program = in_home(home);
        let unusable = |why: String| Err(ClusterError::UnusableJava { home: home.to_owned(), why });
        if !program.is_file() {
            return unusable("has no bin/java".to_owned());
        }
        match version(&program) {
            Some(version) if RUNS_ON.contains(&version) => Ok(Self { program }),
            Some(other) => unusable(format!("is Java {other}")),
            None => unusable("has a bin/java that does not report its version".to_owned()),
        }
    }

    /// Its build, as it reports it, such as `OpenJDK Runtime Environment Temurin-17.0.9+9 (build
    /// 17.0.9+9)`; `None` if it reports none.
    pub fn build(&self) -> Option<String> {
        parse_build(&reported(&self.program)?)
    }

    /// The `JAVA_HOME` for programs that should use this Java.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        let program = self.program.canonicalize().ok()?;
        program.parent().and_then(Path::parent).map(Path::to_owned)
    }
}

fn in_home(home: &Path) -> PathBuf {
    home.join("bin/java")
}

fn installed() -> Vec<PathBuf> {
    let Ok(folders) = std::fs::read_dir(INSTALLED) else { return Vec::new() };
    let homes = folders.filter_map(|folder| Some(folder.ok()?.path()));
    let mut programs: Vec<_> =
        homes.filter(|home| names_version(home)).map(|home| in_home(&home)).filter(|java| java.is_file()).collect();
    programs.sort();
    programs
}

fn names_version(home: &Path) -> bool {
    home.file_name().and_then(OsStr::to_str).is_some_and(|name| name.contains(&VERSION.to_string()))
}

/// What `java -version` prints.
fn reported(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("-version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The version that a Java reports.
fn version(program: &Path) -> Option<u32> {
    parse_version(&reported(program)?)
}

/// The first number of the version that `java -version` prints; before 9, versions began with `1.`.
fn parse_version(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("version \"")?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    match numbers.next()? {
        1 => numbers.next(),
        first => Some(first),
    }
}

/// The first line that `java -version` prints with a build: that of the runtime.
fn parse_build(text: &str) -> Option<String> {
    text.lines().find(|line| line.contains("(build ")).map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A home whose Java reports a version. A shell writes that program: this process could still hold
    /// it open.
    fn home_of_version(folder: &Path, version: &str) -> PathBuf {
        let home = folder.join(version);
        let script = format!(
            "#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n\
             echo 'OpenJDK Runtime Environment Test-1 (build {version}+6)' >&2\n"
        );
        let mut write = Command::new("sh");
        write.args(["-c", r#"mkdir -p "$2/bin" && printf %s "$1" > "$2/bin/java" && chmod +x "$2/bin/java""#, "sh"]);
        assert!(write.arg(script).arg(&home).status().unwrap().success());
        home
    }

    #[test]
    fn the_java_of_a_home_is_used_if_cassandra_runs_on_it() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["11.0.27", "17.0.15"] {
            let home = home_of_version(folder.path(), version);
            let java = Java::in_home(&home).unwrap();
            assert_eq!(java.program, home.join("bin/java"));
            assert_eq!(java.build(), Some(format!("OpenJDK Runtime Environment Test-1 (build {version}+6)")));
        }
        let refused = |home: &Path| Java::in_home(home).unwrap_err().to_string();
        for (version, why) in [("1.8.0_292", "is Java 8"), ("21.0.1", "is Java 21"), ("x", "does not report")] {
            let home = home_of_version(folder.path(), version);
            let error = refused(&home);
            assert!(error.contains("needs Java 11 or 17") && error.contains(home.to_str().unwrap()), "{error}");
            assert!(error.contains(why), "{error}");
        }
        assert!(refused(folder.path()).contains("has no bin/java"));
        assert!(refused(&folder.path().join("absent")).contains("has no bin/java"));
    }

    #[test]
    fn a_home_is_named_by_its_path_or_by_its_folder_beside_others() {
        assert_eq!(Java::home_named("temurin-17"), Path::new("/usr/lib/jvm/temurin-17"));
        assert_eq!(Java::home_named("/opt/jdk-17"), Path::new("/opt/jdk-17"));
    }

    #[test]
    fn the_version_is_read_from_the_output_of_java() {
        assert_eq!(parse_version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(parse_version("openjdk version \"21\" 2023-09-19"), Some(21));
        assert_eq!(parse_version("java version \"1.8.0_292\""), Some(8));
        assert_eq!(parse_version("Picked up _JAVA_OPTIONS: -Xmx1g\nopenjdk version \"17-ea\" 2021"), Some(17));
        assert_eq!(parse_version("command not found"), None);
    }
}
