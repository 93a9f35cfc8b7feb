//! Proofs that `cargo xtask proofs` runs: with real servers on clusters of several Cassandra nodes,
//! which die meanwhile, with a change feed that waits for a minute, and with programs that take
//! minutes to build: a validator, the packages.

mod fedora;
mod following;
mod mix;
mod package;
mod requests;
mod restored;
mod rocfl;
mod rolling;
mod three_nodes;
mod transactions;
mod two_datacenters;
mod walk;
mod writers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that Cargo installs from its registry. It is kept from run to run.
fn cargo_installed(name: &str, version: &str, more: &[&str]) -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{version}"));
    let program = kept.join("bin").join(name);
    if !program.exists() {
        let mut install = Command::new(env!("CARGO"));
        install.args(["install", "--locked", "--version", version, "--root"]).arg(&kept).args(more);
        install.arg("--target-dir").arg(kept.join("target")).arg(name);
        assert!(install.status().unwrap().success());
        fs::remove_dir_all(kept.join("target")).unwrap();
    }
    program
}
