//! The program of an earlier commit, as somebody runs it who has not upgraded yet. It is built here
//! from the history of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::harness::*;

/// The last commit before level 7.
const COMMIT: &str = "2bd7a49";

/// Names an older program that is there, in place of the one of the commit.
const PROGRAM: &str = "PENATES_OLDER_PROGRAM";

/// The older program. It is kept from run to run.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| std::env::var_os(PROGRAM).map_or_else(built, PathBuf::from))
}

fn built() -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("older-{COMMIT}"));
    let program = kept.join("penates");
    if program.exists() {
        return program;
    }
    let (source, target) = (kept.join("source"), kept.join("target"));
    let _ = fs::remove_dir_all(&source);
    fs::create_dir_all(&source).unwrap();
    let mut archive = Command::new("git");
    archive.args(["archive", COMMIT]).current_dir(workspace()).stdout(Stdio::piped());
    let mut archive = archive.spawn().unwrap();
    let mut unpack = Command::new("tar");
    unpack.args(["--extract", "--directory"]).arg(&source).stdin(archive.stdout.take().unwrap());
    let is_unpacked = unpack.status().unwrap().success() && archive.wait().unwrap().success();
    assert!(is_unpacked, "commit {COMMIT} is not here: a shallow clone needs `git fetch --unshallow`");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "-p", "penates", "--target-dir"]).arg(&target).current_dir(&source);
    assert!(build.status().unwrap().success());
    fs::rename(target.join("debug/penates"), &program).unwrap();
    [source, target].iter().for_each(|folder| fs::remove_dir_all(folder).unwrap());
    program
}

/// A command of the older program, with a clean environment.
pub fn older(args: &[&str]) -> Command {
    let mut command = Command::new(program());
    let ours = penates(args);
    ours.get_envs().for_each(|(name, _)| {
        command.env_remove(name);
    });
    command.args(args).stdin(Stdio::null());
    command
}
