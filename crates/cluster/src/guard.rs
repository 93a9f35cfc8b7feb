//! Child processes that end when their owner does, however that ends.
//!
//! A child is started by a shell that becomes it (`exec`, so that it keeps the process id), after the shell has left a watcher in
//! the background. The watcher reads from a pipe whose one writer is the owner, and to which nothing is ever written. When the
//! owner ends, be it by SIGKILL, the kernel closes the pipe, the watcher's read ends, and it kills its process group: the child,
//! and itself.
//!
//! Why not `PR_SET_PDEATHSIG`: that signal comes when the parent's *thread* ends, and it is lost on whoever's parent died before
//! it asked. Here there is no moment at which the owner could die unnoticed, because the pipe is there before the child is. The
//! process group is the child's own, so that Ctrl-C at a terminal reaches the owner alone, and `kill 0` in it can hit nobody else
//! (a process id is not given anew while a group bears it).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The pause between two looks at a process.
const PAUSE: Duration = Duration::from_millis(10);

/// Leaves the watcher behind and becomes the program that its arguments name. POSIX gives what runs in the background an empty
/// standard input, therefore the third descriptor. Standard error is a pipe at first, and both let go of it only when the watcher
/// is there: where the pipe ends, its reader knows that. A signal that held the shell before would leave a child unwatched.
const SCRIPT: &str = r#"exec 3<&0 </dev/null
(exec 2>&1; read -r nothing <&3; kill -9 0) &
exec 3<&- 2>&1
exec "$@""#;

/// A child process that does not outlive its owner. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    _lifeline: ChildStdin,
}

impl Guarded {
    /// Starts a program, and waits until it is watched. Its standard input is empty; both its outputs go to `output`. `prepare` may
    /// set environment and folder.
    pub fn spawn<S: AsRef<OsStr>>(
        program: &OsStr,
        arguments: impl IntoIterator<Item = S>,
        output: File,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sh"]).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(output).stderr(Stdio::piped()).process_group(0);
        prepare(&mut command);
        let mut child = command.spawn()?;
        let lifeline = child.stdin.take().ok_or_else(|| io::Error::other("the child has no standard input"))?;
        let unwatched = child.stderr.take().ok_or_else(|| io::Error::other("the child has no standard error"))?;
        let child = Self { child, _lifeline: lifeline };
        io::copy(&mut { unwatched }, &mut io::sink())?;
        Ok(child)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal: to it alone, not to its watcher.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // Until it is waited for, its id belongs to nobody else.
        match self.child.try_wait()? {
            Some(_) => Ok(()),
            None => Ok(kill_process(Pid::from_child(&self.child), signal)?),
        }
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end, at most this long.
    pub fn wait_for(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        loop {
            match self.try_wait()? {
                None if Instant::now() < deadline => std::thread::sleep(PAUSE),
                ended => return Ok(ended),
            }
        }
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Whatever cannot be killed here the watcher kills, now that the pipe closes.
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;
    use crate::cache;

    /// How long anything may take before a test gives up.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Says to the owner below, which is a process of its own, which file its child should hold.
    const OUTPUT: &str = "PENATES_TEST_GUARD_OUTPUT";

    /// Starts a child that holds this file locked, as does its watcher.
    fn sleeper(output: &Path) -> Guarded {
        let output = cache::lock(output, PATIENCE).unwrap().unwrap();
        Guarded::spawn("sleep".as_ref(), ["3600"], output, |_| {}).unwrap()
    }

    /// Whether no process holds the file any more: the child and its watcher are gone.
    fn is_let_go_of(output: &Path, patience: Duration) -> bool {
        cache::lock(output, patience).unwrap().is_some()
    }

    /// Becomes the owner of a child that is held by SIGSTOP, and waits to be killed.
    #[test]
    #[ignore = "the process that another test kills"]
    fn an_owner() {
        let mut child = sleeper(std::env::var_os(OUTPUT).unwrap().as_ref());
        child.signal(Signal::STOP).unwrap();
        println!("ready");
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn an_owner_that_is_killed_takes_even_a_child_that_is_held_along() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let mut owner = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "guard::tests::an_owner", "--ignored", "--nocapture"])
            .env(OUTPUT, &output)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = io::BufReader::new(owner.stdout.take().unwrap());
        assert!(io::BufRead::lines(said).map_while(std::result::Result::ok).any(|line| line.contains("ready")));
        assert!(!is_let_go_of(&output, Duration::ZERO));
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert!(is_let_go_of(&output, PATIENCE), "the child outlived its owner");
    }

    #[test]
    fn a_child_outlives_the_thread_that_started_it() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let mut child = std::thread::scope(|scope| scope.spawn(|| sleeper(&output)).join().unwrap());
        assert_eq!(child.wait_for(Duration::from_millis(100)).unwrap(), None);
    }

    #[test]
    fn a_child_that_ends_by_itself_leaves_no_watcher_behind() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let mut child = sleeper(&output);
        child.signal(Signal::TERM).unwrap();
        assert!(child.wait_for(PATIENCE).unwrap().is_some());
        drop(child);
        assert!(is_let_go_of(&output, PATIENCE));
    }

    #[test]
    fn a_child_that_is_dropped_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        drop(sleeper(&output));
        assert!(is_let_go_of(&output, PATIENCE));
    }

    #[test]
    fn a_child_has_its_arguments_as_they_are_and_an_empty_input() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let file = File::create(&output).unwrap();
        let arguments = ["-c", r#"cat; printf '<%s>' "$@""#, "sh", "a b", "$HOME", "", "'\""];
        let mut child = Guarded::spawn("sh".as_ref(), arguments, file, |_| {}).unwrap();
        assert!(child.wait_for(PATIENCE).unwrap().is_some_and(|status| status.success()));
        assert_eq!(std::fs::read_to_string(&output).unwrap(), "<a b><$HOME><><'\">");
    }
}
