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
/// standard input, therefore the third descriptor.
const SCRIPT: &str = r#"exec 3<&0 </dev/null
(read -r nothing <&3; kill -9 0) &
exec 3<&-
exec "$@""#;

/// A child process that does not outlive its owner. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    _lifeline: ChildStdin,
}

impl Guarded {
    /// Starts a program. Its standard input is empty; both its outputs go to `output`. `prepare` may set environment and folder.
    pub fn spawn<S: AsRef<OsStr>>(
        program: &OsStr,
        arguments: impl IntoIterator<Item = S>,
        output: File,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sh"]).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).process_group(0);
        prepare(&mut command);
        let mut child = command.spawn()?;
        let lifeline = child.stdin.take().ok_or_else(|| io::Error::other("the child has no standard input"))?;
        Ok(Self { child, _lifeline: lifeline })
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
