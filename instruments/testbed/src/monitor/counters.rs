//! What a process has used since it started, and the memory that it has (proc(5)). A monitor
//! samples rates of whole trees; these are the counters themselves, of one process or with its
//! children.

use cluster::WATCHER;
use procfs::process::{ClearRefs, Io, Process};
use procfs::{ProcError, ProcResult};

use super::usage::CpuTicks;

/// What a process has used since it started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counters {
    /// Processor time of the process itself, in programs and in the kernel, in seconds. The kernel
    /// counts hundredths.
    pub cpu_s: f64,
    /// The same of its children that ended and were reaped.
    pub reaped_cpu_s: f64,
    /// Bytes from and to disks; `None` where they may not be read, as those of another user's
    /// process.
    pub disks: Option<DiskBytes>,
}

/// Bytes from and to disks, of a process and its children that ended and were reaped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskBytes {
    /// Read from disks.
    pub read: f64,
    /// Written to files, and so to disks sooner or later.
    pub written: f64,
    /// Never sent to disks, because the file was deleted or truncated before. They count as written
    /// too.
    pub cancelled: f64,
}

impl Counters {
    /// Those of the process that has an id now, without its children that run.
    ///
    /// # Errors
    /// There is no such process.
    pub fn of(pid: u32) -> ProcResult<Self> {
        let process = process(pid)?;
        let ticks = CpuTicks::from(&process.stat()?);
        let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
        Ok(Self {
            cpu_s: seconds(ticks.user + ticks.system),
            reaped_cpu_s: seconds(ticks.reaped_user + ticks.reaped_system),
            disks: process.io().ok().as_ref().map(DiskBytes::from),
        })
    }

    /// Those of this process, without its children that run.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn own() -> ProcResult<Self> {
        Self::of(std::process::id())
    }

    /// Those of a process and of its [`children`], but not of their children.
    ///
    /// # Errors
    /// There is no such process.
    pub fn with_children(pid: u32) -> ProcResult<Self> {
        let own = Self::of(pid)?;
        // A child that ends meanwhile is left out.
        let children = children(pid)?.into_iter().filter_map(|child| Self::of(child).ok());
        Ok(children.fold(own, |sum, child| sum.combined(child, |sum, child| sum + child)))
    }

    /// What was added since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        self.combined(earlier, |now, earlier| now - earlier)
    }

    /// Bytes read from disks; 0 where they may not be read.
    pub fn read_bytes(self) -> f64 {
        self.disks.map_or(0.0, |disks| disks.read)
    }

    /// Bytes sent to disks, without those that were cancelled; 0 where they may not be read.
    pub fn written_bytes(self) -> f64 {
        self.disks.map_or(0.0, |disks| disks.written - disks.cancelled)
    }

    fn combined(self, other: Self, of: fn(f64, f64) -> f64) -> Self {
        let disks = self.disks.zip(other.disks).map(|(one, other)| DiskBytes {
            read: of(one.read, other.read),
            written: of(one.written, other.written),
            cancelled: of(one.cancelled, other.cancelled),
        });
        Self { cpu_s: of(self.cpu_s, other.cpu_s), reaped_cpu_s: of(self.reaped_cpu_s, other.reaped_cpu_s), disks }
    }
}

impl From<&Io> for DiskBytes {
    fn from(io: &Io) -> Self {
        let [read, written, cancelled] = [io.read_bytes, io.write_bytes, io.cancelled_write_bytes].map(|it| it as f64);
        Self { read, written, cancelled }
    }
}

/// The resident memory of a process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resident {
    /// Bytes now.
    pub now_bytes: f64,
    /// The most bytes since the process started, or since the last [`Resident::reset_peak`].
    pub peak_bytes: f64,
}

impl Resident {
    /// That of the process that has an id now.
    ///
    /// # Errors
    /// There is no such process, or it has ended and waits to be reaped.
    pub fn of(pid: u32) -> ProcResult<Self> {
        let status = process(pid)?.status()?;
        let bytes = |kib: Option<u64>| kib.map(|kib| kib as f64 * 1024.0).ok_or(ProcError::Incomplete(None));
        Ok(Self { now_bytes: bytes(status.vmrss)?, peak_bytes: bytes(status.vmhwm)? })
    }

    /// Resets the peak of a process to the memory that is resident now.
    ///
    /// # Errors
    /// There is no such process, or it is another user's.
    pub fn reset_peak(pid: u32) -> ProcResult<()> {
        process(pid)?.clear_refs(ClearRefs::PeakRSS)
    }
}

/// The ids of the children that a process has now, without the watcher that ends it with its owner.
/// There are none if the kernel does not list them (`CONFIG_PROC_CHILDREN`).
///
/// # Errors
/// There is no such process.
pub fn children(pid: u32) -> ProcResult<Vec<u32>> {
    let tasks = process(pid)?.tasks()?;
    let children = tasks.flatten().flat_map(|task| task.children().unwrap_or_default());
    Ok(children.filter(|child| !is_watcher(*child)).collect())
}

fn is_watcher(pid: u32) -> bool {
    process(pid).and_then(|process| process.stat()).is_ok_and(|stat| stat.comm == WATCHER)
}

/// No process has the id 0. It is used for ids that no process can have.
fn process(pid: u32) -> ProcResult<Process> {
    Process::new(i32::try_from(pid).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;

    use super::*;

    #[test]
    fn the_usage_of_a_child_is_known_after_it_has_ended() {
        let before = Counters::own().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]);
        assert!(command.status().unwrap().success());
        assert!(Counters::own().unwrap().since(before).reaped_cpu_s > 0.0);
    }

    #[test]
    fn bytes_that_were_cancelled_were_not_sent_and_unknown_bytes_stay_unknown() {
        let disks = |read, written, cancelled| Some(DiskBytes { read, written, cancelled });
        let of = |cpu_s, disks| Counters { cpu_s, reaped_cpu_s: 0.0, disks };
        let used = of(3.0, disks(70.0, 900.0, 50.0)).since(of(1.0, disks(20.0, 100.0, 0.0)));
        assert_eq!(used, of(2.0, disks(50.0, 800.0, 50.0)));
        assert_eq!((used.read_bytes(), used.written_bytes()), (50.0, 750.0));
        let hidden = used.since(of(0.0, None));
        assert_eq!((hidden.disks, hidden.read_bytes(), hidden.written_bytes()), (None, 0.0, 0.0));
    }

    #[test]
    fn this_process_has_memory_and_an_absent_one_has_nothing() {
        let resident = Resident::of(std::process::id()).unwrap();
        assert!(resident.now_bytes > 0.0 && resident.peak_bytes >= resident.now_bytes, "{resident:?}");
        assert!(Counters::of(u32::MAX).is_err() && Resident::of(u32::MAX).is_err() && children(u32::MAX).is_err());
    }
}
