//! What a running candidate does at stated instants, and shows meanwhile.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;

use super::command::command;
use super::{Candidate, CandidateError, Files, RunningCandidate};
use crate::beside::{MarkSpec, PlannedEvent};
use crate::plan::invalid;

/// A command that runs. It is killed with this value, with everything that it has started.
pub(crate) struct RunningCommand {
    /// Its process.
    pub process: Child,
    group: Option<Pid>,
}

impl RunningCommand {
    /// Kills it, with everything that it has started.
    pub fn kill(&self) {
        if let Some(group) = self.group {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Candidate {
    /// Whether it has the commands of these events.
    ///
    /// # Errors
    /// One is missing.
    pub fn check_events(&self, events: &[PlannedEvent]) -> Result<(), CandidateError> {
        let is_there = |run: &str| match &self.files {
            _ if self.spec.commands.contains_key(run) => true,
            Files::Folder(folder) => is_executable(&folder.join(run)),
            Files::Shipped(_) => false,
        };
        match events.iter().position(|event| !is_there(&event.run)) {
            None => Ok(()),
            Some(number) => {
                let message = format!(
                    "the candidate {} has no command `{}`: write it below [commands] in its candidate.toml, or put an \
                     executable file of this name beside it",
                    self.spec.name, events[number].run
                );
                Err(invalid(format!("plan: events[{number}].run"), message).into())
            }
        }
    }
}

fn is_executable(path: &std::path::Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

impl RunningCandidate {
    /// How its marks are found.
    pub(crate) fn marks(&self) -> &[MarkSpec] {
        &self.spec.marks
    }

    /// A text with the values of its places.
    pub(crate) fn filled(&self, text: &str) -> String {
        self.places.fill(text)
    }

    /// Starts a command of its file, or an executable file of its folder. Both have variables that say
    /// where the candidate is.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start_command(&self, run: &str, arguments: &[String], out: File) -> io::Result<RunningCommand> {
        let id = self.id().map(|id| id.to_string()).unwrap_or_default();
        let of_file = [format!("${{folder}}/{run}")];
        let words = self.spec.commands.get(run).map_or(of_file.as_slice(), Vec::as_slice);
        let words = words.iter().chain(arguments);
        let words: Vec<_> = words.map(|word| self.places.fill(&word.replace("${pid}", &id))).collect();
        let process = command(&self.spec, &words)
            .env("TESTBED_URL", self.url())
            .env("TESTBED_DATA", &self.places.data)
            .env("TESTBED_FOLDER", &self.places.folder)
            .env("TESTBED_PROGRAM", &self.places.program)
            .env("TESTBED_PID", id)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(RunningCommand { process, group })
    }

    /// Lets what a command has left running end with the candidate.
    pub(crate) fn keep(&self, mut command: RunningCommand) {
        // Without processes the number of the group may be given to another one.
        let left = command.group.take().filter(|group| test_kill_process_group(*group).is_ok());
        self.groups.lock().extend(left);
    }
}
