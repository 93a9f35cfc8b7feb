//! Finds the Java that runs Cassandra.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{ClusterError, Result};

/// The version that Cassandra 5.0 is made for. It also accepts 11, which needs other options; it
/// refuses 21.
const VERSION: u32 = 17;

/// Where Linux distributions install several versions of Java side by side.
const INSTALLED: &str = "/usr/lib/jvm";

/// A Java 17.
#[derive(Clone, Debug)]
pub struct Java {
    /// The program.
    pub program: PathBuf,
}

impl Java {
    /// Finds one in `JAVA_HOME`, on the `PATH`, or installed beside that.
    pub fn find() -> Result<Self> {
        let named = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()).map(|home| in_home(home.as_ref()));
        let mut tried = Vec::new();
        for program in named.into_iter().chain(on_path("java")).chain(installed()) {
            match version(&program) {
                Some(VERSION) => return Ok(Self { program }),
                Some(other) => tried.push(format!("{} is Java {other}", program.display())),
                None => tried.push(format!("{} does not report its version", program.display())),
            }
        }
        let found = if tried.is_empty() { "there is no Java".to_owned() } else { tried.join(", ") };
        Err(ClusterError::NoJava { found })
    }

    /// The `JAVA_HOME` for programs that should use this Java.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        let program = self.program.canonicalize().ok()?;
        program.parent().and_then(Path::parent).map(Path::to_owned)
    }
}

/// A program of this name in one of the folders of the `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
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

/// The version that a Java reports.
fn version(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("-version").output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stderr))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_output_of_java() {
        assert_eq!(parse_version("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(parse_version("openjdk version \"21\" 2023-09-19"), Some(21));
        assert_eq!(parse_version("java version \"1.8.0_292\""), Some(8));
        assert_eq!(parse_version("Picked up _JAVA_OPTIONS: -Xmx1g\nopenjdk version \"17-ea\" 2021"), Some(17));
        assert_eq!(parse_version("command not found"), None);
    }
}
