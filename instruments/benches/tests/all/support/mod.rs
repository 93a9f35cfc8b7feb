//! Shared by tests of several benchmarks.
#![allow(clippy::unwrap_used, dead_code)] // No test file uses all of it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The program as the tests of the whole workspace build it, beside a benchmark. Tests of this
/// package alone may not have it; then the benchmark builds it.
pub fn built_penates(benchmark: &str) -> Option<PathBuf> {
    Some(Path::new(benchmark).with_file_name("penates")).filter(|program| program.exists())
}

/// Reports a test that was left out, in the file that `PENATES_NOT_RUN` names. If `CI` is set, no
/// test may be left out.
pub fn not_run(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {what}");
    eprintln!("not run: {what}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = OpenOptions::new().append(true).create(true).open(path).unwrap();
        list.write_all(format!("{what}\n").as_bytes()).unwrap();
    }
}
