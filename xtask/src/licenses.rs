//! Checks the licences of dependencies.

use anyhow::{Context, Result, bail};
use cargo_metadata::{MetadataCommand, Package};
use spdx::{Expression, LicenseReq, ParseMode};

use crate::{FUZZ_MANIFEST, root};

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

/// Also accepted for fuzz targets, which are never distributed: the licence of libFuzzer.
const ACCEPTED_FOR_FUZZING: [&str; 1] = ["NCSA"];

/// Checks every package that the lock files name.
pub fn check() -> Result<()> {
    check_manifest("Cargo.toml", &[])?;
    check_manifest(FUZZ_MANIFEST, &ACCEPTED_FOR_FUZZING)
}

fn check_manifest(manifest: &str, besides: &[&str]) -> Result<()> {
    let metadata = MetadataCommand::new().manifest_path(root().join(manifest)).exec().context("cargo metadata")?;
    let is_refused = |package: &&Package| !is_accepted(package, besides);
    let refused: Vec<_> = metadata.packages.iter().filter(is_refused).map(describe).collect();
    if !refused.is_empty() {
        bail!("licences that are not accepted:\n  {}", refused.join("\n  "));
    }
    println!("licences: {} packages of {manifest}, all accepted", metadata.packages.len());
    Ok(())
}

fn is_accepted(package: &Package, besides: &[&str]) -> bool {
    let Some(license) = &package.license else { return false };
    // Older manifests separate alternatives by a slash.
    let Ok(expression) = Expression::parse_mode(license, ParseMode::LAX) else { return false };
    let is_on_a_list = |requirement: &LicenseReq| {
        requirement.license.id().is_some_and(|id| ACCEPTED.contains(&id.name) || besides.contains(&id.name))
    };
    expression.evaluate(is_on_a_list)
}

fn describe(package: &Package) -> String {
    format!("{} {}: {}", package.name, package.version, package.license.as_deref().unwrap_or("no licence given"))
}
