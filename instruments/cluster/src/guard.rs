//! Child processes that end when their owner does, however that ends.
//!
//! A shell starts a watcher in the background and then becomes the child (`exec`, so that it keeps
//! the process id). The watcher reads from a pipe. The owner holds the only writing end and never
//! writes. When the owner ends, even by SIGKILL, the kernel closes the pipe, the watcher's read
//! ends, and the watcher kills its process group: the child and itself.
//!
//! Why not `PR_SET_PDEATHSIG`: that signal comes when the parent's *thread* ends, and it is lost if
//! the parent dies before the child asks for it. Here the owner cannot die unnoticed at any moment,
//! because the pipe exists before the child does. The child has a process group of its own. So
//! Ctrl-C at a terminal reaches the owner alone, and `kill 0` in the group hits nobody else (a
//! process id is not reused while a group has it).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The pause between two looks at a process.
const PAUSE: Duration = Duration::from_millis(10);

/// Starts the watcher and becomes the program that its arguments name. POSIX gives a background
/// process an empty standard input, so the watcher uses the third descriptor. Standard error is a
/// pipe at first, which both close only when the watcher runs. Its reader sees the end of the
/// pipe then. A signal that held the shell earlier would leave a child unwatched.
const SCRIPT: &str = r#"exec 3<&0 </dev/null
(printf child-watcher >/proc/self/comm; exec 2>&1; read -r nothing <&3; kill -9 0) &
exec 3<&- 2>&1
exec "$@""#;

/// The name of a watcher (`/proc/PID/comm`). Who measures what a process group uses leaves it out.
pub const WATCHER: &str = "child-watcher";

/// A command that starts a program in a process group of its own, which does not outlive the owner
/// of the program. The program's standard input is empty. Both its outputs go to the standard
/// output of the command, which the caller sets, as well as the environment and the folder.
///
/// The standard input of the started process is the lifeline: when it closes, the watcher kills the
/// group. The end of its standard error shows that the watcher runs.
pub fn guarded<S: AsRef<OsStr>>(program: &OsStr, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, "sh"]).arg(program).args(arguments);
    command.stdin(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command
}

/// A child process that does not outlive its owner. Dropping it kills it and waits until it is
/// gone.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    _lifeline: ChildStdin,
}

impl Guarded {
    /// Starts a program, and waits until it is watched. Its standard input is empty, and both its
    /// outputs go to `output`. `prepare` may set its environment and folder.
    ///
    /// # Errors
    /// No process can be started. A missing program is no error here: the child then ends with a
    /// message in `output`.
    pub fn spawn<S: AsRef<OsStr>>(
        program: &OsStr,
        arguments: impl IntoIterator<Item = S>,
        output: File,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let mut command = guarded(program, arguments);
        command.stdout(output);
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

    /// Sends it a signal: to it alone, not to its watcher. Nothing happens if it has ended.
    ///
    /// # Errors
    /// The system refuses that.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        // Until this process waits for the child, the child's id belongs to nobody else.
        match self.child.try_wait()? {
            Some(_) => Ok(()),
            None => Ok(kill_process(Pid::from_child(&self.child), signal)?),
        }
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The system refuses to wait for it.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its end, at most this long. Returns its exit status, or `None` if it still runs.
    ///
    /// # Errors
    /// The system refuses to wait for it.
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
    ///
    /// # Errors
    /// The system refuses that.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // If it cannot be killed here, the watcher kills it, now that the pipe closes.
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;
    use crate::cache;

    /// How long a step may take before a test gives up.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Names the file that the child should hold, for the owner below, which is a process of its
    /// own.
    const OUTPUT: &str = "PENATES_TEST_GUARD_OUTPUT";

    /// Starts a child that holds this file locked, as does its watcher.
    fn sleeper(output: &Path) -> Guarded {
        let output = cache::lock(output, PATIENCE).unwrap().unwrap();
        Guarded::spawn("sleep".as_ref(), ["3600"], output, |_| {}).unwrap()
    }

    /// Whether no process holds the file any more, so that the child and its watcher are gone.
    fn is_released(output: &Path, patience: Duration) -> bool {
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
    fn a_killed_owner_ends_even_a_child_that_is_held() {
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
        assert!(!is_released(&output, Duration::ZERO));
        owner.kill().unwrap();
        owner.wait().unwrap();
        assert!(is_released(&output, PATIENCE), "the child outlived its owner");
    }

    #[test]
    fn a_watcher_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let child = sleeper(&folder.path().join("output"));
        // Its parent, and the leader of its group, is the child.
        let of_child = format!(" {0} {0} ", child.pid());
        let stats = std::fs::read_dir("/proc").unwrap().flatten();
        let mut stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        assert!(stats.any(|stat| stat.contains(&format!("({WATCHER})")) && stat.contains(&of_child)));
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
        assert!(is_released(&output, PATIENCE));
    }

    #[test]
    fn a_child_that_is_dropped_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        drop(sleeper(&output));
        assert!(is_released(&output, PATIENCE));
    }

    #[test]
    fn a_child_gets_its_arguments_unchanged_and_an_empty_input() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let file = File::create(&output).unwrap();
        let arguments = ["-c", r#"cat; printf '<%s>' "$@""#, "sh", "a b", "$HOME", "", "'\""];
        let mut child = Guarded::spawn("sh".as_ref(), arguments, file, |_| {}).unwrap();
        assert!(child.wait_for(PATIENCE).unwrap().is_some_and(|status| status.success()));
        assert_eq!(std::fs::read_to_string(&output).unwrap(), "<a b><$HOME><><'\">");
    }
}
