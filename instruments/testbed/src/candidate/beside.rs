//! What a running candidate does at stated instants, and shows meanwhile.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use super::command::{self, Lifeline, guarded, output};
use super::{Candidate, CandidateError, Files, RunningCandidate};
use crate::beside::{MarkSpec, PlannedEvent};
use crate::monitor::{Groups, NodeSource, has_processes};
use crate::plan::invalid;

/// A command that runs. It is killed with this value, with everything that it has started.
pub(crate) struct RunningCommand {
    /// Its process.
    pub process: Child,
    group: Option<Pid>,
    /// The groups of the candidate: its own is among them while it runs.
    groups: Groups,
    lifeline: Option<Lifeline>,
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
        if let Some(group) = self.group {
            self.groups.remove(group);
        }
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

    /// The nodes of Cassandra whose figures are sampled, and why others have none.
    ///
    /// # Errors
    /// The command that should print them fails.
    pub(crate) async fn nodes(&self) -> Result<(Vec<NodeSource>, Vec<String>), CandidateError> {
        let Some(command) = &self.spec.jolokia else { return Ok(Default::default()) };
        let printed = output(&self.spec, &self.places.words(command)).await?;
        let (mut nodes, mut without) = (Vec::new(), Vec::new());
        for line in printed.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (name, place) = line.split_once(' ').unwrap_or((line, "it has no agent"));
            match place.starts_with("http://") {
                true => nodes.push(NodeSource { name: name.to_owned(), url: place.to_owned() }),
                false => without.push(format!("{name}: {place}")),
            }
        }
        Ok((nodes, without))
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
    pub(crate) async fn start_command(&self, run: &str, arguments: &[String], out: File) -> io::Result<RunningCommand> {
        let id = self.id().map(|id| id.to_string()).unwrap_or_default();
        let of_file = [format!("${{folder}}/{run}")];
        let words = self.spec.commands.get(run).map_or(of_file.as_slice(), Vec::as_slice);
        let words = words.iter().chain(arguments);
        let words: Vec<_> = words.map(|word| self.places.fill(&word.replace("${pid}", &id))).collect();
        let mut command = guarded(&self.spec, &words)?;
        command
            .env("TESTBED_URL", self.url())
            .env("TESTBED_DATA", &self.places.data)
            .env("TESTBED_FOLDER", &self.places.folder)
            .env("TESTBED_PROGRAM", &self.places.program)
            .env("TESTBED_PID", id);
        let (process, lifeline) = command::start(command, out).await?;
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        // From now on: what it starts is the candidate before it ends, too.
        if let Some(group) = group {
            self.groups.add(group);
        }
        Ok(RunningCommand { process, group, groups: self.groups.clone(), lifeline: Some(lifeline) })
    }

    /// Lets what a command has left running be a part of the candidate, and end with it.
    pub(crate) fn keep(&self, mut command: RunningCommand) {
        let Some(group) = command.group.take() else { return };
        match has_processes(group) {
            true => self.lifelines.lock().extend(command.lifeline.take()),
            // Without its watcher nothing of the group is left, and its number may be given to another one.
            false => self.groups.remove(group),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;
    use crate::monitor::test_server::{Reply, Server};

    #[tokio::test]
    async fn what_a_command_leaves_running_is_a_part_of_the_candidate() {
        let (folder, server) = (tempfile::tempdir().unwrap(), Server::start(|_, _| Reply::page("")).await);
        let spec = format!(
            "name = \"x\"\nstart = [\"sleep\", \"600\"]\nready = \"{}\"\n[commands]\n\
             leave = [\"sh\", \"-c\", \"sleep 600 &\"]\nend = [\"true\"]\n",
            server.url
        );
        std::fs::write(folder.path().join("candidate.toml"), spec).unwrap();
        let candidate = Candidate::read(folder.path()).unwrap();
        let (data, program) = (folder.path().join("data"), Path::new("/bin/false"));
        let running = RunningCandidate::start(&candidate, &data, folder.path(), program).await.unwrap();
        let own = running.groups().all();
        assert_eq!(own.len(), 1);
        for (run, left) in [("leave", 1), ("end", 0)] {
            let before = running.groups().all().len();
            let out = File::create(folder.path().join("out")).unwrap();
            let mut command = running.start_command(run, &[], out).await.unwrap();
            assert_eq!(running.groups().all().len(), before + 1, "{run}");
            command.process.wait().await.unwrap();
            running.keep(command);
            assert_eq!(running.groups().all().len(), before + left, "{run}");
        }
        assert_eq!(running.groups().all().len(), 2);
        running.end().await;
    }
}
