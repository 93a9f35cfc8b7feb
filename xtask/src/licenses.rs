//! Checks the licences of dependencies.

use anyhow::{Context, Result, bail};
use cargo_metadata::{MetadataCommand, Package};
use spdx::{Expression, LicenseReq, ParseMode};

use crate::root;

/// Licences that are compatible with Apache-2.0 in a distributed binary.
const ACCEPTED: [&str; 12] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Also accepted for this package, which only fuzz targets have: they are never distributed.
const ACCEPTED_FOR_FUZZING: (&str, &str) = ("libfuzzer-sys", "NCSA");

/// Checks every package that the lock file names.
pub fn check() -> Result<()> {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).exec().context("cargo metadata")?;
    let refused: Vec<_> = metadata.packages.iter().filter(|package| !is_accepted(package)).map(describe).collect();
    if !refused.is_empty() {
        bail!("licences that are not accepted:\n  {}", refused.join("\n  "));
    }
    println!("licences: {} packages, all accepted", metadata.packages.len());
    Ok(())
}

fn is_accepted(package: &Package) -> bool {
    let Some(license) = &package.license else { return false };
    // Older manifests separate alternatives by a slash.
    let Ok(expression) = Expression::parse_mode(license, ParseMode::LAX) else { return false };
    let is_on_a_list = |requirement: &LicenseReq| {
        let is_listed = |name| ACCEPTED.contains(&name) || ACCEPTED_FOR_FUZZING == (package.name.as_str(), name);
        requirement.license.id().is_some_and(|id| is_listed(id.name))
    };
    expression.evaluate(is_on_a_list)
}

fn describe(package: &Package) -> String {
    format!("{} {}: {}", package.name, package.version, package.license.as_deref().unwrap_or("no licence given"))
}
