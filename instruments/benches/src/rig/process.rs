//! Servers as child processes, and what they use. No server outlives the benchmark, however that
//! ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cluster::Guarded;
use rustix::process::Signal;
use testbed::monitor::{Counters, Resident, children};

/// The time limit for a server to be ready, and to end.
const PATIENCE: Duration = Duration::from_secs(180);
/// The pause between two polls.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The time limit for a server's background work. Merging ten million records takes minutes.
const SETTLE_MAX: Duration = Duration::from_secs(600);
/// How long it must be idle then, and how much of a processor it may use meanwhile.
const SETTLED_FOR: Duration = Duration::from_millis(500);
const IDLE_SHARE: f64 = 0.05;

/// How many bytes of a server's last output are shown.
const LAST_WORDS_BYTES: usize = 2_000;

/// A server that ends when the value is dropped.
pub struct Process {
    child: Guarded,
    log: PathBuf,
}

impl Process {
    /// Starts it, with its output in the file `log`, and with the arguments, the environment and
    /// the folder of a command.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let program = command.get_program();
        // The shell that becomes the program would report it in the log only.
        ensure!(cluster::program(program).is_some(), "cannot start {program:?}: there is no such program");
        let child = Guarded::spawn(program, command.get_args(), out, |guarded| {
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => guarded.env(name, value),
                    None => guarded.env_remove(name),
                };
            }
            if let Some(folder) = command.get_current_dir() {
                guarded.current_dir(folder);
            }
        });
        let child = child.with_context(|| format!("cannot start {program:?}"))?;
        Ok(Self { child, log: log.to_path_buf() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.pid()
    }

    /// Waits until its output contains something that `find` finds.
    pub fn wait_for<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let begun = Instant::now();
        loop {
            // In this order nothing that it said before its end is missed.
            let ended = self.child.try_wait()?;
            let said = fs::read_to_string(&self.log)?;
            if let Some(found) = find(&said) {
                return Ok(found);
            }
            if let Some(status) = ended {
                bail!(has_ended(status, &said));
            }
            ensure!(begun.elapsed() < PATIENCE, "a server is not ready; it said: {}", end_of(&said));
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Fails if it has ended: what a client measured then says nothing about it.
    pub fn check_runs(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!(has_ended(status, &fs::read_to_string(&self.log)?)),
        }
    }

    /// What the server and its children have used so far.
    pub fn usage(&self) -> Result<Counters> {
        Ok(Counters::with_children(self.id())?)
    }

    /// Waits until it is almost idle (for example after merging), at most for ten minutes.
    ///
    /// # Errors
    /// It is still busy then: what would be measured beside its work would say little.
    pub fn settle(&self) -> Result<()> {
        self.settle_within(SETTLE_MAX)
    }

    fn settle_within(&self, most: Duration) -> Result<()> {
        let begun = Instant::now();
        loop {
            let before = self.usage()?;
            std::thread::sleep(SETTLED_FOR);
            if self.usage()?.since(before).cpu_s < IDLE_SHARE * SETTLED_FOR.as_secs_f64() {
                return Ok(());
            }
            ensure!(begun.elapsed() < most, "a server is still busy after {most:?}");
        }
    }

    /// The process ids of its children.
    pub fn child_ids(&self) -> Result<Vec<u32>> {
        Ok(children(self.id())?)
    }

    /// Its present memory.
    pub fn memory(&self) -> Result<Resident> {
        Ok(Resident::of(self.id())?)
    }

    /// Resets the peak to the memory that is resident now.
    pub fn reset_peak(&self) -> Result<()> {
        Resident::reset_peak(self.id()).context("cannot reset the peak of a process")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What does not end in time is killed when the child is dropped.
        let _ = self.child.signal(Signal::TERM).and_then(|()| self.child.wait_for(PATIENCE));
    }
}

fn has_ended(status: ExitStatus, said: &str) -> String {
    format!("a server ended with {status} and said: {}", end_of(said))
}

/// The last output of a server: some write a line per request.
fn end_of(said: &str) -> &str {
    let from = said.len().saturating_sub(LAST_WORDS_BYTES);
    &said[said.ceil_char_boundary(from)..]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_prints_has_memory_and_ends_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo here; wait"]);
        let mut process = Process::start(&mut command, &folder.path().join("log")).unwrap();
        process.wait_for(|said| said.contains("here").then_some(())).unwrap();
        let memory = process.memory().unwrap();
        assert!(memory.now_bytes > 0.0 && memory.peak_bytes >= memory.now_bytes, "{memory:?}");
        assert_eq!(process.child_ids().unwrap().len(), 1, "its watcher is none of its children");
        process.check_runs().unwrap();
        let id = process.id();
        drop(process);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn a_server_that_does_not_become_idle_in_time_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        let busy = Process::start(&mut command, &folder.path().join("busy")).unwrap();
        let begun = Instant::now();
        // A busy machine may leave it no time, so that it seems idle.
        let error = loop {
            match busy.settle_within(Duration::ZERO) {
                Err(error) => break error,
                Ok(()) => assert!(begun.elapsed() < PATIENCE, "it never seems busy"),
            }
        };
        assert!(error.to_string().contains("still busy"), "{error}");
        let idle = Process::start(Command::new("sleep").arg("1000"), &folder.path().join("idle")).unwrap();
        idle.settle().unwrap();
    }

    #[test]
    fn a_process_gets_the_environment_and_the_folder_of_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo \"$(pwd) <$ADDED> <$CARGO_MANIFEST_DIR>.\""]);
        command.env("ADDED", "a b").env_remove("CARGO_MANIFEST_DIR").current_dir("/");
        let mut process = Process::start(&mut command, &folder.path().join("log")).unwrap();
        process.wait_for(|said| said.contains("/ <a b> <>.").then_some(())).unwrap();
    }

    #[test]
    fn a_server_that_ends_at_once_or_is_not_installed_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut process = Process::start(Command::new("sh").args(["-c", "echo no; exit 3"]), &log).unwrap();
        let error = process.wait_for(|said| said.contains("Listening").then_some(())).unwrap_err();
        assert!(error.to_string().contains("no"), "{error}");
        let error = process.check_runs().unwrap_err();
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        for absent in ["no-such-program-anywhere", "/no/such/program"] {
            assert!(Process::start(&mut Command::new(absent), &log).is_err(), "{absent}");
        }
    }
}
