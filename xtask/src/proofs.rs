//! Tests that take minutes, because they kill nodes of clusters and wait for them to come back. They are marked as ignored, so that the
//! usual run of all tests leaves them out.

use anyhow::Result;

use crate::{cargo, tools};

/// Packages, their test programs, and the beginnings of the names of what is run there.
const PROOFS: [(&str, &str, &str); 3] = [
    ("store-cassandra", "three_nodes", ""),
    ("store-cassandra", "two_datacenters", ""),
    ("penates", "cli", "three_nodes"),
];

/// Runs all of them, one after the other: each has the machine for itself.
pub fn run() -> Result<()> {
    tools::provide();
    for (package, program, names) in PROOFS {
        crate::run(cargo().args(["test", "--locked", "-p", package, "--test", program, "--", names]).args([
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ]))?;
    }
    Ok(())
}
