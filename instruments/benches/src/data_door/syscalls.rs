//! Counts the system calls of a process with perf, if the machine permits.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::process::Process;

/// The number of system calls of a process and its children during `work`; `None` if perf is
/// missing or may not count.
pub fn count(process: &Process, work: impl FnOnce() -> Result<()>) -> Result<Option<u64>> {
    let ids = process.child_ids()?.into_iter().chain([process.id()]);
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", &ids.join(",")]);
    let Ok(counting) = perf.stdout(Stdio::null()).stderr(Stdio::piped()).spawn() else { return Ok(None) };
    // Counting starts a little late: perf prints nothing before its end, so its start cannot be
    // observed.
    std::thread::sleep(std::time::Duration::from_millis(300));
    work()?;
    let id = i32::try_from(counting.id()).ok().and_then(Pid::from_raw).context("no process id")?;
    // It has ended by itself if it may not count.
    let _ = kill_process(id, Signal::INT);
    let said = counting.wait_with_output()?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    Ok(said.lines().find(|line| line.contains("raw_syscalls")).and_then(|line| line.split(',').next()?.parse().ok()))
}
