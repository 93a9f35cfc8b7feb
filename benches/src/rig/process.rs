//! Servers as child processes, and their usage according to Linux (proc(5)).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// The time limit for a server to be ready, and to end.
const PATIENCE: Duration = Duration::from_secs(180);
/// The pause between two polls.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The time limit for a server's background work.
const SETTLE_MAX: Duration = Duration::from_secs(60);
/// How long it must be idle then, and how much of a processor it may use meanwhile.
const SETTLED_FOR: Duration = Duration::from_millis(500);
const IDLE_SHARE: f64 = 0.05;

/// How many bytes of a server's last output are shown.
const LAST_WORDS_BYTES: usize = 2_000;

/// A server that ends when the value is dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it, with its output in the file `log`.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self> {
        let out = fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command.stdout(out.try_clone()?).stderr(out).stdin(std::process::Stdio::null()).spawn();
        let child = child.with_context(|| format!("cannot start {:?}", command.get_program()))?;
        Ok(Self { child, log: log.to_path_buf() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until its output contains something that `find` finds.
    pub fn wait_for<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> Result<T> {
        let begun = Instant::now();
        loop {
            let said = fs::read_to_string(&self.log)?;
            if let Some(found) = find(&said) {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("a server ended with {status} and said: {}", end_of(&said));
            }
            ensure!(begun.elapsed() < PATIENCE, "a server is not ready; it said: {}", end_of(&said));
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The usage of the server and its children so far.
    pub fn usage(&self) -> Result<Usage> {
        let mut sum = Usage::of_process(self.id())?;
        for child in children(self.id())? {
            sum = sum.plus(Usage::of(&child)?);
        }
        Ok(sum)
    }

    /// Waits until it is almost idle (for example after merging), at most for a minute.
    pub fn settle(&self) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < SETTLE_MAX {
            let before = self.usage()?;
            std::thread::sleep(SETTLED_FOR);
            if self.usage()?.since(before).cpu_seconds < IDLE_SHARE * SETTLED_FOR.as_secs_f64() {
                break;
            }
        }
        Ok(())
    }

    /// The process ids of its children.
    pub fn child_ids(&self) -> Result<Vec<String>> {
        children(self.id())
    }

    /// Its present memory.
    pub fn memory(&self) -> Result<Memory> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).context("/proc has no memory")?;
            let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
            anyhow::Ok(kilobytes * 1024.0 / 1e6)
        };
        Ok(Memory { resident_mb: bytes("VmRSS:")?, peak_mb: bytes("VmHWM:")? })
    }

    /// Resets the peak to the memory that is resident now.
    pub fn reset_peak(&self) -> Result<()> {
        fs::write(format!("/proc/{}/clear_refs", self.id()), "5").context("cannot reset the peak of a process")
    }

    fn ask_to_end(&mut self) -> Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(id, Signal::TERM)?;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        bail!("it does not end")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ask_to_end().is_err() {
            let _ = self.child.kill(); // it may have ended already
            let _ = self.child.wait();
        }
    }
}

/// The last output of a server: some write a line per request.
fn end_of(said: &str) -> &str {
    let from = said.len().saturating_sub(LAST_WORDS_BYTES);
    &said[said.ceil_char_boundary(from)..]
}

fn children(id: u32) -> Result<Vec<String>> {
    // The children of all threads according to the kernel. Without that file (CONFIG_PROC_CHILDREN)
    // there are none to add.
    let all = fs::read_dir(format!("/proc/{id}/task"))?
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok())
        .collect::<String>();
    Ok(all.split_whitespace().map(str::to_owned).collect())
}

/// The usage of a process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time in seconds of the process itself, in the kernel and outside.
    pub cpu_seconds: f64,
    /// The same for its children that have ended.
    pub ended_children_cpu_seconds: f64,
    /// Bytes sent to disks, minus those truncated before they were written; including children that
    /// have ended.
    pub disk_written_bytes: f64,
    /// Bytes read from disks.
    pub disk_read_bytes: f64,
}

impl Usage {
    /// The usage of this process.
    pub fn own() -> Result<Self> {
        Self::of("self")
    }

    /// The usage of another process, without its children.
    pub fn of_process(id: u32) -> Result<Self> {
        Self::of(&id.to_string())
    }

    fn of(process: &str) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        // The name of the program, in brackets, may contain anything; the third field follows it.
        let fields: Vec<_> =
            stat.rsplit_once(')').context("/proc/PID/stat has no name")?.1.split_whitespace().collect();
        let seconds = |field: usize| {
            let ticks: f64 = fields.get(field - 3).context("/proc/PID/stat is too short")?.parse()?;
            anyhow::Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
        };
        // Only its owner may read the I/O figures of a process.
        let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
        let bytes = |name: &str| -> f64 {
            io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap_or_default()
        };
        Ok(Self {
            cpu_seconds: seconds(14)? + seconds(15)?,
            ended_children_cpu_seconds: seconds(16)? + seconds(17)?,
            disk_written_bytes: bytes("write_bytes:") - bytes("cancelled_write_bytes:"),
            disk_read_bytes: bytes("read_bytes:"),
        })
    }

    fn plus(self, other: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            ended_children_cpu_seconds: self.ended_children_cpu_seconds + other.ended_children_cpu_seconds,
            disk_written_bytes: self.disk_written_bytes + other.disk_written_bytes,
            disk_read_bytes: self.disk_read_bytes + other.disk_read_bytes,
        }
    }

    /// The usage since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - earlier.cpu_seconds,
            ended_children_cpu_seconds: self.ended_children_cpu_seconds - earlier.ended_children_cpu_seconds,
            disk_written_bytes: self.disk_written_bytes - earlier.disk_written_bytes,
            disk_read_bytes: self.disk_read_bytes - earlier.disk_read_bytes,
        }
    }
}

/// The memory of a process in megabytes (10^6 bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Resident now.
    pub resident_mb: f64,
    /// The peak of resident memory.
    pub peak_mb: f64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_usage_of_a_child_is_known_after_it_has_ended() {
        let before = Usage::own().unwrap();
        assert!(
            Command::new("sh")
                .args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"])
                .status()
                .unwrap()
                .success()
        );
        assert!(Usage::own().unwrap().since(before).ended_children_cpu_seconds > 0.0);
    }

    #[test]
    fn a_process_prints_has_memory_and_ends_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        let mut process =
            Process::start(command.args(["-c", "echo here; sleep 1000"]), &folder.path().join("log")).unwrap();
        process.wait_for(|said| said.contains("here").then_some(())).unwrap();
        let memory = process.memory().unwrap();
        assert!(memory.resident_mb > 0.0 && memory.peak_mb >= memory.resident_mb, "{memory:?}");
        let id = process.id();
        drop(process);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn a_server_that_ends_at_once_is_an_error_with_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        let mut process = Process::start(command.args(["-c", "echo no; exit 3"]), &folder.path().join("log")).unwrap();
        let error = process.wait_for(|said| said.contains("Listening").then_some(())).unwrap_err();
        assert!(error.to_string().contains("no"), "{error}");
    }
}
