//! The real program: real workers against real servers, whole studies, a real node of Cassandra.

#![allow(clippy::unwrap_used)]

mod candidates;
mod cluster;
mod documents;
mod lab;
mod testbed;

/// Parts of the tests of Penates: the store, its servers, what is fetched.
#[allow(dead_code)]
#[path = "../../../../crates/penates/tests/cli/fedora/server.rs"]
mod fedora;
#[allow(dead_code)]
#[path = "../../../../crates/penates/tests/cli/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../../../../crates/penates/tests/cli/clients/packages.rs"]
mod packages;
#[allow(dead_code)]
#[path = "../../../../crates/penates/tests/cli/validators.rs"]
mod validators;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The path of a list of packages.
fn beside(name: &str) -> PathBuf {
    harness::workspace().join("crates/penates/tests/cli/clients").join(name)
}

/// A command of the instruments with a clean environment. It finds Penates beside itself.
fn lares<S: AsRef<str>>(args: &[S]) -> Command {
    penates_program();
    harness::command(Path::new(env!("CARGO_BIN_EXE_lares")), args)
}

/// The program of Penates, which is beside that of the instruments. Cargo builds no program of another package for a
/// test, so it is built here, unless whoever runs the tests names one.
fn penates_program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(program) = std::env::var_os("PENATES_PROGRAM") {
            return program.into();
        }
        let built = Command::new(env!("CARGO")).args(["build", "--quiet", "--locked", "--package", "penates"]).status();
        assert!(built.unwrap().success());
        Path::new(env!("CARGO_BIN_EXE_lares")).with_file_name("penates")
    });
    &PROGRAM
}
