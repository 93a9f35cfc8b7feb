//! Packages of Maven Central and of Node.js's registry, fetched once and kept from run to run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Several tests want the same packages at the same time.
static FETCHING: Mutex<()> = Mutex::new(());

/// A folder with the jars that a list beside this file names, and those that they need.
pub fn of_maven(list: &str) -> Result<PathBuf, String> {
    let list = super::beside(list);
    // A changed list gets a folder of its own.
    let named = fs::read(&list).map_err(|error| error.to_string())?;
    kept(&format!("clients-{:08x}", crc32fast::hash(&named)), |folder| {
        let mut command = Command::new("mvn");
        command.args(["--quiet", "--batch-mode", "--file"]).arg(&list);
        command.arg("org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies");
        run(command.arg(format!("-DoutputDirectory={}", folder.display())))
    })
}

/// A folder from which Node.js finds a package.
pub fn of_npm(name: &str, version: &str) -> Result<PathBuf, String> {
    kept(&format!("clients-{}-{version}", name.replace(['@', '/'], "-")), |folder| {
        let mut command = Command::new("npm");
        command.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
        run(command.arg(folder).arg(format!("{name}@{version}")))
    })
}

/// A folder that is filled once, and has everything or is not there.
fn kept(name: &str, fill: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = cache.join(name);
    // One that panicked left nothing half made.
    let _fetching = FETCHING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !folder.is_dir() {
        let filled = tempfile::tempdir_in(cache).map_err(|error| error.to_string())?;
        fill(filled.path())?;
        if fs::rename(filled.path(), &folder).is_err() && !folder.is_dir() {
            return Err(format!("cannot make {}", folder.display()));
        }
    }
    Ok(folder)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err([output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat()),
    }
}
