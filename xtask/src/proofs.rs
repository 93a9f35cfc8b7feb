//! Tests that take minutes, because they kill nodes of clusters and wait for them to return, or build
//! other programs: a validator, the packager of Debian packages, an earlier Penates. They are marked
//! as ignored, so the usual run of all tests skips them.

use anyhow::{Result, bail};

use crate::{cargo, tools};

/// Packages, their test programs, and prefixes of the names of the tests to run.
const PROOFS: [(&str, &str, &str); 11] = [
    ("store-cassandra", "copies", ""),
    ("store-cassandra", "three_nodes", ""),
    ("store-cassandra", "two_datacenters", ""),
    ("penates", "cli", "proofs::three_nodes"),
    ("penates", "cli", "proofs::two_datacenters"),
    ("penates", "cli", "proofs::following"),
    ("penates", "cli", "proofs::restored"),
    ("penates", "cli", "proofs::rolling"),
    ("penates", "cli", "proofs::rocfl"),
    ("penates", "cli", "proofs::package"),
    ("penates", "cli", "proofs::walk"),
];

/// The names of the proofs.
pub fn names() -> Vec<String> {
    let name =
        |(package, program, names): (&str, &str, &str)| format!("{package}: {program} {names}").trim().to_owned();
    PROOFS.map(name).to_vec()
}

/// Runs all of them, one after the other, so that each has the machine for itself. One run reports
/// everything that fails.
pub fn run() -> Result<()> {
    tools::provide();
    let mut failed = Vec::new();
    for (package, program, names) in PROOFS {
        let mut tests = cargo();
        tests.args(["test", "--locked", "-p", package, "--test", program, "--", names]);
        tests.args(["--ignored", "--nocapture", "--test-threads=1"]);
        // A proof that cannot run here must fail.
        tests.env("CI", "true");
        if let Err(error) = crate::run(&mut tests) {
            failed.push(error.to_string());
        }
    }
    if !failed.is_empty() {
        bail!("{} of {} failed: {}", failed.len(), PROOFS.len(), failed.join("; "));
    }
    Ok(())
}
