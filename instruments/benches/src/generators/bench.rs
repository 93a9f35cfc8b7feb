//! Runs the generators in turn against one server, which does nothing.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use testbed::monitor::Counters;

use super::report::{Row, Sample};
use super::tool::{Load, Tool};
use crate::rig::penates::{Penates, listening, without_settings};
use crate::rig::process::Process;

/// The settings of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The generators.
    pub tools: Vec<Tool>,
    /// Connections of closed loops.
    pub connections: u32,
    /// Requests per second of open loops.
    pub rate: u32,
    /// How often each is measured.
    pub repetitions: u32,
    /// How long a load lasts, in seconds.
    pub seconds: u32,
    /// Bytes of the body of each response.
    pub body_bytes: u32,
    /// The processors of the server and of the generators; `None`: all share all.
    pub pinned: Option<(usize, usize)>,
}

impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, rate, repetitions, seconds, body_bytes, pinned, .. } = self;
        write!(out, "{body_bytes} bytes; {connections} connections of closed loops; {rate} requests/s of open ones; ")?;
        write!(out, "{repetitions} repetitions of {seconds} s; ")?;
        match pinned {
            Some((server, generators)) => {
                write!(out, "the server on processor {server}, the generators on processor {generators}")
            }
            None => write!(out, "server and generators share the processors"),
        }
    }
}

/// The first and the last of so many processors, if these are two and `taskset` can keep a program on each.
pub fn pins(processors: usize) -> Option<(usize, usize)> {
    let last = processors.checked_sub(1).filter(|last| *last > 0)?;
    let can_be_kept = |processor: usize| {
        let tried = Command::new("taskset").args(["-c", &processor.to_string(), "true"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    (can_be_kept(0) && can_be_kept(last)).then_some((0, last))
}

/// A command that stays on a processor, without settings of Penates from the environment.
fn pinned(words: &[String], processor: Option<usize>) -> Command {
    let (program, rest) = words.split_first().map_or(("", &[][..]), |(program, rest)| (program.as_str(), rest));
    let mut command = match processor {
        None => without_settings(Path::new(program)),
        Some(processor) => {
            let mut command = without_settings(Path::new("taskset"));
            command.args(["-c", &processor.to_string(), program]);
            command
        }
    };
    command.args(rest);
    command
}

/// Measures all generators in turn, in each repetition.
///
/// # Errors
/// The server does not start. A generator that is missing or fails has a row that says so.
pub fn run(settings: &Settings, penates: &Penates, folder: &Path) -> Result<Vec<Row>> {
    let program = penates.program();
    let mut rows: Vec<_> = settings.tools.iter().map(|tool| row(*tool, program)).collect();
    let (name, body_bytes) = (program.to_string_lossy(), settings.body_bytes.to_string());
    let words = [&*name, "testbed", "null", "--listen", "127.0.0.1:0", "--body-bytes", &body_bytes];
    let mut server = pinned(&words.map(str::to_owned), settings.pinned.map(|(server, _)| server));
    let mut server = Process::start(&mut server, &folder.join("server.log"))?;
    let address = server.wait_for(|said| listening(said, "http"))?;
    let load = Load {
        url: format!("http://{address}/"),
        connections: settings.connections,
        rate: settings.rate,
        seconds: settings.seconds,
        folder: folder.to_owned(),
        penates: program.to_owned(),
    };
    for _ in 0..settings.repetitions {
        for row in rows.iter_mut().filter(|row| row.not_run.is_none()) {
            match measure(row.tool, &load, settings.pinned.map(|(_, generators)| generators)) {
                Ok(sample) => row.samples.push(sample),
                Err(error) => row.not_run = Some(format!("{error:#}")),
            }
        }
    }
    Ok(rows)
}

fn row(tool: Tool, penates: &Path) -> Row {
    let (version, not_run) = match tool.version(penates) {
        Ok(version) => (version, None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    Row { tool, version, samples: Vec::new(), not_run }
}

/// Makes one load. The processor time is that of the whole program, from its start to its end.
fn measure(tool: Tool, load: &Load, processor: Option<usize>) -> Result<Sample> {
    let before = Counters::own()?.reaped_cpu_s;
    let mut command = pinned(&tool.words(load)?, processor);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{tool} cannot be started"))?;
    let cpu_s = Counters::own()?.reaped_cpu_s - before;
    let errors = String::from_utf8_lossy(&output.stderr);
    let why = errors.trim().lines().last().unwrap_or_default();
    ensure!(tool.has_ended_well(output.status.code()), "{tool} ended with {}: {why}", output.status);
    let said = tool.said(load, &String::from_utf8_lossy(&output.stdout))?;
    ensure!(said.count > said.failed, "{tool}: all of {} requests failed", said.count);
    let cpu_us = |cpu_s| said.us_for_each_success(cpu_s);
    Ok(Sample {
        per_s: said.per_s,
        cpu_us: cpu_us(cpu_s),
        load_cpu_us: said.load_cpu_s.map(cpu_us),
        failed: said.failed,
        lateness_p99_ms: said.lateness_p99_ms,
        verdict: said.verdict,
    })
}
