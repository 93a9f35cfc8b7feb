//! `lares cluster`, with a real node.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::harness::*;
use crate::lares;

/// Whether nodes can be started here. If not, that is reported, and is a failure if `CI` is set.
pub fn can_run() -> bool {
    let Err(error) = cluster::prerequisites() else { return true };
    let output = format!("lares cluster and lab: {error}");
    assert!(std::env::var_os("CI").is_none(), "where CI is set nothing may be left out: {output}");
    eprintln!("not run: {output}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        std::io::Write::write_all(&mut list, format!("{output}\n").as_bytes()).unwrap();
    }
    false
}

/// Runs a command on the cluster in a folder.
fn run(folder: &Path, args: &[&str]) -> Ran {
    Ran::of(lares(&[&["cluster"], args, &["--folder", folder.to_str().unwrap()]].concat()))
}

/// The state of the only node of a cluster.
fn node(folder: &Path) -> Value {
    run(folder, &["status", "--json"]).ends_with(0).json()
}

/// Whether a process runs. A process that has ended but was not waited for (state Z) does not run.
fn is_alive(pid: &Value) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(") ").next().unwrap().starts_with('Z')
}

/// A cluster of one node in the foreground. Dropping the value ends it.
struct Foreground(Child);

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_cluster_leaves_no_node_behind_and_comes_back() {
    if !can_run() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("cluster");
    let mut up = lares(&["cluster", "up", "--folder", folder.to_str().unwrap()]);
    let mut owner = Foreground(up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_until(|| {
        assert!(owner.0.try_wait().unwrap().is_none(), "the cluster has ended by itself");
        run(&folder, &["status"]).text().contains("starting")
    });
    let pid = node(&folder)["pid"].clone();
    run(&folder, &["pause", "1"]).ends_with(0);
    assert_eq!(node(&folder)["state"], "paused");
    assert!(is_alive(&pid));
    owner.0.kill().unwrap();
    owner.0.wait().unwrap();
    wait_until(|| !is_alive(&pid));
    let output = run(&folder, &["status"]).ends_with(3);
    assert!(output.stderr.contains("does not run; start it with"), "{}", output.stderr);

    let up = run(&folder, &["up", "--detach", "--json"]).ends_with(0).json();
    assert_eq!(up["state"], "up");
    assert_eq!(node(&folder), up);
    let held = run(&folder, &["up"]).ends_with(3);
    assert!(held.stderr.contains("lares cluster down --folder"), "{}", held.stderr);
    let no_such_node = run(&folder, &["kill", "2"]).ends_with(1);
    assert!(no_such_node.stderr.contains("there is no node 2"), "{}", no_such_node.stderr);
    let killed = run(&folder, &["kill", "1", "--json"]).ends_with(0).json();
    assert_eq!(killed["state"], "stopped");
    assert!(!is_alive(&up["pid"]));
    run(&folder, &["down"]).ends_with(0);
    run(&folder, &["status"]).ends_with(3);
    let again = run(&folder, &["down"]).ends_with(0);
    assert!(again.stderr.contains("does not run"), "{}", again.stderr);
}

#[test]
fn invalid_options_are_refused_before_anything_is_made() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("cluster");
    for wrong in [
        ["--nodes", "0"],
        ["--nodes", "33"],
        ["--datacenters", "0"],
        ["--yaml", "novalue"],
        ["--commitlog-sync", "never"],
        ["--heap", "much"],
    ] {
        run(&folder, &[&["up"], &wrong[..]].concat()).ends_with(2);
    }
    let output = run(&folder, &["status"]).ends_with(3);
    assert!(output.stderr.contains("make one with `lares cluster up"), "{}", output.stderr);
    assert!(!folder.exists());
}
