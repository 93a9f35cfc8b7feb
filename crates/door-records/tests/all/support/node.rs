//! Packages of Node.js's registry, which are fetched once and kept from run to run.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::python::run;

/// A folder from which Node.js finds a package, such as `ioredis@6.0.0`.
pub fn with(package: &str) -> Result<PathBuf, String> {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package.replace('@', "-"));
    let name = package.split('@').next().unwrap_or(package);
    if !kept.join("node_modules").join(name).join("package.json").exists() {
        std::fs::create_dir_all(&kept).map_err(|error| error.to_string())?;
        let mut install = Command::new("npm");
        install.args(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
        run(install.arg(&kept).arg(package))?;
    }
    Ok(kept)
}
