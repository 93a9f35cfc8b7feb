//! Packages of Maven Central, which are fetched once and kept from run to run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::python::run;

/// The folder with the jars that `tests/clients/NAME.pom.xml` names, and those that they need.
pub fn with(name: &str) -> Result<PathBuf, String> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let kept = cache.join(name);
    if !kept.is_dir() {
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/clients/{name}.pom.xml"));
        // The folder has everything, or is not there.
        let filled = tempfile::tempdir_in(cache).map_err(|error| error.to_string())?;
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "--file"]).arg(list);
        maven.arg("org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies");
        run(maven.arg(format!("-DoutputDirectory={}", filled.path().display())))
            .map_err(|error| format!("mvn: {error}"))?;
        std::fs::rename(filled.path(), &kept).map_err(|error| error.to_string())?;
    }
    Ok(kept)
}
